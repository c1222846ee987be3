"""Looks through the candidates for the fastest that fits: bounds first, then memory of many, then time of a few.

The memory of a configuration takes seconds to learn, and so does a step time by the compiler's schedule, in which the
matrix products have no estimate yet; one with it takes minutes. So the run as it is is compiled for memory, then
candidates from the roughly fastest on; what their neighbours have shown is left out, and the fastest by their schedules
are compiled to the end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from driver.errors import USAGE, DriverError
from driver.plan import refusals, remat
from driver.plan.candidates import Candidate, Site, as_it_is, candidates
from driver.plan.verdict import Answer, Case, Compiler, Predictor, Refusal, StepTime, usable_gib

_ENOUGH_OF_A_GROUP = 2
"""How many remat policies that fit are kept of one sharding, batch and offload: the rough time may order the first
two wrongly, and those behind them are slower by more than it is wrong by."""


@dataclass(frozen=True)
class Found:
    """A candidate with what the compiler said, one answer for each number of slices, and its time if it has one."""

    candidate: Candidate
    answers: tuple[Answer, ...]
    step: StepTime | None = None

    @property
    def hbm_gib(self) -> float:
        """On the number of slices that needs most."""
        return max(answer.memory.total for answer in self.answers if answer.memory is not None)

    @property
    def generated(self) -> bool:
        """Whether its time is of a program with code."""
        return self.step is not None and self.step.generated

    @property
    def seconds(self) -> float:
        """Of a step, with code or by its schedule; infinite where none is predicted."""
        return float("inf") if self.step is None else self.step.seconds


@dataclass
class Tally:
    """How far a search is. Every candidate is counted once."""

    candidates: int = 0
    by_bound: int = 0
    """Dropped because the bound is above the HBM."""
    by_neighbour: int = 0
    """Dropped because of what a neighbour has shown."""
    too_slow: int = 0
    """Dropped because at its peak it would be slower than the best's schedule."""
    beyond_limit: int = 0
    compiled: int = 0
    refused: int = 0
    """Among the compiled: MaxText or the compiler refused them, for memory or otherwise. Where there is a report of the
    memory instead, that is no refusal."""
    refusal: str = ""
    """The first one's words."""
    fitting: list[Found] = field(default_factory=list)
    phase: str = "memory"

    @property
    def best(self) -> Found | None:
        return min(self.fitting, key=_by_seconds if self.phase == "memory" else _code_first, default=None)

    def as_data(self) -> dict[str, Any]:
        return {
            "candidates": self.candidates,
            "droppedByBound": self.by_bound,
            "droppedByNeighbour": self.by_neighbour,
            "droppedAsTooSlow": self.too_slow,
            "notReached": self.beyond_limit,
            "compiledForMemory": self.compiled,
            "refused": self.refused,
            "firstRefusal": self.refusal or None,
            "fitting": len(self.fitting),
        }


def _by_seconds(found: Found) -> tuple[float, tuple[float, float]]:
    """By what could be reached: the time of a schedule is too short, and may be another's with code for all that is
    known."""
    return found.seconds, found.candidate.rough


def _code_first(found: Found) -> tuple[bool, float, tuple[float, float]]:
    """For when those that could win have code: those, then the others, and those without a time last."""
    return not found.generated, *_by_seconds(found)


def untimed(error: DriverError) -> str:
    """Why there is no step time, in a sentence."""
    return " ".join(["No step time is predicted:", *error.found.split()])


@contextmanager
def _counting() -> Iterator[None]:
    """Around what counts by arguments that MaxText has taken: it reads some texts as numbers that are none here."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError) as error:
        raise DriverError(
            f"The search cannot count by the run's arguments: {error}",
            rule="Sizes, batches and axes of the mesh are numbers for it.",
            fix="numbers without quotes in job.maxtext",
            exit_code=USAGE,
        ) from error


class Search:
    """One search over one run.

    counts: the numbers of slices that every candidate must fit on.
    fits: whether an answer is one of a candidate that fits; it may raise where the machine is at fault.
    limit: the most candidates to compile for memory.
    predictor: tells the step time of what was scheduled, and of what was compiled to the end.
    tell: hears the tally whenever it has changed.
    """

    def __init__(
        self,
        site: Site,
        counts: Sequence[int],
        compiler: Compiler,
        fits: Callable[[Answer], bool],
        predictor: Predictor,
        *,
        limit: int,
        tell: Callable[[Tally], None] = lambda tally: None,
    ) -> None:
        self.tally = Tally()
        self.untimed: list[str] = []
        """Why some have no step time, or none with code."""
        self._site, self._counts, self._compiler = site, tuple(counts), compiler
        self._fits, self._predictor, self._limit, self._tell = fits, predictor, limit, tell
        self._owners: dict[Case, Candidate] = {}
        self._answers: dict[Case, list[Answer]] = {}
        self._failed: list[tuple[Candidate, int, float]] = []
        """With the number of slices, and the GiB beside its state."""
        self._over: set[Case] = set()
        self._refused: list[DriverError] = []
        """By whole compilations, for other reasons than memory."""
        self._ended: set[Case] = set()
        """Whose whole compilation this machine has ended: their memory is known, and what they could reach."""

    def memory(self) -> list[Found]:
        """Compiles for memory; those that fit, the fastest by their schedule first.

        Raises a DriverError where MaxText or the compiler refuses the run as it is for another reason than memory.
        """
        self._judge_the_run()
        for answer in self._compiler.memory(self._queue()):
            self._take(answer)
            self._tell(self.tally)
        self.tally.fitting.sort(key=_by_seconds)
        return list(self.tally.fitting)

    def finals(self, count: int) -> list[Found]:
        """Compiles the first `count` of those that fit to the end, on the most slices; all that fit, the fastest first.

        Those among them that have code already, from an earlier plan, are of the number. It ends before, when no other
        can win: a time without code is too short, and the best with code is below the next one's. One that the whole
        compilation rejects after all is taken out, and the next one takes its place.

        Raises a DriverError where none is left, or after `count`, of those that are refused for another reason than
        memory: it is most likely the same for all.
        """
        self.tally.phase = "step time"
        in_order = sorted(self.tally.fitting, key=_by_seconds)
        waiting = [found for found in in_order if not found.generated]
        left = count - sum(found.generated for found in in_order[:count])
        while waiting and left > 0 and len(self._refused) < count and not self._cannot_be_beaten(waiting[0]):
            batch, waiting = waiting[:left], waiting[left:]
            owners = {found.candidate.case.on(self._counts[-1]): found for found in batch}
            for answer in self._compiler.whole(self._while_open(owners)):
                left -= self._finished(owners[answer.case], answer)
                self._tell(self.tally)
        has_code = any(found.generated for found in self.tally.fitting)
        if self._refused and not has_code and (len(self._refused) >= count or not self.tally.fitting):
            raise self._refused[0]
        self.tally.fitting.sort(key=self._final)
        return list(self.tally.fitting)

    def _final(self, found: Found) -> tuple[bool, bool, float, tuple[float, float]]:
        """Those with code first, for their time is not too short; of the others first the finalists that this machine
        has ended."""
        return not found.generated, found.candidate.case not in self._ended, *_by_seconds(found)

    def _judge_the_run(self) -> None:
        """The run as it is, alone: until MaxText has taken its arguments, nothing can be counted by them."""
        slices = self._counts[-1]
        answers: list[Answer] = []

        def cases() -> Iterator[Case]:
            for count in self._counts:
                if all(map(self._fits, answers)):
                    yield Case(count)

        for answer in self._compiler.memory(cases()):
            if answer.refusal is not None and answer.refusal.kind != "memory":
                raise refusals.as_error(self._site.run, answer.case, answer.refusal)
            answers.append(answer)
        with _counting():
            candidate = as_it_is(self._site, slices)
        self.tally.candidates = 1
        self._answers[candidate.case] = []
        for answer in answers:
            self._owners[answer.case] = candidate
            self._take(answer)
        self._tell(self.tally)

    def _while_open(self, owners: Mapping[Case, Found]) -> Iterator[Case]:
        for case, found in owners.items():
            if self._cannot_be_beaten(found):
                return
            yield case

    def _cannot_be_beaten(self, challenger: Found) -> bool:
        best = min((found.seconds for found in self.tally.fitting if found.generated), default=None)
        return best is not None and challenger.step is not None and best <= challenger.seconds

    def _queue(self) -> Iterator[Case]:
        """The next case to compile whenever a core is free, by what is known by then."""
        slices = self._counts[-1]
        with _counting():
            others = [each for each in candidates(self._site, slices) if each.case != Case(slices)]
        self.tally.candidates = 1 + len(others)
        begun = 1  # the run as it is
        for candidate in others:
            if not self._within_bounds(candidate):
                self.tally.by_bound += 1
            elif self._known_by_neighbour(candidate):
                self.tally.by_neighbour += 1
            elif self._cannot_win(candidate):
                self.tally.too_slow += 1
            elif begun >= self._limit:
                self.tally.beyond_limit += 1
            else:
                begun += 1
                yield from self._cases(candidate)

    def _cases(self, candidate: Candidate) -> Iterator[Case]:
        self._answers[candidate.case] = []
        for count in self._counts:
            if candidate.case in self._over:
                return
            case = candidate.case.on(count)
            self._owners[case] = candidate
            yield case

    def _within_bounds(self, candidate: Candidate) -> bool:
        usable = usable_gib(self._site.run)
        return all(self._site.bound_gib(candidate.case.on(count)) <= usable for count in self._counts)

    def _known_by_neighbour(self, candidate: Candidate) -> bool:
        """Whether one like it had no room, or enough of its like fit that are roughly faster.

        One with the same load that keeps at most as much has activations that are at most as large: with this one's own
        state they would have to fit.
        """
        usable = usable_gib(self._site.run)
        for failed, count, activations in self._failed:
            if (
                failed.load == candidate.load
                and failed.kept.device <= candidate.kept.device
                and failed.kept.host <= candidate.kept.host
                and self._site.resident_gib(candidate.case.on(count)) + activations > usable
            ):
                return True
        alike = sum(found.candidate.group == candidate.group for found in self.tally.fitting)
        return alike >= _ENOUGH_OF_A_GROUP

    def _cannot_win(self, candidate: Candidate) -> bool:
        """Whether at the chip's peak it would still be slower than what another could reach."""
        return candidate.peak > min((found.seconds for found in self.tally.fitting), default=float("inf"))

    def _take(self, answer: Answer) -> None:
        candidate = self._owners[answer.case]
        answers = self._answers[candidate.case]
        answers.append(answer)
        if candidate.case in self._over:
            return  # it has failed on another number of slices
        if not self._fits(answer):
            self._over.add(candidate.case)
            self.tally.compiled += 1
            if answer.refusal is not None:
                self._count_refusal(answer.refusal)
            elif answer.memory is not None and remat.is_known(self._site.config(answer.case)):
                resident = self._site.resident_gib(answer.case)
                self._failed.append((candidate, answer.case.slices, answer.memory.total - resident))
        elif len(answers) == len(self._counts) and all(map(self._fits, answers)):
            self.tally.compiled += 1
            in_order = tuple(sorted(answers, key=lambda one: one.case.slices))
            self.tally.fitting.append(Found(candidate, in_order, self._time(in_order[-1])))

    def _finished(self, found: Found, answer: Answer) -> bool:
        """Takes what a whole compilation says; False where it rejects the candidate."""
        place = self.tally.fitting.index(found)
        if answer.refusal is not None and answer.refusal.kind in refusals.OF_THIS_MACHINE:
            # Its memory is known, and fits.
            self._ended.add(found.candidate.case)
            self.untimed.append(refusals.unfinished(self._site.run, answer, found.candidate.says))
            return True
        if answer.refusal is not None and answer.refusal.kind != "memory":
            self._count_refusal(answer.refusal)
            self._refused.append(refusals.as_error(self._site.run, answer.case, answer.refusal))
        if not self._fits(answer):
            del self.tally.fitting[place]
            return False
        in_order = (*found.answers[:-1], answer)
        self.tally.fitting[place] = replace(found, answers=in_order, step=self._time(answer))
        return True

    def _count_refusal(self, refusal: Refusal) -> None:
        self.tally.refused += 1
        self.tally.refusal = self.tally.refusal or refusal.said

    def _time(self, answer: Answer) -> StepTime | None:
        if answer.dump is None:
            return None
        try:
            return self._predictor(answer.case, answer.dump)
        except DriverError as error:
            self.untimed.append(untimed(error))
            return None
