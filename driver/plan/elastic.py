"""An elastic run is one configuration on several numbers of slices: it has to fit on each of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from driver.errors import DriverError
from driver.plan import refusals
from driver.plan.verdict import Verdict


def counts(run: Mapping[str, Any]) -> tuple[int, ...]:
    """Every number of slices that the run may train on, smallest first."""
    return tuple(range(int(run["slices"]["min"]), int(run["slices"]["max"]) + 1))


def refuse_the_smallest(run: Mapping[str, Any], verdicts: Sequence[Verdict]) -> None:
    """Raises a DriverError where the run may shrink to a number of slices on which it does not fit.

    verdicts: one for each number of slices.
    """
    bad = [verdict for verdict in verdicts if not verdict.fits]
    if len(verdicts) < 2 or not bad:
        return
    enough = least(verdicts)
    raise DriverError(
        lack(bad[0]),
        rule=rule(run),
        fix=f"--set elastic.minSlices={enough}, or one of the changes above" if enough else "driver plan --search",
    )


def lack(verdict: Verdict) -> str:
    """What is missing on this number of slices, in a sentence."""
    if verdict.memory is not None and verdict.refusal is not None:
        return refusals.after_report(verdict)
    where = "On one slice" if verdict.case.slices == 1 else f"On {verdict.case.slices} slices"
    if verdict.memory is None:
        said = verdict.refusal.said.splitlines()[0] if verdict.refusal else "it was not compiled"
        return f"{where} the run cannot be compiled: {said}"
    return (
        f"{where} the run needs {verdict.memory.total:.2f} GiB of HBM per device, of {verdict.usable_gib:g} that a"
        " program can use."
    )


def least(verdicts: Sequence[Verdict]) -> int | None:
    """The number of slices from which on it fits, or None where it does not fit on the most."""
    unfit = [verdict.case.slices for verdict in verdicts if not verdict.fits]
    above = [verdict.case.slices for verdict in verdicts if verdict.case.slices > max(unfit, default=0)]
    return min(above, default=None)


def rule(run: Mapping[str, Any]) -> str:
    return f"An elastic run fits on every number of slices from {run['slices']['min']} to {run['slices']['max']}."
