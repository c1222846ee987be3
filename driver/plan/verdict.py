"""What is known about one configuration: whether it fits, how fast it is predicted to be, what it moves and costs.

Also the values that the compiler's side and the search exchange: a `Case` goes in, an `Answer` comes out. Everything
of a device is per JAX device, which is a chip but on v7x, where a chip is two.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

type Value = bool | int | float | str | None

MARGIN = 0.02
"""Part of the HBM that the report may lack. It holds the program's data to some 0.1%, and not its code: 0.12 GiB of
Llama 3 8B, 0.32 of 70B, 0.43 of Gemma 3 12B on v6e. What is nearer to the limit counts as not fitting until the whole
compilation has accepted it."""

UNSCANNED_MARGIN = 0.05
"""The same with `scan_layers: false`. The program's own code is in HBM beside what the report counts: that of one layer
where they are scanned, else of each, and nothing tells how much it is before it is generated."""

_BILLION = 1e9
_HOUR = 3600.0


@dataclass(frozen=True)
class Case:
    """The run on a number of slices, with some of MaxText's arguments changed; None removes one, as Helm's null."""

    slices: int
    changes: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, slices: int, changes: Mapping[str, Value] | None = None) -> "Case":
        """Equal changes in another order are the same case."""
        return cls(slices, tuple(sorted((changes or {}).items())))

    def on(self, slices: int) -> "Case":
        """The same arguments on another number of slices."""
        return Case(slices, self.changes)

    def arguments(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """`job.maxtext` with the changes in it, before the trainer adds what it computes."""
        return {key: value for key, value in {**run["maxtext"], **dict(self.changes)}.items() if value is not None}


@dataclass(frozen=True)
class Tensor:
    """One of the largest buffers: what the compiler's report says of it, with its shape; GiB per device."""

    name: str
    gib: float


@dataclass(frozen=True)
class Memory:
    """HBM per device as the compiler's report has it, GiB. `kinds` add up to `total`.

    host_gib: host memory that belongs to one device.
    """

    total: float
    kinds: Mapping[str, float]
    largest: tuple[Tensor, ...] = ()
    host_gib: float = 0.0


@dataclass(frozen=True)
class Refusal:
    """Why there is no answer: the kind ("argument", "sharding", ...) and the words of the compiler or MaxText."""

    kind: str
    said: str


@dataclass(frozen=True)
class Work:
    """What a step does, and the state that a checkpoint holds.

    tokens: of a whole step, all accumulated batches, for one device.
    model_tflop: TFLOP per device and step as MaxText counts them, without what is computed again.
    checkpoint_bytes: weights and optimizer's state of the whole model.
    """

    tokens: float
    model_tflop: float | None = None
    checkpoint_bytes: float | None = None


@dataclass(frozen=True)
class Answer:
    """What compiling a case gave. dump: folder with the program as far as it was compiled, for a Predictor.

    accepted: the whole compilation ended well. work: as MaxText itself counts it, where it came so far.
    """

    case: Case
    memory: Memory | None = None
    refusal: Refusal | None = None
    dump: Path | None = None
    accepted: bool = False
    work: Work | None = None


@dataclass(frozen=True)
class StepTime:
    """A predicted step. parts: seconds by what they are spent on, adding up to `seconds`.

    ici_bytes, dcn_bytes: that a chip sends in a step.
    unknown: what the prediction leaves out because no figure for it is known, a sentence each.
    generated: whether it is of a program with code. One that is only scheduled has no estimates of its matrix products,
    which are then taken at the chip's peak: a step takes longer.
    """

    seconds: float
    parts: Mapping[str, float]
    ici_bytes: float | None = None
    dcn_bytes: float | None = None
    unknown: tuple[str, ...] = ()
    generated: bool = True


class Compiler(Protocol):
    """Compiles cases with all cores. A case is taken from the iterable only when a core is free for it, so that what
    was learned from the earlier ones can still drop it."""

    def memory(self, cases: Iterable[Case]) -> Iterator[Answer]:
        """The memory of each, as soon as it is known, in any order, with the program as it was scheduled."""
        ...

    def whole(self, cases: Iterable[Case], save: Path | None = None) -> Iterator[Answer]:
        """Compiles each to the end and keeps its dump; with `save`, a folder, the executables as well."""
        ...

    def doing(self) -> str:
        """What is being compiled at this moment, and how far it is; empty when nothing is."""
        ...


class Predictor(Protocol):
    @property
    def unable(self) -> str:
        """Why no dump of this run could tell a time, in a sentence: then nothing needs to be compiled to the end for
        it. Empty otherwise."""
        ...

    def __call__(self, case: Case, dump: Path) -> StepTime:
        """The step time that the dump of a compilation tells. Raises a DriverError where it tells none."""
        ...


@dataclass(frozen=True)
class Verdict:
    """All that is known about one case. What is not known is None."""

    case: Case
    memory: Memory | None
    usable_gib: float
    refusal: Refusal | None = None
    accepted: bool = False
    step: StepTime | None = None
    says: str = ""
    """The change in words, where it is one of several proposals."""
    warns: str = ""
    """What else the change changes."""
    rates: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    checkpoint_gb: float | None = None
    margin: float = MARGIN
    """Part of the HBM that the report may be wrong by."""

    @property
    def fits(self) -> bool:
        """The compiler accepted all of it, or its report leaves more than the report may be wrong by."""
        if self.refusal is not None or self.memory is None:
            return False
        return self.accepted or self.memory.total <= self.usable_gib * (1 - self.margin)

    @property
    def close(self) -> bool:
        """Only compiling to the end can tell whether it fits."""
        if self.accepted or self.refusal is not None or self.memory is None:
            return False
        return self.usable_gib * (1 - self.margin) < self.memory.total <= self.usable_gib * (1 + MARGIN)

    @property
    def spare_gib(self) -> float | None:
        return None if self.memory is None else self.usable_gib - self.memory.total

    def as_data(self) -> dict[str, Any]:
        """For `--output json`: GiB per device, seconds, bytes per device and step; null for what is not known."""
        return {
            "slices": self.case.slices,
            "changes": dict(self.case.changes),
            "fits": self.fits,
            "tooCloseToTell": self.close,
            "refused": None if self.refusal is None else {"kind": self.refusal.kind, "said": self.refusal.said},
            "hbmGiB": None if self.memory is None else self._memory_as_data(self.memory),
            "step": None if self.step is None else self._step_as_data(self.step),
            "checkpointGB": _rounded(self.checkpoint_gb),
            "cost": {key: round(value, 6) for key, value in self.cost.items()} or None,
            "says": self.says or None,
            "warns": self.warns or None,
        }

    def _memory_as_data(self, memory: Memory) -> dict[str, Any]:
        return {
            "total": _rounded(memory.total),
            "usable": self.usable_gib,
            "spare": _rounded(self.spare_gib),
            "kinds": {kind: _rounded(gib) for kind, gib in memory.kinds.items()},
            "largest": [{"name": tensor.name, "GiB": _rounded(tensor.gib)} for tensor in memory.largest],
            "host": _rounded(memory.host_gib),
        }

    def _step_as_data(self, step: StepTime) -> dict[str, Any]:
        return {
            "predictedSeconds": _rounded(step.seconds),
            "codeGenerated": step.generated,
            "parts": {part: _rounded(seconds) for part, seconds in step.parts.items()},
            **{name: _rounded(value) for name, value in self.rates.items()},
            "iciBytesPerChip": step.ici_bytes,
            "dcnBytesPerChip": step.dcn_bytes,
            "leftOut": list(step.unknown),
        }


def judge(
    run: Mapping[str, Any],
    answer: Answer,
    counted: Work,
    *,
    step: StepTime | None = None,
    price: float | None = None,
    says: str = "",
    warns: str = "",
) -> Verdict:
    """Puts the facts of one case together.

    counted: the driver's own count, for where MaxText's is not known.
    price: of a chip for an hour, in any currency; none is built in.
    """
    work = answer.work or counted
    return Verdict(
        answer.case,
        answer.memory,
        usable_gib(run),
        refusal=answer.refusal,
        accepted=answer.accepted,
        step=step,
        says=says,
        warns=warns,
        rates=_rates(run["tpu"], step, work) if step is not None else {},
        cost=_cost(run, answer.case.slices, step.seconds, work, price) if step is not None and price else {},
        checkpoint_gb=None if work.checkpoint_bytes is None else work.checkpoint_bytes / _BILLION,
        margin=MARGIN if _scanned(answer.case.arguments(run)) else UNSCANNED_MARGIN,
    )


def usable_gib(run: Mapping[str, Any]) -> float:
    """HBM that a program can use on one device."""
    return float(run["tpu"]["hbmGiBPerChip"]) / int(run["tpu"]["devicesPerChip"])


def devices_per_slice(run: Mapping[str, Any]) -> int:
    tpu = run["tpu"]
    return int(tpu["hostsPerSlice"] * tpu["chipsPerHost"] * tpu["devicesPerChip"])


def chips(run: Mapping[str, Any], slices: int) -> int:
    return slices * int(run["tpu"]["hostsPerSlice"] * run["tpu"]["chipsPerHost"])


def _scanned(arguments: Mapping[str, Any]) -> bool:
    """MaxText's default is that they are; a text is what --set-string gives."""
    return str(arguments.get("scan_layers", True)).lower() != "false"


def _rates(tpu: Mapping[str, Any], step: StepTime, work: Work) -> dict[str, float]:
    per_chip = int(tpu["devicesPerChip"])
    rates = {"tokensPerSecondPerChip": work.tokens * per_chip / step.seconds}
    if work.model_tflop is not None:
        rates["tflopsPerChip"] = work.model_tflop * per_chip / step.seconds
        rates["mfu"] = rates["tflopsPerChip"] / float(tpu["peakTflopsPerChip"])
    return rates


def _cost(run: Mapping[str, Any], slices: int, seconds: float, work: Work, price: float) -> dict[str, float]:
    """Of stepping alone: a start, checkpoints that are waited for and lost steps come on top."""
    per_step = price * chips(run, slices) * seconds / _HOUR
    tokens = work.tokens * devices_per_slice(run) * slices
    return {"perStep": per_step, "perBillionTokens": per_step / tokens * _BILLION, "run": per_step * int(run["steps"])}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
