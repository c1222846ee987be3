"""`driver runs`: the runs in a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from rich.table import Table

from driver import kube_options, output
from driver.completion import release_argument
from driver.kube_options import kube_options as with_cluster

if TYPE_CHECKING:
    from driver.kube.runs import Run

_COLOURS = {"succeeded": "green", "failed": "bold red", "running": "cyan"}


@click.command("runs")
@release_argument(required=False)
@with_cluster
@output.output_option
def command(release: str) -> None:
    """Lists the runs of the namespace's releases, the latest first; with RELEASE, also its earlier ones.

    Earlier runs are those of the revisions that Helm keeps; to see them takes the right to read secrets.

    \b
    driver runs -n maxtext
    driver runs llama --output json
    """
    from driver.kube import runs

    connection = kube_options.connection()
    now = datetime.now(UTC)
    with output.stderr().status("Looking at the runs"):
        found = runs.live(connection, release)
        if release:
            found += runs.earlier(connection, release, found)
    if output.as_json():
        output.print_json({"namespace": connection.namespace, "runs": [one.as_data(now) for one in found]})
        return
    if not found:
        output.stdout().print(f"There are no runs in namespace {connection.namespace}.", markup=False)
        return
    output.stdout().print(_table(found, now))
    for one in found:
        if one.result == "failed" and one.message:
            output.stdout().print(f"{one.job}: {one.message}", markup=False, soft_wrap=True)


def _table(found: Sequence[Run], now: datetime) -> Table:
    # The local module's imports are the standard library and rich: it is the same clock as elsewhere.
    from driver.local.progress import duration

    table = Table(box=None, pad_edge=False)
    for heading in ("Release", "Run", "Attempt", "Result", "Steps", "Began", "Took", "Job"):
        table.add_column(heading, overflow="fold")
    for one in found:
        seconds = one.seconds(now)
        result = f"[{_COLOURS[one.result]}]{one.result}[/]" if one.result in _COLOURS else one.result
        began = one.began.astimezone().strftime("%Y-%m-%d %H:%M") if one.began else ""
        steps = str(one.steps) if one.steps is not None else ""
        attempt = str(one.attempt) if one.attempt else ""
        took = duration(seconds) if seconds is not None else ""
        table.add_row(one.release, one.name, attempt, result, steps, began, took, one.job)
    return table
