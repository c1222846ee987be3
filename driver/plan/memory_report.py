"""HBM of a compiled program, by libtpu's own plan of it, which is written seconds in, before code is generated.

Four dumps of libtpu 0.0.46, written in this order, all under the name of the program:
    after_optimizations.txt      the program, with JAX's names of its parameters and instructions
    -buffer-assignment.txt       each allocation, and the values in it with size, offset and shape
    -live-range.txt              when each value is alive; its own peak counts the host's memory too, and is not HBM's
    -memory-usage-report.txt     the total of each memory space; written last
`default (color=0)` is HBM, and `cmem (color=5)` is host memory despite its name: its values have the layout S(5).

The allocations of color 0 add up to the report's total to the byte; what is unused between the temporaries' tensors is
within their allocation.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Literal

from driver.errors import DriverError
from driver.plan import op_names

Kind = Literal["weights", "optimizer", "inputs", "temporaries", "other"]
"""inputs: the batch. temporaries: activations, gradients and what the compiler needs in between, at their peak. other:
constants, results that are no parameter's, and what is local to a thread."""

REPORT = "memory-usage-report.txt"

_HOST = 5
_SPACE = re.compile(r"^Memory Space: .+? \(color=(\d+)\)\s*\nTotal bytes: (\d+)", re.MULTILINE)
_ALLOCATION = re.compile(r"^allocation \d+: size (\d+), ([^\n]*)\n((?: value: [^\n]*\n)*)", re.MULTILINE)
_COLOR = re.compile(r"\bcolor (\d+)")
_PARAMETER = re.compile(r"\bparameter (\d+), shape \|([^|]*)\|")
_VALUE = re.compile(
    r"^ value: <\d+ (\S+?)(?:\{\})?(?: \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\): ([^{\n]*)", re.MULTILINE
)
_RANGE = re.compile(r"^    (\S+?)(?:\{\})?:(\d+)-(\d+)$", re.MULTILINE)

UNUSED = "free between the tensors at the peak (fragmentation)"


@dataclass(frozen=True)
class Buffer:
    bytes: int
    """Of all of them, where `what` counts several."""
    what: str
    """Count, dtype and shape on one device, and what it is: `2 x bf16[3,8192,14336] MlpBlock dot_general, ...`."""
    kind: Kind


@dataclass(frozen=True)
class MemoryReport:
    """Of one device."""

    hbm_bytes: int
    host_bytes: int
    """In the host's memory, where state or activations are offloaded to."""
    by_kind: dict[Kind, int]
    """HBM's bytes; they add up to hbm_bytes: what no allocation accounts for, nothing so far, would be in `other`."""
    largest: tuple[Buffer, ...]
    """In HBM at its peak, largest first."""


def read(report: Path, largest: int = 10) -> MemoryReport:
    """report: the memory report within the compiler's dump, with the other three beside it.

    Raises:
        DriverError: as parse().
    """
    program = report.name.removesuffix(f"-{REPORT}")
    texts = []
    for name in (report.name, f"{program}-buffer-assignment.txt", f"{program}-live-range.txt", f"{program}.txt"):
        try:
            texts.append(report.with_name(name).read_text())
        except FileNotFoundError:
            raise _unreadable(f"The compiler wrote no {name} beside its memory report.") from None
    return parse(*texts, largest=largest)


def parse(report: str, assignment: str, ranges: str, program: str, *, largest: int = 10) -> MemoryReport:
    """From the texts of the four dumps.

    Raises:
        DriverError: there is no block of HBM in the report, as when the compiler was ended while it wrote.
    """
    totals = {int(color): int(size) for color, size in _SPACE.findall(report)}
    if 0 not in totals:
        raise _unreadable("The compiler's memory report has no block of HBM (`Memory Space: default (color=0)`).")
    named = op_names.parse(program)
    kinds: dict[Kind, int] = dict.fromkeys(("weights", "optimizer", "inputs", "temporaries", "other"), 0)
    buffers: list[Buffer] = []
    for text, how, values in _ALLOCATION.findall(assignment):
        color, size = _COLOR.search(how), int(text)
        if color and color[1] != "0":
            continue
        parameter = _PARAMETER.search(how)
        kind: Kind = "temporaries" if "preallocated-temp" in how else "other"
        if parameter:
            name = named.parameters.get(int(parameter[1]), "")
            kind = kind_of(name)
            buffers.append(Buffer(size, f"{parameter[2]} {op_names.parameter(name)}", kind))
        elif kind == "temporaries":
            buffers += _temporaries(size, values, ranges, named)
        kinds[kind] += size
    kinds["other"] += totals[0] - sum(kinds.values())
    top = sorted(buffers, key=lambda each: (-each.bytes, each.what))[:largest]
    return MemoryReport(totals[0], totals.get(_HOST, 0), kinds, tuple(top))


def kind_of(name: str) -> Kind:
    """Of a parameter of MaxText's train step (0.2.5): its state holds `model` and `optimizer`."""
    if name.startswith("state['optimizer']"):
        return "optimizer"
    if name.startswith("state['model']"):
        return "weights"
    return "inputs" if name.startswith("data[") else "other"


def _temporaries(size: int, values: str, ranges: str, named: op_names.Program) -> Iterable[Buffer]:
    """What is alive in the temporaries' allocation when most of it is used; equal ones as one."""
    alive = {name: (int(start), int(end)) for name, start, end in _RANGE.findall(ranges)}
    held = [
        _Value(name, shape, int(offset), int(bytes_), *alive[name])
        for name, bytes_, offset, shape in _VALUE.findall(values)
        if name in alive
    ]
    groups: dict[str, list[int]] = defaultdict(list)
    free = size
    for value in _peak(held):
        groups[f"{value.shape} {named.describe(value.name)}"].append(value.bytes)
        free -= value.bytes
    for what, sizes in groups.items():
        count = f"{len(sizes)} x " if len(sizes) > 1 else ""
        yield Buffer(sum(sizes), count + what, "temporaries")
    yield Buffer(free, UNUSED, "temporaries")


@dataclass(frozen=True)
class _Value:
    name: str
    shape: str
    offset: int
    bytes: int
    start: int
    end: int
    """Moments, in instructions of the schedule; both included."""


def _peak(values: Sequence[_Value]) -> list[_Value]:
    """Those that are alive when they take most, none twice: an instruction that works in place has its operand and its
    result alive at the same moment and at the same offset."""
    change: dict[int, int] = defaultdict(int)
    for value in values:
        change[value.start] += value.bytes
        change[value.end + 1] -= value.bytes
    moments = sorted(change)
    sums = dict(zip(moments, accumulate(change[moment] for moment in moments), strict=True))
    best: list[_Value] = []
    most = 0
    for moment in sorted(moments, key=lambda each: -sums[each]):
        if sums[moment] <= most:
            break
        apart = _apart([value for value in values if value.start <= moment <= value.end])
        used = sum(value.bytes for value in apart)
        if used > most:
            best, most = apart, used
    return best


def _apart(values: Iterable[_Value]) -> list[_Value]:
    """Without those that overlap with another one, which has the earlier offset or the later start."""
    kept: list[_Value] = []
    for value in sorted(values, key=lambda each: (each.offset, -each.start)):
        if not kept or value.offset >= kept[-1].offset + kept[-1].bytes:
            kept.append(value)
    return kept


def _unreadable(found: str) -> DriverError:
    return DriverError(
        found,
        rule="libtpu 0.0.46 writes a block for each memory space, and where each allocation is.",
        fix="compile again; if it stays so, `driver plan --install` verifies the compiler's environment, and sets it up"
        " anew where it is damaged",
    )
