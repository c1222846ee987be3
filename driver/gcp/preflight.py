"""Everything that can be checked before anything is created: the list of checks, and how they are made at once.

A check reads only. It answers with findings (driver/gcp/findings.py); what a check needs first and did not pass keeps
it from being made, and it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from driver.gcp import access, ownership, permissions, places, quotas, ranges, threads, tools
from driver.gcp.errors import EXPLAINABLE, explain, is_api_off
from driver.gcp.findings import Finding, Status, Subject, not_checked, of_error


@dataclass(frozen=True)
class Check:
    """One thing to check.

    needs: the names of checks without whose success it makes no sense.
    unreadable: what it means when Google does not answer it.
    """

    name: str
    ask: Callable[[Subject], Iterable[Finding]]
    needs: tuple[str, ...] = ()
    unreadable: Status = Status.PROBLEM


@dataclass(frozen=True)
class Outcome:
    """What a check found. passed: whether what needs it can go on."""

    check: str
    findings: tuple[Finding, ...]
    passed: bool = True

    def as_data(self) -> list[dict[str, Any]]:
        """For `--output json`."""
        return [{"check": self.check, **finding.as_data()} for finding in self.findings]


CHECKS = (
    Check("credentials", access.credentials),
    Check("project", access.project, needs=("credentials",)),
    Check("billing", access.billing, needs=("project",), unreadable=Status.NOT_CHECKED),
    Check("APIs", access.apis, needs=("project",)),
    Check("permissions", permissions.check, needs=("project",)),
    Check("zone", places.zone, needs=("project",)),
    Check("TPU machines", places.tpu_machines, needs=("zone",)),
    Check("default pool", places.default_pool, needs=("zone",)),
    Check("GKE version", places.version, needs=("zone",)),
    Check("reservation", places.reservation, needs=("zone",), unreadable=Status.WARNING),
    Check("TPU quota", quotas.tpu, needs=("zone",), unreadable=Status.WARNING),
    Check("other quotas", quotas.others, needs=("zone",), unreadable=Status.WARNING),
    Check("ranges", ranges.check, needs=("zone",)),
    Check("resources", ownership.check, needs=("project",)),
    Check("local tools", tools.check),
)


def run(subject: Subject, checks: Sequence[Check] = CHECKS) -> list[Outcome]:
    """Makes all checks, at the same time where none needs the other, and gives their outcomes in the list's order."""
    outcomes: dict[str, Future[Outcome]] = {}
    with threads.pool(len(checks)) as pool:  # a thread for each, as they wait for each other
        for check in checks:
            first = [outcomes[name] for name in check.needs]
            outcomes[check.name] = pool.submit(_make, check, subject, first)
        return [future.result() for future in outcomes.values()]


def statuses(outcomes: Iterable[Outcome]) -> list[Status]:
    """Of all findings."""
    return [finding.status for outcome in outcomes for finding in outcome.findings]


def _make(check: Check, subject: Subject, needed: Sequence[Future[Outcome]]) -> Outcome:
    failed = next((one.result() for one in needed if not one.result().passed), None)
    if failed:
        return Outcome(check.name, (not_checked(f"It needs the check of {failed.check} to succeed."),), passed=False)
    try:
        findings = tuple(check.ask(subject))
    except EXPLAINABLE as error:
        findings = (_unanswered(check, subject, error),)
    return Outcome(check.name, findings, passed=all(finding.status != Status.PROBLEM for finding in findings))


def _unanswered(check: Check, subject: Subject, error: Exception) -> Finding:
    explained = explain(error, f"checking {check.name}", subject.site)
    return of_error(explained, Status.NOT_CHECKED if is_api_off(error) else check.unreadable)
