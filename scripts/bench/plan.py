"""How good is what `driver plan` says: against the compiler's own executables, and against published TPU measurements?

    scripts/bench/run plan [memory] [time] [pace] [profiles] [--output json] [--workers N]

Without a name all four, some hours on two cores the first time: whole compilations take minutes each. What they gave is
kept in the user's cache, where `driver plan` finds it too, but for `pace`, which starts with an empty one.

memory    HBM by the report that is there within seconds, against what the executable of the whole compilation itself
          says, or against the figure in the compiler's refusal. Goals: within 1%, and nothing called fitting that the
          compiler rejects. The executable counts its own code (some 0.1 GiB), the report does not: both are shown.
time      The predicted step against published measurements on v6e (scripts/bench/published), none of which any constant
          was fitted to. Goal: a median error of at most 10%. `schedule` is the prediction that is there in seconds.
pace      How many configurations of a search are judged for memory in ten minutes, and the most memory that the driver
          with all its compilers took meanwhile (proportional set size). Goals: 60, and 12 GiB.
profiles  What values/ ships: fits, MFU, and tokens per second against the upstream tutorial's settings on the same
          slices, compiled with the same versions. Goals: 8B 1.5 times, 70B 1 GiB to spare and 40% MFU, elastic fits on
          every number of slices. All of it is predicted.

HBM and predictions are deterministic. Exit code 1 when a goal is missed.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from driver import chart
from driver.errors import DriverError
from driver.plan import opening
from driver.plan.cache import Cache, Result
from driver.plan.planning import Plan, Wishes, plan
from driver.plan.request import Configuration
from driver.plan.search import Search
from driver.plan.verdict import Answer, Case, StepTime, judge
from driver.values import Values, find_file
from scripts.bench import command_line

_GIB = 2**30
_PUBLISHED = Path(__file__).parent / "published"
_WITHOUT_EXCLUDED = "job.libtpuFlags.xla_tpu_enable_async_collective_fusion_fuse_all_gather=null"
"""libtpu 0.0.46 does not compile with the tutorial's flags."""

MEASURED = {"llama3.1-8b-v6e-16": 3.393, "llama3.1-70b-v6e-32": 17.790, "gemma3-12b-v6e-256": 7.318}
"""Seconds of a step."""

BFLOAT16 = "job.maxtext.weight_dtype=bfloat16"
CASES: tuple[tuple[str, tuple[str, ...], int], ...] = (
    *((str(_PUBLISHED / f"{name}.yaml"), (), 1) for name in MEASURED),
    ("llama3-8b", (), 2),
    ("llama3-8b-elastic", (), 1),
    ("llama3-70b", (), 2),
    ("tutorial-8b", (_WITHOUT_EXCLUDED,), 2),
    ("tutorial-70b", (_WITHOUT_EXCLUDED,), 2),
    ("tutorial-70b", (_WITHOUT_EXCLUDED, BFLOAT16), 2),
    ("tutorial-70b", (_WITHOUT_EXCLUDED, "job.maxtext.per_device_batch_size=1"), 2),
    ("llama3-8b", ("job.maxtext.per_device_batch_size=16",), 2),
)
"""Values, changes to them, slices."""

Facts = dict[str, Any]


def main() -> int:
    options = _options()
    parts: dict[str, Callable[[argparse.Namespace, Console], tuple[Facts, Table]]] = {
        "memory": memory, "time": step_time, "pace": pace, "profiles": profiles,
    }  # fmt: skip
    progress = Console(stderr=True)
    told = {name: parts[name](options, progress) for name in options.parts or parts}
    facts = {name: found for name, (found, _) in told.items()}
    command_line.answer(options.output, facts, *(table for _, table in told.values()))
    return 0 if all(found["reached"] for found in facts.values()) else 1


def memory(options: argparse.Namespace, progress: Console) -> tuple[Facts, Table]:
    cases = []
    for values, changes, slices in CASES:
        name = " ".join([Path(values).stem, *(_short(change) for change in changes)])
        progress.print(f"memory: {name}, {slices} of its slices", soft_wrap=True)
        cases.append({"name": name, "slices": slices, **_compared(_run(values, changes), slices, options)})
    errors = [abs(case["error"]) for case in cases]
    wrong = [case["name"] for case in cases if case["calledFitting"] and case["rejected"]]
    facts = {
        "cases": cases,
        "largestError": max(errors),
        "calledFittingAndRejected": wrong,
        "reached": len(cases) >= 10 and max(errors) <= 0.01 and not wrong,
    }
    rows = [
        (case["name"], case["slices"], f"{case['report']:.2f}", f"{case['whole']:.2f}", f"{case['error']:+.2%}",
         _number(case["code"]), "rejected" if case["rejected"] else "accepted",
         "fits" if case["calledFitting"] else "-")
        for case in cases
    ]  # fmt: skip
    columns = ("", "slices", "report", "whole", "error", "and code", "compiler", "driver plan")
    return facts, command_line.table("HBM per chip, GiB", columns, rows)


def _compared(run: Mapping[str, Any], slices: int, options: argparse.Namespace) -> Facts:
    """The report before code generation, and what the end of the compilation says."""
    case = Case(slices)
    with opening.compiler(run, None, options.workers) as (site, compiler, _):
        (early,) = compiler.memory([case])
        (late,) = compiler.whole([case])
        found = Cache().find(Configuration(run, slices).key(site.compiled_by), "executable")
    if early.memory is None or found is None:
        raise DriverError(f"There is no memory report: {early.refusal or late.refusal}")
    whole, code = _whole(found)
    report = early.memory.total
    return {
        "report": report,
        "whole": whole,
        "code": code,
        "error": report / whole - 1,
        "rejected": not late.accepted,
        # By its report: what is kept of an earlier whole compilation knows better.
        "calledFitting": judge(run, replace(early, refusal=None, accepted=False), site.work(case)).fits,
    }


def _whole(found: Result) -> tuple[float, float | None]:
    """GiB of the program's data by the executable, and of its code; of one that was rejected there is no code."""
    total = found.facts["compiledHbmBytes"] / _GIB
    code = found.facts.get("compiled", {}).get("generated_code")
    return total - (code or 0) / _GIB, None if code is None else code / _GIB


def step_time(options: argparse.Namespace, progress: Console) -> tuple[Facts, Table]:
    cases: list[Facts] = []
    for name, measured in MEASURED.items():
        progress.print(f"time: {name}", soft_wrap=True)
        run = _run(str(_PUBLISHED / f"{name}.yaml"), ())
        with opening.compiler(run, None, options.workers) as (_, compiler, predictor):
            scheduled, whole = (
                _predicted(next(iter(answers)), predictor)
                for answers in (compiler.memory([Case(1)]), compiler.whole([Case(1)]))
            )
        cases.append(
            {
                "name": name,
                "measured": measured,
                "predicted": whole.seconds,
                "error": whole.seconds / measured - 1,
                "parts": dict(whole.parts),
                "schedule": None if scheduled.generated else scheduled.seconds,
            }
        )
    median = statistics.median(abs(case["error"]) for case in cases)
    facts = {"cases": cases, "medianError": median, "reached": median <= 0.1}
    parts = list(dict.fromkeys(part for case in cases for part in case["parts"]))
    rows = [
        (case["name"], f"{case['measured']:.3f}", f"{case['predicted']:.3f}", f"{case['error']:+.1%}",
         *(f"{case['parts'].get(part, 0):.3f}" for part in parts))
        for case in cases
    ]  # fmt: skip
    title = f"Step on v6e, seconds (median error {median:.1%})"
    return facts, command_line.table(title, ("", "measured", "predicted", "error", *parts), rows)


def _predicted(answer: Answer, predictor: Callable[[Case, Path], StepTime]) -> StepTime:
    if answer.dump is None:
        raise DriverError(f"There is no program: {answer.refusal}")
    return predictor(answer.case, answer.dump)


def pace(options: argparse.Namespace, progress: Console) -> tuple[Facts, Table]:
    run = _run("llama3-8b", ())
    with tempfile.TemporaryDirectory() as folder:
        opened = opening.compiler(run, None, options.workers, Cache(Path(folder)))
        with opened as (site, compiler, predictor), _Watch() as watch:
            began = time.monotonic()
            seconds: list[float] = []

            def tell(tally: Any) -> None:
                seconds.append(time.monotonic() - began)
                progress.print(f"pace: {tally.compiled} after {seconds[-1]:.0f} s", soft_wrap=True)

            search = Search(
                site, (2,), compiler, lambda answer: judge(run, answer, site.work(answer.case)).fits, predictor,
                limit=options.configurations, tell=tell,
            )  # fmt: skip
            search.memory()
    judged = sum(second <= 600 for second in seconds)
    facts = {
        "configurations": len(seconds),
        "refused": search.tally.refused,
        "seconds": seconds[-1],
        "perTenMinutes": judged if seconds[-1] > 600 else round(600 * len(seconds) / seconds[-1]),
        "cores": len(os.sched_getaffinity(0)),
        "peakGiB": watch.peak / _GIB,
    }
    facts["reached"] = facts["perTenMinutes"] >= 60 and facts["peakGiB"] < 12
    columns = ("", "configurations", "refused", "seconds", "in 10 minutes", "cores", "most memory, GiB")
    row = (
        "search of llama3-8b", facts["configurations"], facts["refused"], f"{facts['seconds']:.0f}",
        facts["perTenMinutes"], facts["cores"], f"{facts['peakGiB']:.2f}",
    )  # fmt: skip
    return facts, command_line.table("Judged for memory, with an empty cache", columns, [row])


def profiles(options: argparse.Namespace, progress: Console) -> tuple[Facts, Table]:
    ours = {name: _planned(name, (), options, progress) for name in ("llama3-8b", "llama3-70b", "llama3-8b-elastic")}
    theirs = _planned("tutorial-8b", (_WITHOUT_EXCLUDED,), options, progress)
    rate = "tokensPerSecondPerChip"
    ratio = ours["llama3-8b"].verdicts[-1].rates.get(rate, 0.0) / theirs.verdicts[-1].rates[rate]
    large = ours["llama3-70b"].verdicts[-1]
    facts = {
        "profiles": {name: found.as_data() for name, found in {**ours, "tutorial-8b": theirs}.items()},
        "ratioToTutorial8b": ratio,
        "reached": ratio >= 1.5
        and all(found.fits for found in ours.values())
        and (large.spare_gib or 0) >= 1
        and large.rates.get("mfu", 0.0) >= 0.4,
    }
    rows = [
        (name, verdict.case.slices, "yes" if verdict.fits else "no",
         f"{verdict.memory.total:.2f}" if verdict.memory else "-",
         f"{verdict.step.seconds:.3f}" if verdict.step else "-", f"{verdict.rates.get(rate, 0):,.0f}",
         f"{verdict.rates.get('mfu', 0):.1%}")
        for name, found in {**ours, "tutorial-8b": theirs}.items()
        for verdict in found.verdicts
    ]  # fmt: skip
    title = f"Profiles, predicted (llama3-8b has {ratio:.2f} times the tokens of tutorial-8b)"
    return facts, command_line.table(title, ("", "slices", "fits", "HBM, GiB", "step, s", "tokens/s/chip", "MFU"), rows)


def _planned(name: str, changes: tuple[str, ...], options: argparse.Namespace, progress: Console) -> Plan:
    run = _run(name, changes)
    progress.print(f"profiles: {name}", soft_wrap=True)
    with opening.compiler(run, None, options.workers) as (site, compiler, predictor):
        return plan(site, compiler, predictor, Wishes(), lambda doing: None, propose=False)


def _run(values: str, changes: tuple[str, ...]) -> Mapping[str, Any]:
    return chart.render(Values((find_file(values),), changes), "bench").run


class _Watch:
    """The most memory of this process and all that it has started, while the block runs, in bytes."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            self.peak = max(self.peak, sum(_proportional_bytes(pid) for pid in _tree(os.getpid())))


def _tree(root: int) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue  # it has just ended
        parents.setdefault(parent, []).append(int(stat.parent.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += parents.get(pid, [])


def _proportional_bytes(pid: int) -> int:
    """What forked processes share counts once."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # it has just ended
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


def _short(change: str) -> str:
    return "" if change == _WITHOUT_EXCLUDED else change.removeprefix("job.maxtext.")


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _options() -> argparse.Namespace:
    parser = command_line.parser(__doc__)
    parser.add_argument("parts", nargs="*", choices=("memory", "time", "pace", "profiles"), metavar="PART")
    parser.add_argument(
        "--workers", type=command_line.positive, help="compilations at once [as cores and memory allow]"
    )
    parser.add_argument("--configurations", type=command_line.positive, default=60, help="for pace [60]")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
