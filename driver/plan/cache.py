"""Results of compilations in the user's cache, so that a plan goes on where it was left and asks nothing twice.

A result is a folder: `result.json`, with what the memory report says, and the program that the step time is read from.
The dumps that memory is read from are not kept: one configuration's are a megabyte and more, and a search compiles some
sixty. The folder's name is the key of the configuration (driver.plan.request) and how far it was compiled. It appears
whole or not at all, so that several drivers may use the cache at once.
"""

import contextlib
import dataclasses
import gzip
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver import resources
from driver.plan import leftovers, memory_report
from driver.plan.memory_report import Buffer, MemoryReport
from driver.plan.request import Configuration, Until
from driver.plan.session import Answer, Failure

PROGRAMS = ("*after_codegen.txt", "*after_optimizations.txt")
"""The program, with generated code if it came so far, else as it was scheduled: the one dump that is kept, compressed.
All of a large model's would be gigabytes."""

LASTING = ("argument", "sharding", "batch", "topology", "flag", "memory")
"""Kinds of failures that the same configuration has every time. The others are this machine's, today."""

LIMIT_GIB = 4.0

_RESULT = "result.json"
_NEW = "new-"


@dataclass(frozen=True)
class Result:
    """What a compilation has told.

    folder: with the program, see program_text(). memory: None after a failure without a memory report. facts: as in
    Answer.
    """

    folder: Path
    memory: MemoryReport | None
    facts: dict[str, Any]
    failure: Failure | None
    whole: bool
    """Whether the compilation went to its end, also where only memory was asked for."""


class Cache:
    """folder: of its own; by default in the user's cache."""

    def __init__(self, folder: Path | None = None, limit_gib: float = LIMIT_GIB) -> None:
        self._folder = folder or resources.cache_dir() / "plan"
        self._limit = int(limit_gib * 2**30)
        leftovers.sweep(self._folder, f"{_NEW}*")

    def find(self, key: str, until: Until = "memory") -> Result | None:
        """The kept result; for "memory" rather that of a compilation that went on, whose program tells more. None where
        there is none, or where it cannot be read."""
        for name in ("executable", until) if until == "memory" else (until,):
            folder = self._folder / f"{key}-{name}"
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                found = json.loads((folder / _RESULT).read_text())
                failure = Failure(**found["failure"]) if found["failure"] else None
                memory = _memory(found["memory"]) if found["memory"] else None
                if memory and not _programs(folder):
                    continue  # somebody has cleared up
                os.utime(folder / _RESULT)  # used: the last to be dropped
                return Result(folder, memory, found["facts"], failure, name == "executable")
        return None

    def keep(self, key: str, answer: Answer, memory: Answer | None = None) -> Result | None:
        """Keeps the last answer of a job with its dumps, and returns it as it will be found.

        Args:
            memory: the job's `memory` answer, where the last one is another: it has the report.

        Returns None, and keeps nothing, for a failure that may not come again; None also where another driver has
        removed it in this moment.

        Raises:
            DriverError: the memory report cannot be read.
        """
        if not answer.last:
            raise ValueError(f"{answer.event} is not the last answer of a job")
        if answer.failure and answer.failure.kind not in LASTING:
            return None
        report = answer.report or (memory.report if memory else None)
        told = dataclasses.asdict(memory_report.read(report)) if report else None
        self._folder.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=self._folder))
        failure = answer.failure and {"kind": answer.failure.kind, "said": answer.failure.said}
        content = {
            "facts": {**(memory.facts if memory else {}), **answer.facts},
            "failure": failure,
            "memory": told,
            "seconds": answer.seconds,
            "configuration": _told(answer.job.configuration),
        }
        place = self._folder / f"{key}-{answer.job.until}"
        try:
            with leftovers.in_use(new):
                _pack(answer.job.dump, new)
                (new / _RESULT).write_text(json.dumps(content, indent=1))
                shutil.rmtree(place, ignore_errors=True)
                with contextlib.suppress(OSError):  # another driver was faster, with the same
                    new.rename(place)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        self._trim(place)
        return self.find(key, answer.job.until)

    def _trim(self, newest: Path) -> None:
        """Drops the results that were not used for longest, until the rest is within the limit."""
        used = {}
        for folder in self._folder.glob("*-*"):
            with contextlib.suppress(OSError):
                size = sum(file.stat().st_size for file in folder.iterdir())
                used[folder] = ((folder / _RESULT).stat().st_mtime, size)
        total = sum(size for _, size in used.values())
        for folder, (_, size) in sorted(used.items(), key=lambda item: item[1][0]):
            if total <= self._limit:
                return
            if folder != newest:
                shutil.rmtree(folder, ignore_errors=True)
                total -= size


def _pack(dump: Path, folder: Path) -> None:
    for program in _programs(dump)[:1]:
        with program.open("rb") as source, gzip.open(folder / f"{program.name}.gz", "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target)


def _told(configuration: Configuration) -> dict[str, Any]:
    """For whoever looks into a result. Values of variables may be secrets: their names are told."""
    shape = configuration.shape()
    return shape | {"env": sorted(shape["env"])}


def program_text(dump: Path) -> str:
    """The text of the compiled program in a result's folder, or in the compiler's own dump.

    Raises:
        FileNotFoundError: there is none.
    """
    for path in _programs(dump):
        return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    raise FileNotFoundError(f"{dump}: no {' or '.join(PROGRAMS)}")


def _programs(folder: Path) -> list[Path]:
    """The best first."""
    return [path for pattern in PROGRAMS for end in ("", ".gz") for path in sorted(folder.glob(pattern + end))]


def _memory(found: dict[str, Any]) -> MemoryReport:
    return MemoryReport(**found | {"largest": tuple(Buffer(**each) for each in found["largest"])})
