"""What a user's mistake, or the world's, looks like: what was found, the rule that it breaks, and what mends it."""

from collections.abc import Sequence
from typing import Any

import click

FAILED = 1
USAGE = 2


class DriverError(click.ClickException):
    """Ends the command with a message in three parts and without a stack trace.

    found: what is wrong, with the value and where it stands ("values/tiny.yaml: job.steps is 0").
    rule: what would be right ("steps is a whole number of at least 1").
    fix: the command or the value that mends it ("--set job.steps=10").
    exit_code: FAILED for what went wrong while working, USAGE for input that could never work.
    """

    def __init__(self, found: str, *, rule: str = "", fix: str = "", exit_code: int = FAILED) -> None:
        self.found = found
        self.rule = rule
        self.fix = fix
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance just as well
        super().__init__("\n".join(part for part in (found, rule, f"Fix: {fix}" if fix else "") if part))


def raise_all(errors: Sequence[DriverError], what: str, fix: str = "") -> None:
    """Raises nothing for none, the error itself for one, and for more a list of them after their number and `what`."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        listed = [f"{number}. {error.format_message()}" for number, error in enumerate(errors, 1)]
        raise DriverError("\n".join([f"{len(errors)} {what}", *listed]), fix=fix)


def as_data(error: click.ClickException) -> dict[str, Any]:
    """The error as `--output json` prints it: found, rule, fix (empty where there is none) and exitCode."""
    if isinstance(error, DriverError):
        found, rule, fix = error.found, error.rule, error.fix
    else:
        found, rule, fix = error.format_message(), "", ""
        context = getattr(error, "ctx", None)
        if context is not None:
            fix = f"{context.command_path} --help"
    return {"error": {"found": found, "rule": rule, "fix": fix, "exitCode": error.exit_code}}
