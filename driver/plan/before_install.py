"""The quick check of an install: does the run fit into HBM, by the compiler's memory report alone.

It refuses what cannot fit, and what the values are at fault for. What could fit is never refused: what this machine
cannot tell, or only a whole compilation, is told and not held against the run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driver.errors import USAGE, DriverError
from driver.plan import elastic, environment, opening, planning, refusals
from driver.plan.verdict import Answer, Verdict, Work, judge

_ANYWAY = "--no-plan installs it all the same"


@dataclass(frozen=True)
class Remark:
    """What the user is told where nothing is refused. warns: whether something was left open that may go wrong."""

    said: str
    warns: bool = False


def check(run: Mapping[str, Any], watch: Callable[[Callable[[], str]], None] = lambda doing: None) -> Remark | None:
    """The memory of the run on every number of slices; None for a run that is not to train on TPUs.

    Nothing is installed for it, and what was compiled before is known at once. MaxText's words are taken, and not the
    rules of driver.plan.candidates, which know less than it does.

    watch: is given what tells how far the compiler is, before it begins.
    Raises a DriverError for what cannot fit, and for arguments or flags that MaxText or libtpu refuse.
    """
    if run["tpu"]["emulated"] or run["env"].get("JAX_PLATFORMS") == "cpu":
        return None  # on CPUs there is no HBM, and the program is another one than would be compiled for chips
    unable = _unable()
    if unable:
        return Remark(f"Whether it fits into HBM was not checked: {unable}.")
    try:
        with opening.compiler(run, None, None) as (site, compiler, _):
            wanted, had = run["versions"]["maxtext"], site.compiled_by["maxtext"]
            if wanted != had:
                said = f"the run is for MaxText {wanted}, and the compiler's environment has {had}"
                return Remark(f"Whether it fits into HBM was not checked: {said}.", warns=True)
            watch(compiler.doing)
            verdicts = [_settled(run, each, compiler.kept_whole) for each in planning.memory(site, compiler)]
    except (DriverError, OSError) as error:
        # It cannot be started, or there is no room for it: of the run this says nothing.
        said = error.found if isinstance(error, DriverError) else str(error)
        return Remark(f"Whether it fits into HBM could not be checked. {said}", warns=True)
    return _judged(run, verdicts)


def _unable() -> str:
    try:
        environment.require_platform()
    except DriverError:
        return "the TPU compiler needs Linux on x86-64"
    if environment.is_installed():
        return ""
    return "the TPU compiler is not installed (driver plan --install does it; from then on installs are checked)"


def _settled(run: Mapping[str, Any], verdict: Verdict, kept_whole: Callable[[Any], Answer | None]) -> Verdict:
    """What is too close to tell by the report may have been compiled to the end before, by `driver plan`."""
    kept = kept_whole(verdict.case) if verdict.close else None
    return verdict if kept is None else judge(run, kept, Work(1))


def _judged(run: Mapping[str, Any], verdicts: Sequence[Verdict]) -> Remark:
    refused = [verdict for verdict in verdicts if verdict.refusal is not None]
    for verdict in refused:
        if verdict.refusal and verdict.refusal.kind in refusals.IN_THE_VALUES:
            error = refusals.as_error(run, verdict.case, verdict.refusal)
            raise DriverError(error.found, rule=error.rule, fix=f"{error.fix}; {_ANYWAY}", exit_code=USAGE)
    unknown = [verdict for verdict in refused if verdict.refusal and verdict.refusal.kind != "memory"]
    unfit = [verdict for verdict in verdicts if not (verdict.fits or verdict.close or verdict in unknown)]
    if unfit:
        raise _does_not_fit(run, unfit[0], elastic.least(verdicts))
    if unknown:
        assert unknown[0].refusal
        error = refusals.as_error(run, unknown[0].case, unknown[0].refusal)
        return Remark(f"Whether it fits into HBM could not be checked. {error.found}", warns=True)
    most = max(verdicts, key=lambda verdict: verdict.memory.total if verdict.memory else 0.0)
    assert most.memory
    hbm = f"HBM: {most.memory.total:.2f} of {most.usable_gib:g} GiB per device by the TPU compiler's report"
    if any(verdict.close for verdict in verdicts):
        return Remark(
            f"{hbm}. It is too close to tell whether it fits; driver plan compiles it to the end.", warns=True
        )
    return Remark(f"{hbm}: it fits.")


def _does_not_fit(run: Mapping[str, Any], verdict: Verdict, least: int | None) -> DriverError:
    changes = ["driver plan with the same values says which single changes make it fit"]
    rule = "That is by the TPU compiler's own report, for exactly these chips. Nothing was changed."
    if run["slices"]["min"] < run["slices"]["max"]:
        rule = f"{elastic.rule(run)} {rule}"
        changes += [f"--set elastic.minSlices={least}"] if least else []
    return DriverError(elastic.lack(verdict), rule=rule, fix="; ".join([*changes, _ANYWAY]), exit_code=USAGE)
