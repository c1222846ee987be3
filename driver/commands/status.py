"""`driver status`: a release and its run on one screen."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from driver import kube_options, output
from driver.completion import release_argument
from driver.kube_options import kube_options as with_kube_options

if TYPE_CHECKING:
    from driver.kube.connection import Connection

_SECONDS = 2.0
_HOSTS = 8
"""That are asked for the run's figures at the first look: process 0 is on one of the slices' first hosts."""


@click.command("status")
@release_argument(required=False)
@click.option("--watch", is_flag=True, help="Shows it anew every two seconds, until the run has ended.")
@with_kube_options
@output.output_option
def command(release: str, watch: bool) -> None:
    """Shows how a run is getting on: step, loss, throughput, slices and hosts, and what keeps back those that wait.

    RELEASE may be left out where the namespace has only one.

    \b
    driver status llama3-8b
    driver status llama3-8b --watch
    driver status llama3-8b --output json
    """
    # The Kubernetes client takes a second to import, which --help should not.
    from driver.kube import screen, snapshot

    connection = kube_options.connection()
    chosen = release or snapshot.only_release(connection)
    if watch:
        _watch(connection, chosen)
        return
    facts = next(_facts(connection, chosen))
    if output.as_json():
        output.print_json(facts)
    else:
        output.stdout().print(screen.status(facts))


def _facts(connection: Connection, release: str) -> Iterator[dict[str, Any]]:
    """The facts as they are at each asking."""
    from driver.errors import DriverError
    from driver.kube import pod_log, snapshot, status
    from driver.kube.gauges import RunGauges

    figures, tries = RunGauges(connection), _HOSTS
    while True:
        seen = snapshot.read(connection, release)
        gauges: Mapping[str, float] = {}
        trouble = words = ""
        if status.phase(seen, {}) in status.UNDER_WAY:
            try:
                gauges, trouble = figures.read(seen, tries), figures.trouble
            except DriverError as error:  # what Kubernetes says of the release is worth showing without them
                trouble = error.found
        ended = None
        if status.phase(seen, {}) in status.WITH_WORDS:
            try:
                ended = status.end(seen, pod_log.last_words(connection, seen.submitters))
            except DriverError as error:
                words = error.found
        tries = 1  # who watches asks again
        facts = status.facts(seen, gauges, ended, figures_known=not trouble)
        if trouble:
            facts["remarks"].append(f"The run's figures cannot be read: {trouble}")
        if words:
            facts["remarks"].append(f"How the run ended cannot be read: {words}")
        yield facts


def _watch(connection: Connection, release: str) -> None:
    """In a terminal one screen that is drawn anew, elsewhere one after the other; as JSON one document a line."""
    from rich.live import Live

    from driver.kube import screen, status

    console = output.stdout()
    redrawn = Live(console=console, auto_refresh=False) if console.is_terminal and not output.as_json() else None
    with redrawn or nullcontext():
        for facts in _persistently(connection, release):
            if output.as_json():
                click.echo(output.document(facts))
            elif redrawn:
                redrawn.update(screen.status(facts), refresh=True)
            else:
                console.print(screen.status(facts), "")
            if facts["phase"] in status.ENDED:
                return
            time.sleep(_SECONDS)


def _persistently(connection: Connection, release: str) -> Iterator[dict[str, Any]]:
    """The facts, also past an API server that is restarted or upgraded: the run goes on meanwhile."""
    from driver.kube.connection import UnreachableError

    answered, told = False, ""
    while True:
        try:
            for facts in _facts(connection, release):
                answered = True
                yield facts
        except UnreachableError as error:
            if not answered:
                raise
            if error.found != told:
                output.stderr().print(f"{error.found} Trying again.", markup=False, soft_wrap=True)
            told = error.found
            time.sleep(_SECONDS)
