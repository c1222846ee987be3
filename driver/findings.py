"""What a check before an action finds out: a status, and in three parts what a DriverError would say."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """What was found, the rule that it breaks, what mends it (one command or step per line)."""

    status: Status
    found: str
    rule: str = ""
    fix: str = ""

    def as_data(self) -> dict[str, str]:
        return {**asdict(self), "status": str(self.status)}


def ok(found: str) -> Finding:
    return Finding(Status.OK, found)


def warning(found: str, rule: str = "", fix: str = "") -> Finding:
    return Finding(Status.WARNING, found, rule, fix)


def problem(found: str, rule: str = "", fix: str = "") -> Finding:
    return Finding(Status.PROBLEM, found, rule, fix)


def not_checked(found: str, rule: str = "", fix: str = "") -> Finding:
    return Finding(Status.NOT_CHECKED, found, rule, fix)
