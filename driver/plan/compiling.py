"""Between the search and the compiler: cases become configurations, kept results are found before anything is compiled,
and what the compiler wrote becomes memory and step time."""

import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from driver.errors import DriverError
from driver.plan import codegen, executables, session, step_time
from driver.plan.cache import Cache, Result, program_text
from driver.plan.memory_report import MemoryReport
from driver.plan.request import Configuration, Until
from driver.plan.verdict import Answer, Case, Memory, Refusal, StepTime, Tensor, Work
from driver.tpu import Hardware

_GIB = 2.0**30
_PARTS = {"ici": "waiting for ICI", "dcn": "waiting for DCN", "toHost": "waiting for the host"}
_PARTS["toDevice"] = _PARTS["toHost"]


class CachedCompiler:
    """verdict.Compiler over one session and the cache.

    servers: how many compilations run at once. versions: of the compiler's environment.
    packages: a digest of all that is installed beside them, where no lock says it.
    """

    def __init__(
        self,
        run: Mapping[str, Any],
        compiler: session.Compiler,
        cache: Cache,
        versions: Mapping[str, str],
        servers: int,
        packages: str = "",
    ) -> None:
        self._run, self._session, self._cache = run, compiler, cache
        self._versions, self._servers = versions, servers
        self._keyed_by = {**versions, "packages": packages} if packages else dict(versions)

    def memory(self, cases: Iterable[Case]) -> Iterator[Answer]:
        return self._each(cases, "memory")

    def whole(self, cases: Iterable[Case], save: Path | None = None) -> Iterator[Answer]:
        if save is None:
            yield from self._each(cases, "executable")
            return
        # A kept result has no executable: all are compiled.
        by_slices = {case.slices: case for case in cases}
        reports: dict[str, session.Answer] = {}
        configurations = [self._configuration(case) for case in by_slices.values()]
        for answer in executables.save(self._session, configurations, save, self._versions):
            if answer.last:
                yield self._answer(by_slices[answer.job.configuration.slices], answer, reports.get(answer.job.name))
            elif answer.event == "memory":
                reports[answer.job.name] = answer

    def kept_whole(self, case: Case) -> Answer | None:
        """The answer of a whole compilation of the case, if there was one; nothing is compiled."""
        kept = self._cache.find(self._key(self._configuration(case)), "executable")
        return None if kept is None else _from_result(case, kept, "executable")

    def doing(self) -> str:
        return self._session.doing()

    def _each(self, cases: Iterable[Case], until: Until) -> Iterator[Answer]:
        """Kept answers at once, the others as they are ready. A case is taken only when a server is free for it."""
        waiting = iter(cases)
        running: dict[str, Case] = {}
        reports: dict[str, session.Answer] = {}
        yield from self._fill(waiting, running, until)
        while running:
            for answer in self._session.answers():
                if not answer.last:
                    reports |= {answer.job.name: answer} if answer.event == "memory" else {}
                    continue
                yield self._answer(running.pop(answer.job.name), answer, reports.pop(answer.job.name, None))
                yield from self._fill(waiting, running, until)

    def _fill(self, waiting: Iterator[Case], running: dict[str, Case], until: Until) -> Iterator[Answer]:
        while len(running) < self._servers:
            case = next(waiting, None)
            if case is None:
                return
            configuration = self._configuration(case)
            kept = self._cache.find(self._key(configuration), until)
            if kept is not None:
                yield _from_result(case, kept, until)
            else:
                running[self._session.submit(configuration, until).name] = case

    def _answer(self, case: Case, answer: session.Answer, report: session.Answer | None) -> Answer:
        until = answer.job.until
        try:
            kept = self._cache.keep(self._key(answer.job.configuration), answer, report)
        except DriverError as unreadable:
            # Of one of many cases: it has no answer, the others have.
            return Answer(case, refusal=Refusal("other", unreadable.found))
        finally:
            shutil.rmtree(answer.job.dump, ignore_errors=True)
        if kept is not None:
            return _from_result(case, kept, until)
        said = answer.failure or session.Failure("other", "its result was removed from the cache before it was read")
        return Answer(case, refusal=Refusal(said.kind, said.said))

    def _key(self, configuration: Configuration) -> str:
        return configuration.key(self._keyed_by)

    def _configuration(self, case: Case) -> Configuration:
        return Configuration(self._run, case.slices, dict(case.changes))


class DumpPredictor:
    """verdict.Predictor: the step time from the program in a dump."""

    def __init__(self, hardware: Hardware, topology: str) -> None:
        self._hardware, self._topology = hardware, topology

    @property
    def unable(self) -> str:
        known = self._hardware.clock_hz is not None
        return "" if known else f"No source was found for the clock of {self._hardware.type}."

    def __call__(self, case: Case, dump: Path) -> StepTime:
        predicted = step_time.predict(codegen.parse(_program(dump)), self._hardware, self._topology)
        spent = predicted.spent
        parts = {"compute": spent.compute, "attention": spent.attention}
        for link, seconds in spent.exposed.items():
            parts[_PARTS[link]] = parts.get(_PARTS[link], 0.0) + seconds
        moved = spent.bytes["ici"], spent.bytes["dcn"]
        return StepTime(predicted.seconds, parts, *moved, predicted.unknown, predicted.generated)


def _program(dump: Path) -> str:
    try:
        return program_text(dump)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DriverError(
            f"The compiled program that was kept cannot be read ({error}).",
            rule="The results that were not used for longest make room for others, also for those of another driver.",
            fix="the same command compiles it again",
        ) from error


def _from_result(case: Case, result: Result, until: Until) -> Answer:
    failure = result.failure
    return Answer(
        case,
        memory=None if result.memory is None else _memory(result.memory),
        refusal=Refusal(failure.kind, failure.said) if failure else None,
        dump=None if result.memory is None else result.folder,
        accepted=result.whole and failure is None,
        work=_work(result.facts),
    )


def _memory(report: MemoryReport) -> Memory:
    kinds = {
        "weights": report.by_kind["weights"],
        "optimizer state": report.by_kind["optimizer"],
        "activations and temporaries": report.by_kind["temporaries"],
        "the rest": report.by_kind["inputs"] + report.by_kind["other"],
    }
    largest = tuple(Tensor(buffer.what, buffer.bytes / _GIB) for buffer in report.largest)
    gib = {kind: size / _GIB for kind, size in kinds.items()}
    return Memory(report.hbm_bytes / _GIB, gib, largest, report.host_bytes / _GIB)


def _work(facts: Mapping[str, Any]) -> Work | None:
    if "tokensPerDevice" not in facts:
        return None
    return Work(facts["tokensPerDevice"], facts.get("tflopsPerDevice"), facts.get("checkpointBytes"))
