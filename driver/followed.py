"""What the commands that end in a run share: following it, printing what came of it, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from driver import output
from driver.errors import FAILED

if TYPE_CHECKING:
    from driver.findings import Finding
    from driver.kube.connection import Connection


def start_timeout_option[F: Callable[..., Any]](seconds: int) -> Callable[[F], F]:
    """Adds `--start-timeout SECONDS` with this default."""
    return click.option(
        "--start-timeout",
        type=click.IntRange(min=0),
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help="For the first workers to be there; after it the command ends and says what it waits for. 0: no limit.",
    )


def tell_findings(findings: Sequence[Finding]) -> None:
    """Warnings, and what could not be looked at. What is well is not told."""
    console = output.stderr()
    for finding in findings:
        if finding.status in ("warning", "not checked"):
            said = " ".join(part for part in (finding.found, finding.rule) if part)
            console.print(f"{str(finding.status).capitalize()}: {said}", style="yellow", markup=False, soft_wrap=True)
            if finding.fix:
                console.print(f"  {finding.fix}", markup=False, soft_wrap=True)


def follow(
    connection: Connection,
    release: str,
    job: str,
    run: Mapping[str, Any],
    *,
    start_timeout: float,
    more: Mapping[str, Any] | None = None,
) -> int:
    """Follows the job of a release that was just installed, and prints what came of it; the exit code.

    job: the RayJob's name. run: run.yaml. more: what `--output json` has besides.
    Raises a DriverError where it cannot be followed to its end, and for Ctrl-C.
    """
    from driver.kube import outcome, run_to_end  # commands that only show their help do not need it

    request = run_to_end.request(release, job, run, namespace=connection.namespace, start_timeout=start_timeout)
    facts = run_to_end.follow(connection, request, output.stderr())
    if output.as_json():
        output.print_json({**(more or {}), **facts})
    else:
        outcome.summary(facts, output.stdout(), run_to_end.again(release, connection.namespace))
    return 0 if facts["succeeded"] else FAILED
