"""`driver logs`: what a run and all its workers print, in one stream."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from driver import kube_options, output
from driver.completion import release_argument
from driver.kube_options import kube_options as with_kube_options

if TYPE_CHECKING:
    from driver.kube.log_lines import Said

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Since(click.ParamType[int]):
    """`90s`, `10m`, `2h`, `1d`, or a time (RFC 3339; of this machine's zone where it names none), in seconds ago."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if found := re.fullmatch(r"(\d+)([smhd])", value):
            seconds = int(found[1]) * _UNITS[found[2]]
        else:
            try:
                seconds = int(time.time() - datetime.fromisoformat(value).astimezone().timestamp()) + 1
            except (ValueError, OverflowError):
                self.fail(f"{value!r} is neither a duration (90s, 10m, 2h, 1d) nor a time (2026-11-30T15:04:05Z).")
        if seconds <= 0:
            self.fail(f"{value!r} is not in the past.")
        return seconds


HELP = """Print what the newest run of RELEASE and all its workers have said, in the order of time.

Each line begins with SLICE/HOST, or `run` for the process that leads the training. A line that is repeated within three
seconds, by one host or by many, is printed once, and then how often it was said. What a host said is there when the
host is not any more.

\b
Examples:
  driver logs llama --follow
  driver logs llama --slice 1 --host 0 --since 10m
"""


@click.command("logs", help=HELP)
@release_argument(required=False)
@click.option("--slice", "slice_number", type=click.IntRange(0), help="The hosts of this slice only.")
@click.option("--host", type=click.IntRange(0), help="The hosts of this number in their slice only.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@click.option("--since", type=Since(), metavar="TIME", help="What was said since: 90s, 10m, 2h, 1d ago, or a time.")
@click.option("--raw", is_flag=True, help="The lines as Ray has them, unfolded.")
@with_kube_options
@output.output_option
def command(
    release: str, slice_number: int | None, host: int | None, follow: bool, since: int | None, raw: bool
) -> None:
    from driver.kube import log_view, snapshot

    if raw and (slice_number is not None or host is not None):
        raise click.UsageError("--raw prints the lines of all hosts: leave out --slice and --host.")
    if raw and output.as_json():
        raise click.UsageError("--raw prints text: leave out --output json.")
    connection = kube_options.connection()
    name = snapshot.existing_release(connection, release)

    def tell(what: str) -> None:
        click.echo(f"[{what}]", err=True)

    try:
        if raw:
            for text in log_view.raw(connection, name, since=since, follow=follow, tell=tell):
                _print(text)
            return
        line = _as_json if output.as_json() else _as_text(colours=output.stdout().color_system is not None)
        for said in log_view.shown(
            connection, name, slice_number=slice_number, host=host, since=since, follow=follow, tell=tell
        ):
            _print(line(said))
    except KeyboardInterrupt:
        if not follow:
            raise


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _as_text(colours: bool) -> Callable[[Said], str]:
    def line(said: Said) -> str:
        place = f"{said.place:>7} |"
        if colours:
            place = click.style(place, fg="cyan" if said.slice >= 0 else "magenta")
        repeated = ""
        if said.times > 1:
            who = f" by {said.speakers} hosts" if said.speakers > 1 else ""
            repeated = f" [{said.times} times{who}]"
            repeated = click.style(repeated, dim=True) if colours else repeated
        return f"{place} {said.text}{repeated}"

    return line


def _as_json(said: Said) -> str:
    known = said.slice >= 0
    return json.dumps(
        {
            "time": datetime.fromtimestamp(said.time / 1e9, UTC).isoformat(),
            "slice": said.slice if known else None,
            "host": said.host if known and said.host >= 0 else None,
            "pod": said.pod or None,
            "address": said.ip or None,
            "text": said.text,
            "times": said.times,
            "hosts": said.speakers,
        }
    )
