"""`driver local`: the chart's run on emulated slices on this machine."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from driver import output, resources
from driver.local import preemption, records, report, training
from driver.local.preemption import Event, parse_give_back, parse_preemption
from driver.values_options import given, values_options

_STEPS_TO_REHEARSE = 6  # the fewest in which a slice goes and comes back between other steps


class _Event(click.ParamType[Event]):
    def __init__(self, metavar: str, parse: Callable[[str], Event]) -> None:
        self.name = metavar
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Event:
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("local")
@values_options
@click.option("--slices", type=click.IntRange(min=1), help="Slices [the profile's].")
@click.option(
    "--hosts", type=click.IntRange(min=1), help="Hosts per slice, of the profile's chips each [the profile's]."
)
@click.option("--steps", type=click.IntRange(min=1), help="Steps to train [the profile's].")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="The folder that stands in for the bucket; the run's own is in it.",
)
@click.option(
    "--preempt",
    "preemptions",
    multiple=True,
    type=_Event("SLICE@STEP[:SIGNAL]", parse_preemption),
    help="Takes a slice away after a step: KILL (default), the machine vanishes; TERM, as a Spot VM goes. Repeatable.",
)
@click.option(
    "--give-back",
    "give_backs",
    multiple=True,
    type=_Event("SLICE@STEP", parse_give_back),
    help="Brings a slice back after a step; repeatable.",
)
@click.option("--keep", is_flag=True, help="Leaves the emulated cluster up after the job, until Ctrl-C.")
@click.option(
    "--trainer-python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Python of an environment with Ray and MaxText [one that is made on first use].",
)
@click.option("--dashboard-port", type=click.IntRange(1024, 65535), help="Port of Ray's dashboard [a free one].")
@output.output_option
def command(**options: Any) -> int:
    """Trains on emulated TPU slices on this machine: the same chart, trainer and Ray as on GKE, with CPU devices in the
    place of TPU chips. The exit code is the job's.

    \b
    driver local -f tiny
    driver local -f tiny --set elastic.enabled=true --preempt 1@20 --give-back 1@40
    """
    return 0 if training.train(_request(**options), output.stderr(), _tell_result) else 1


def _request(
    *,
    files: tuple[str, ...],
    sets: tuple[str, ...],
    texts: tuple[str, ...],
    preemptions: tuple[Event, ...],
    give_backs: tuple[Event, ...],
    **options: Any,
) -> training.Request:
    return training.Request(given(files, sets, texts), events=(*preemptions, *give_backs), **options)


def _tell_result(facts: Mapping[str, Any]) -> None:
    if output.as_json():
        output.print_json(facts)
    else:
        report.summary(facts, output.stdout(), next_command(facts, sys.argv[1:]))


def next_command(facts: Mapping[str, Any], arguments: Sequence[str]) -> str:
    """This command line again, with what is worth trying next: the loss of a slice, or else more steps.

    Empty where neither would be accepted, and after a failure.
    """
    if not facts["succeeded"]:
        return ""
    steps, slices = facts["steps"], facts["slicesMax"]
    again = _without(arguments, "--preempt", "--give-back")
    suggestions = [[*_without(again, "--steps"), "--steps", str(2 * steps)]]
    if facts["slicesMin"] == slices > 1 and steps >= _STEPS_TO_REHEARSE:
        elastic = ["--set", f"elastic.enabled=true,elastic.minSlices={slices - 1}"]
        elastic += ["--set-string", f"job.runName={facts['run']}-elastic"]
        elastic += ["--preempt", f"1@{steps // 3}", "--give-back", f"1@{2 * (steps // 3)}"]
        suggestions.insert(0, again + elastic)
    return next((shlex.join(["driver", *suggested]) for suggested in suggestions if _accepted(suggested)), "")


def _accepted(arguments: Sequence[str]) -> bool:
    """Whether the chart, the rehearsal and the data's rules take this command line."""
    try:
        context = command.make_context("local", list(arguments[arguments.index("local") + 1 :]))
        request = _request(**context.params)
        run = training.plan(request).run
        preemption.check(request.events, run)
        data = records.trainer_module(resources.trainer_dir(), "data_arguments")
        data.validate(run["data"], elastic=run["elastic"]["enabled"])
    except (click.ClickException, ValueError):
        return False
    return True


def _without(arguments: Sequence[str], *options: str) -> list[str]:
    """A command line without some options and their values."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in options:
            next(rest, None)
        elif argument.partition("=")[0] not in options:
            kept.append(argument)
    return kept
