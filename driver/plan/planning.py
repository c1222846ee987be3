"""The order of things for one plan: what is checked, compiled, predicted and proposed, and in which order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from driver.errors import USAGE, DriverError
from driver.plan import elastic, fixes, refusals, team_file
from driver.plan.bounds import UnusableError
from driver.plan.candidates import Site, check
from driver.plan.search import Found, Search, Tally, untimed
from driver.plan.verdict import Answer, Case, Compiler, Predictor, StepTime, Verdict, Work, judge, usable_gib

type Tell = Callable[[str], None]

WITHOUT_CODE = (
    "A predicted time with \"at least\" is by the compiler's schedule, with matrix products at the chip's peak, which"
    " they do not reach; compiling to the end gives the compiler's own estimate of them."
)

AS_IT_IS = "The search has found nothing faster that fits than the run as it is: its values file changes nothing."


@dataclass(frozen=True)
class Wishes:
    """What the user asked for beside the run. limit, finalists: see search.Search."""

    price: float | None = None
    quick: bool = False
    """Nothing is compiled to the end, unless only that can tell whether it fits."""
    limit: int = 60
    finalists: int = 3
    save: Path | None = None
    """Folder for the executables, one for each number of slices."""


@dataclass(frozen=True)
class Plan:
    """What came out. verdicts: one for each number of slices, smallest first. fixes: single changes that fit.

    compiled_by: package to version, of what decides about a compiled program.
    untimed: why there is no step time where one was wanted, or one by the schedule only, a sentence each.
    """

    run: Mapping[str, Any]
    verdicts: tuple[Verdict, ...]
    compiled_by: Mapping[str, str] = field(default_factory=dict)
    untimed: tuple[str, ...] = ()
    fixes: tuple[Verdict, ...] = ()
    proposed: int | None = None
    """How many single changes were tried; None when none had to be."""
    tally: Tally | None = None
    found: tuple[Found, ...] = ()
    team_file: str = ""

    @property
    def fits(self) -> bool:
        return bool(self.verdicts) and all(verdict.fits for verdict in self.verdicts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures has to know beside them, a sentence each."""
        notes = []
        wanted, had = self.run["versions"]["maxtext"], self.compiled_by.get("maxtext")
        if had not in (None, wanted):
            notes.append(
                f"The values say MaxText {wanted}. This was compiled with MaxText {had} and libtpu"
                f" {self.compiled_by.get('libtpu')}: another program, whose memory and time are not those of {wanted}."
            )
        if self.run["guardsAllowed"]:
            notes.append(f"guards.allow lets these values break: {', '.join(self.run['guardsAllowed'])}.")
        refused = [verdict for verdict in self.verdicts if verdict.refusal is not None]
        notes += [elastic.lack(one) for one in refused]
        if self.found and not self.found[0].candidate.case.changes:
            notes.append(AS_IT_IS)
        if any(verdict.step and not verdict.step.generated for verdict in (*self.verdicts, *self.fixes)):
            notes.append(WITHOUT_CODE)
        left_out = (said for verdict in self.verdicts if verdict.step for said in verdict.step.unknown)
        return tuple(dict.fromkeys([*notes, *self.untimed, *left_out]))

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "run": self.run["name"],
            "tpu": {key: self.run["tpu"][key] for key in ("type", "topology", "acceleratorType")},
            "slices": dict(self.run["slices"]),
            "maxtext": self.run["versions"]["maxtext"],
            "compiledBy": dict(self.compiled_by),
            "guardsAllowed": list(self.run["guardsAllowed"]),
            "notes": list(self.notes),
            "fits": self.fits,
            "verdicts": [verdict.as_data() for verdict in self.verdicts],
        }
        if self.proposed is not None:
            data["fixes"] = [verdict.as_data() for verdict in self.fixes]
        if self.tally is not None:
            data["search"] = self.tally.as_data()
            data["found"] = [_found_as_data(one) for one in self.found]
            data["teamFile"] = self.team_file or None
        return data


def plan(
    site: Site, compiler: Compiler, predictor: Predictor, wishes: Wishes, tell: Tell, *, propose: bool = True
) -> Plan:
    """Judges the run on every number of slices: memory first, then the time of what fits, or what would make it fit.

    propose: whether changes are tried where it does not fit.

    Raises a DriverError for what MaxText or the compiler refuses.
    """
    cases = [Case(count) for count in elastic.counts(site.run)]
    for case in cases:
        _refuse(site, case)
    tell("Compiling for memory")
    answers = {answer.case: answer for answer in compiler.memory(cases)}
    for case in cases:
        _raise(site, answers[case])
    verdicts = [_verdict(site, answers[case], wishes) for case in cases]
    unknown: tuple[str, ...] = ()
    undecided = [verdict.case for verdict in verdicts if verdict.close]
    # What no whole compilation could tell the time of is not compiled on; the prediction says why.
    timed = not (wishes.quick or predictor.unable)
    wanted = cases if timed or wishes.save else undecided
    if all(verdict.fits or verdict.close for verdict in verdicts):
        if wanted:
            tell("Compiling to the end, some minutes each" if len(wanted) > 1 else "Compiling to the end, some minutes")
        whole = {answer.case: answer for answer in compiler.whole(wanted, wishes.save)} if wanted else {}
        for case in [] if wishes.save else [case for case in whole if case not in undecided]:
            if refusals.of_this_machine(whole[case].refusal):
                unknown += (refusals.unfinished(site.run, whole.pop(case)),)  # its memory is known, and stays
        for answer in whole.values():
            _raise(site, answer)
        answers |= whole
        times = _Times(predictor, answers.values())
        unknown += times.untimed
        verdicts = [_verdict(site, answers[case], wishes, times.of.get(case)) for case in cases]
    result = Plan(site.run, tuple(verdicts), site.compiled_by, unknown)
    if not propose or result.fits:
        return result
    return _with_fixes(result, site, cases, compiler, predictor, wishes, tell)


def memory(site: Site, compiler: Compiler) -> list[Verdict]:
    """By the memory report alone, one for each number of slices, smallest first; a refusal is in its verdict."""
    answers = compiler.memory([Case(count) for count in elastic.counts(site.run)])
    verdicts = [judge(site.run, answer, Work(1)) for answer in answers]
    return sorted(verdicts, key=lambda verdict: verdict.case.slices)


def search(
    site: Site,
    compiler: Compiler,
    predictor: Predictor,
    wishes: Wishes,
    tell_tally: Callable[[Tally], None],
    check_team_file: Callable[[Case, str], None],
) -> Plan:
    """Looks for the fastest that fits on every number of slices, and writes it as a team file.

    check_team_file: raises a DriverError where the file does not make the winner of the given values.
    Raises a DriverError when nothing fits.
    """
    counts = elastic.counts(site.run)
    for count in counts:
        _refuse(site, Case(count))
    work = Search(site, counts, compiler, _fits(site), predictor, limit=wishes.limit, tell=tell_tally)
    try:
        ranked = work.memory()
        if ranked and not wishes.quick and not predictor.unable:
            ranked = work.finals(wishes.finalists)
    except KeyboardInterrupt:
        raise _interrupted(work.tally) from None
    if not ranked:
        _nothing_fits(site, work.tally)
    winner = ranked[0]
    times = _Times(predictor, winner.answers)
    verdicts = tuple(_verdict(site, answer, wishes, times.of.get(answer.case)) for answer in winner.answers)
    written = team_file.text(site.run, verdicts[-1])
    check_team_file(winner.candidate.case, written)
    return Plan(
        site.run, verdicts, site.compiled_by, tuple(dict.fromkeys(work.untimed)),
        tally=work.tally, found=tuple(ranked), team_file=written,
    )  # fmt: skip


def _refuse(site: Site, case: Case) -> None:
    try:
        check(site, case)
    except UnusableError as error:
        raise DriverError(
            f"On {case.slices} {'slice' if case.slices == 1 else 'slices'}: {error}",
            rule="The ici_* axes multiply to the devices of a slice, the dcn_* axes to the slices, and both divide what"
            " they share: heads, experts, the sequences of a batch.",
            fix="another value of what is named, in job.maxtext; -1 for one axis of each kind takes what is left",
            exit_code=USAGE,
        ) from error
    except (TypeError, ValueError, ArithmeticError):
        return  # a text where a number belongs, or one that cannot be: MaxText says which


def _raise(site: Site, answer: Answer) -> None:
    """Anything but a lack of HBM is an error in the values, or of this machine."""
    if answer.refusal is not None and answer.refusal.kind != "memory":
        raise refusals.as_error(site.run, answer.case, answer.refusal)


def _verdict(site: Site, answer: Answer, wishes: Wishes, step: StepTime | None = None) -> Verdict:
    return judge(site.run, answer, site.work(answer.case), step=step, price=wishes.price)


def _fits(site: Site) -> Callable[[Answer], bool]:
    """Whether an answer is of something that fits. Raises a DriverError where this machine is at fault: nothing that
    comes after would be judged right either."""

    def fits(answer: Answer) -> bool:
        if answer.refusal is not None and answer.refusal.kind in ("killed", "disk"):
            _raise(site, answer)
        return judge(site.run, answer, Work(1)).fits

    return fits


class _Times:
    """Predicted step times by case, and in `untimed` why some have none: memory is told all the same."""

    def __init__(self, predictor: Predictor, answers: Iterable[Answer]) -> None:
        self.of: dict[Case, StepTime] = {}
        failed: list[str] = []
        for answer in answers:
            if answer.dump is not None and answer.refusal is None:
                try:
                    self.of[answer.case] = predictor(answer.case, answer.dump)
                except DriverError as error:
                    failed.append(untimed(error))
        self.untimed = tuple(dict.fromkeys(failed))


def _with_fixes(
    result: Plan,
    site: Site,
    cases: Sequence[Case],
    compiler: Compiler,
    predictor: Predictor,
    wishes: Wishes,
    tell: Tell,
) -> Plan:
    """The plan with the single changes that fit, the best predicted speed first."""
    most = cases[-1]
    counts = [case.slices for case in cases]
    proposed = len(fixes.proposals(site, most))
    tell("Trying single changes")
    fitting = fixes.verified(
        site,
        most,
        counts,
        compiler,
        _fits(site),
        predictor,
        lambda done, total: tell(f"Trying single changes: {done} of {total}"),
    )
    to_the_end = not wishes.quick and not predictor.unable
    whole = {one.fix.case(most): one for one in fitting[: wishes.finalists]} if to_the_end else {}
    if whole:
        tell(f"Compiling the best {len(whole)} changes to the end, some minutes each")
    complete: dict[Case, Answer] = {}
    ended: list[str] = []
    refused: list[Answer] = []
    for answer in compiler.whole(list(whole)) if whole else ():
        if answer.refusal is not None and answer.refusal.kind in refusals.OF_THIS_MACHINE:
            ended.append(refusals.unfinished(site.run, answer, whole[answer.case].fix.says))
            continue  # the memory is known, and stays
        if answer.refusal is not None and answer.refusal.kind != "memory":
            refused.append(answer)
        complete[answer.case] = answer
    if refused and len(refused) == len(whole):
        _raise(site, refused[0])  # code generation refuses what they have in common
    best = {one.fix.case(most): complete.get(one.fix.case(most), one.answers[-1]) for one in fitting}
    times = _Times(predictor, best.values())
    verdicts = []
    for one in fitting:
        case = one.fix.case(most)
        verdict = judge(
            site.run,
            best[case],
            site.work(case),
            step=times.of.get(case),
            price=wishes.price,
            says=one.fix.says,
            warns=one.fix.warns,
        )
        known = [answer.memory for answer in (*one.answers[:-1], best[case]) if answer.memory is not None]
        # Of an elastic run that of the number of slices that needs most; it fits on all of them.
        verdicts.append(replace(verdict, memory=max(known, key=lambda memory: memory.total, default=None)))
    kept = [verdict for verdict in verdicts if verdict.fits]
    # Those with code before the others, whose time is too short; what has no time at all is last, in its rough order.
    kept.sort(key=lambda one: (not (one.step and one.step.generated), one.step.seconds if one.step else float("inf")))
    return replace(result, fixes=tuple(kept), proposed=proposed, untimed=(*result.untimed, *ended, *times.untimed))


def _interrupted(tally: Tally) -> DriverError:
    if not tally.candidates:
        return DriverError("Interrupted while the run as it is was compiled.", fix="the same command begins again")
    best = tally.best
    so_far = f" The best so far: {best.candidate.says} ({best.hbm_gib:.2f} GiB)." if best else ""
    return DriverError(
        f"Interrupted with {tally.compiled} of {tally.candidates} configurations compiled.{so_far}",
        fix="the same command goes on from what is kept in the cache",
    )


def _nothing_fits(site: Site, tally: Tally) -> NoReturn:
    said = (
        f"{tally.candidates} configurations, {tally.by_bound} of them dropped by the bound, {tally.compiled} compiled"
    )
    more = f" or --limit {4 * (tally.compiled or 1)}" if tally.beyond_limit else ""
    refused = f"{tally.refused} were refused, the first in these words: {tally.refusal} " if tally.refused else ""
    raise DriverError(
        f"Nothing that the search knows fits into {usable_gib(site.run):g} GiB per device: {said}.",
        rule=f"{refused}It keeps the global batch, the sequence and the types of weights and moments.",
        fix=f"more chips (tpu.topology, tpu.slices), weight_dtype: bfloat16, a shorter max_target_length{more}",
    )


def _found_as_data(one: Found) -> dict[str, Any]:
    return {
        "says": one.candidate.says,
        "changes": dict(one.candidate.case.changes),
        "hbmGiB": round(one.hbm_gib, 4),
        "predictedSeconds": None if one.step is None else round(one.step.seconds, 4),
        "codeGenerated": None if one.step is None else one.step.generated,
    }
