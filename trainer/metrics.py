"""Progress as it is kept in the run's folder: what a record holds, and how to read them back.

Standard library only: the trainer writes these records, and status, plots and reports read them (docs/progress.md).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["session", "step", "eval", "checkpoint", "stall", "end"]

GAUGES = {
    "step": "last completed step",
    "loss": "training loss of that step",
    "step_seconds": "wall time from the step before it, seconds",
    "tflops_per_chip": "model TFLOP/s per chip",
    "tokens_per_second_per_chip": "trained tokens per second and chip",
    "slices": "slices that train now",
    "restarts": "worker groups started by this job, less one",
    "last_checkpoint_step": "step of the newest complete checkpoint, -1 for none",
}
"""Ray gauges, each exported as `ray_maxtext_<name>` with the tags run and attempt."""


@dataclass(frozen=True)
class History:
    """What a run has done so far. Steps and evaluations by step, the newest record of each; events in time order."""

    steps: dict[int, dict[str, Any]] = field(default_factory=dict)
    evals: dict[int, dict[str, Any]] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    stalls: list[dict[str, Any]] = field(default_factory=list)
    ends: list[dict[str, Any]] = field(default_factory=list)

    @property
    def end(self) -> dict[str, Any] | None:
        """How the newest job of the run ended; None while the first one trains."""
        return self.ends[-1] if self.ends else None


def read(folder: Path) -> History:
    """All records of a run; an empty history where there are none.

    A step that was trained again after a restart counts once, by its newest record.

    Raises:
        ValueError: a record is not JSON; says which file and line.
    """
    return collect(_records(folder))


def collect(records: Iterable[dict[str, Any]]) -> History:
    history = History()
    for record in sorted(records, key=lambda r: r["time"]):
        match record["kind"]:
            case "step":
                history.steps[record["step"]] = record
            case "eval":
                history.evals[record["step"]] = record
            case "session":
                history.sessions.append(record)
            case "checkpoint":
                history.checkpoints.append(record)
            case "stall":
                history.stalls.append(record)
            case "end":
                history.ends.append(record)
    return History(
        dict(sorted(history.steps.items())),
        dict(sorted(history.evals.items())),
        history.sessions,
        history.checkpoints,
        history.stalls,
        history.ends,
    )


def write(folder: Path, records: list[dict[str, Any]], first_step: int, unix_ms: int) -> Path:
    """Writes records as one new file. Never appends: on a bucket that would write the object anew each time."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{max(first_step, 0):08d}-{unix_ms}.jsonl"
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(json.dumps(record) + "\n" for record in records))
    return temporary.rename(path)


def _records(folder: Path) -> Iterable[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: not a JSON record ({error})") from error
