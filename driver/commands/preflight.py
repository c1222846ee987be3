"""`driver preflight`: what can be checked before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.table import Table

from driver import gcp_options, output
from driver.errors import FAILED
from driver.gcp_options import site_options

if TYPE_CHECKING:
    from driver.gcp.preflight import Outcome
    from driver.gcp.site import Site

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "bold red", "not checked": "dim"}


@click.command("preflight")
@site_options
@output.output_option
def command() -> int:
    """Checks what can be checked before anything is made: credentials, permissions, quota, the place, ranges, names.

    It reads only, and tells all problems at once, each with its fix. The exit code is 1 when there is a problem, 0
    when there are warnings alone.
    """
    # Google's clients take a second to import, which --help should not.
    from driver.gcp import cloud, preflight
    from driver.gcp.findings import Subject
    from driver.gcp.prerequisites import prerequisites

    site, endpoint = gcp_options.site(), gcp_options.api_endpoint()
    subject = Subject(site, prerequisites(site), lambda: cloud.connect(site.project, endpoint))
    with output.stderr().status(f"Checking project {site.project}"):
        outcomes = preflight.run(subject)
    if output.as_json():
        output.print_json(as_data(site, outcomes))
    else:
        show(site, outcomes)
    return FAILED if _count(outcomes, "problem") else 0


def as_data(site: Site, outcomes: Sequence[Outcome]) -> dict[str, object]:
    """For `--output json`."""
    return {
        "project": site.project,
        "zone": site.zone,
        "problems": _count(outcomes, "problem"),
        "warnings": _count(outcomes, "warning"),
        "checks": [finding for outcome in outcomes for finding in outcome.as_data()],
    }


def show(site: Site, outcomes: Sequence[Outcome]) -> None:
    """A table of all findings, and below it what mends the numbered ones: those lines are there to be copied."""
    console = output.stdout()
    table = Table(box=None, pad_edge=False)
    for heading in ("", "Result", "Check", "What was found"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("Result", "Check"))
    mends: dict[tuple[str, str, str], int] = {}
    for outcome in outcomes:
        for finding in outcome.findings:
            place = 0
            if finding.rule or finding.fix:
                # What breaks the same rule in the same way is told once.
                place = mends.setdefault((outcome.check, finding.rule, finding.fix), len(mends) + 1)
            colour = _COLOURS[finding.status]
            table.add_row(str(place or ""), f"[{colour}]{finding.status}", outcome.check, _plain(finding.found))
    console.print(table)
    for (check, rule, fix), place in mends.items():
        console.print(f"\n[bold]{place}. {check}[/]{': ' if rule else ''}{_plain(rule)}")
        for line in fix.splitlines():
            console.print(f"   {line}", markup=False, soft_wrap=True)
    console.print(f"\n{_summary(site, outcomes)}", markup=False)


def _summary(site: Site, outcomes: Sequence[Outcome]) -> str:
    counts = {word: _count(outcomes, word) for word in ("problem", "warning", "not checked")}
    if not any(counts.values()):
        return f"All is well in {site.project}. Nothing was made or changed."
    plural = {"problem": "problems", "warning": "warnings"}
    said = [f"{count} {plural.get(word, word) if count != 1 else word}" for word, count in counts.items() if count]
    return f"{', '.join(said)}. Nothing was made or changed."


def _count(outcomes: Sequence[Outcome], status: str) -> int:
    return sum(finding.status == status for outcome in outcomes for finding in outcome.findings)


def _plain(text: str) -> str:
    """As it is: Google's messages may have brackets, which rich would take for colours."""
    return text.replace("[", r"\[")
