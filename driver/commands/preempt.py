"""`driver preempt`: takes a slice away as a Spot preemption does, and measures the recovery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from driver import kube_options, output
from driver.completion import release_argument
from driver.errors import FAILED, DriverError
from driver.kube_options import kube_options as with_kube_options

if TYPE_CHECKING:
    from driver.kube.preemption import Recovery


@click.command("preempt")
@release_argument(required=False)
@click.option("--slice", "number", type=click.IntRange(min=0), metavar="I", help="The slice [the last one].")
@click.option("--pod", metavar="NAME", help="One host in place of a slice.")
@click.option(
    "--grace",
    type=click.IntRange(0, 3600),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="From the notice to the end, but no longer than the pods' own grace period; 0: the hosts vanish.",
)
@click.option("--give-back", is_flag=True, help="Waits until the run trains on as many slices as before.")
@with_kube_options
@output.output_option
def command(release: str, number: int | None, pod: str | None, grace: int, give_back: bool) -> int:
    """Takes a slice of a training run away as a Spot preemption does, follows the recovery, and reports it.

    It deletes the pods of the slice, with a preemption's grace. Their nodes stay, so Kubernetes may start the pods
    again at once; to keep the slice away, cordon its nodes before. The exit code is 0 when the run trains again.

    \b
    driver preempt llama3-8b-elastic
    driver preempt llama3-8b-elastic --slice 1 --give-back
    driver preempt llama3-8b-elastic --pod llama3-8b-elastic-1f0c2a-tpu-worker-x7x2q --grace 0
    """
    if pod and number is not None:
        raise click.UsageError("--slice and --pod are two ways to say what goes; choose one.")
    # The Kubernetes client takes a second to import, which --help should not.
    from driver.kube import preemption, run_to_end, snapshot, taking
    from driver.kube.following import Request

    connection = kube_options.connection()
    name = release or snapshot.only_release(connection)
    taking.check_right(connection)
    request = Request(name, namespace=connection.namespace)
    target = preemption.choose(preemption.with_a_run(snapshot.read(connection, name)), number, pod or "")
    taken: list[str] = []

    def take(chosen: preemption.Target) -> None:
        taken.append(chosen.what)
        taking.take(connection, chosen.pods, grace)

    with run_to_end.follower(connection, request, output.stderr()) as follower:
        try:
            recovery = preemption.rehearse(
                follower,
                lambda now: preemption.choose(now, number, pod or ""),
                take,
                give_back=give_back,
            )
        except KeyboardInterrupt:
            raise DriverError(
                f"Stopped following. {taken[0].capitalize()} was taken away: the run recovers by itself."
                if taken
                else f"Stopped waiting for a step of the run: {target.what} was not taken away.",
                fix=request.come_back,
            ) from None
    if output.as_json():
        output.print_json({"release": name, "grace": grace, **recovery.as_data(), "events": follower.happened})
    else:
        _tell(recovery)
    return 0 if recovery.training_again is not None or _succeeded(recovery) else FAILED


def _succeeded(recovery: Recovery) -> bool:
    return recovery.outcome is not None and recovery.outcome.succeeded


def _tell(recovery: Recovery) -> None:
    from driver.local.progress import duration

    facts = recovery.as_data()
    rows = [("taken away", f"{facts['taken']}, at step {facts['atStep']}")]
    for key, label in (
        ("detectedSeconds", "stopped training"),
        ("restartedSeconds", "workers again"),
        ("trainingAgainSeconds", "training again"),
        ("givenBackSeconds", "all slices again"),
    ):
        if facts[key] is not None:
            rows.append((label, f"after {duration(facts[key])}"))
    if facts["stepsLost"] is not None:
        rows.append(("steps lost", f"{facts['stepsLost']} (it went on at step {facts['startStep']})"))
    rows.append(("slices", _slices(facts)))
    console = output.stdout()
    for label, text in rows:
        console.print(Text.assemble((f"{label:<18}", "dim"), text), soft_wrap=True)
    end = recovery.outcome
    if end is not None and not end.succeeded:
        console.print(f"The run has failed: {end.cause.found if end.cause else ''}", markup=False, soft_wrap=True)
    elif end is not None and facts["trainingAgainSeconds"] is None:
        console.print("The run came to its end before anything was lost.")
    console.print("To keep a slice away for longer, with the right to change nodes, and to give it back:")
    for line in recovery.target.cordon_commands().splitlines():
        console.print(f"  {line}", markup=False, soft_wrap=True)


def _slices(facts: Mapping[str, Any]) -> str:
    now = facts["slicesNow"]
    return f"{facts['slicesBefore']} before" + (f", {now} now" if now is not None else "")
