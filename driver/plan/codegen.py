"""The program that libtpu's compiler made: its instructions in the order in which they run.

The text is XLA's HLO as libtpu 0.0.46 writes it: *after_optimizations.txt as soon as the program is scheduled, seconds
in, and *after_codegen.txt with the estimates of its cost model when it has generated code, minutes in. What the
instructions cost is for step_time.py to say, what they move for traffic.py.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from driver.errors import DriverError

HBM, HOST = 0, 5
"""Memory spaces, S(n) in a layout. XLA's Layout::kHostMemorySpace is 5; 1 is VMEM."""

_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
_ARRAY = re.compile(r"\b(pred|token|[a-z]+\d+\w*)\[([\d,]*)\](?:\{([^{}]*)\})?")
_SPACE = re.compile(r"S\((\d+)\)")
_NAME = re.compile(r"%([\w.\-]+)(?:#(\d+))?")
_CALLED = re.compile(r"(?:calls|to_apply|called_computations|branch_computations)=(?:%?([\w.\-]+)|\{([^}]*)\})")
_BRANCH = re.compile(r"(?:true|false)_computation=%?([\w.\-]+)")
_WHILE = re.compile(r"condition=%?([\w.\-]+), body=%?([\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_MODEL = re.compile(r'"cost_model_type":"COST_MODEL_TYPE_INVALID"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_INTEGER = re.compile(r"[su](?:32|64)\[\]")


@dataclass(frozen=True, slots=True)
class Array:
    """One array of an instruction's result. Its bytes are those of its elements, without the padding of its layout."""

    dtype: str
    shape: tuple[int, ...]
    space: int

    @property
    def bytes(self) -> float:
        if self.dtype == "token":
            return 0
        bits = 8 if self.dtype == "pred" else int(re.findall(r"\d+", self.dtype)[0])
        size = bits / 8
        for length in self.shape:
            size *= length
        return size


@dataclass(frozen=True)
class Instruction:
    name: str
    opcode: str
    result: str
    """Its type as the compiler writes it."""
    operands: tuple[str, ...]
    parts: tuple[int | None, ...]
    """For each operand which of its results is meant, where it has several: 1 for %name#1."""
    attributes: str
    """All behind the operands: channels, groups, metadata, backend_config."""

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """Of the result: one, or a tuple's in their order, nested ones flat."""
        return arrays_in(self.result)

    @cached_property
    def cycles(self) -> int:
        """What the compiler estimates for it, in cycles of a TensorCore; 0 where it gives none."""
        found = _CYCLES.search(self.attributes)
        return int(found[1]) if found else 0

    @cached_property
    def called(self) -> tuple[str, ...]:
        """The computations that it stands for: a fusion's, an async start's, a conditional's branches."""
        names = [one or many for one, many in _CALLED.findall(self.attributes)]
        listed = [part.strip().lstrip("%") for name in names for part in name.split(",")]
        return (*listed, *_BRANCH.findall(self.attributes))

    @cached_property
    def loop(self) -> tuple[str, str] | None:
        """A while's condition and body."""
        found = _WHILE.search(self.attributes) if self.opcode == "while" else None
        return (found[1], found[2]) if found else None

    @cached_property
    def estimated(self) -> bool:
        """Whether the compiler's cost model has made the estimate: its defaults for the rest are not worth more than
        their order of magnitude."""
        return bool(self.cycles) and _MODEL.search(self.attributes) is None

    @property
    def constant(self) -> int | None:
        """Of an integer constant."""
        found = self.attribute(r"^\((-?\d+)\)") if self.opcode == "constant" and _INTEGER.match(self.result) else ""
        return int(found) if found else None

    @property
    def number(self) -> int:
        """Of a parameter."""
        return int(self.attribute(r"^\((\d+)\)") or -1)

    @cached_property
    def channel(self) -> str:
        """The channel of a collective or of a transfer between slices; empty for none."""
        return self.attribute(r"\bchannel_id=(\d+)")

    def attribute(self, pattern: str) -> str:
        """What the pattern's first group matches in the attributes; empty for nothing."""
        found = re.search(pattern, self.attributes)
        return found[1] if found else ""


@dataclass(frozen=True)
class Program:
    entry: str
    bodies: dict[str, list[str]]
    """Computation to its instructions, as text: most are inside of fusions and are never looked at."""
    _parsed: dict[str, tuple[Instruction, ...]] = field(default_factory=dict, compare=False)
    _named: dict[str, dict[str, Instruction]] = field(default_factory=dict, compare=False)
    _users: dict[str, dict[str, list[tuple[Instruction, int]]]] = field(default_factory=dict, compare=False)

    def computation(self, name: str) -> tuple[Instruction, ...]:
        if name not in self._parsed:
            self._parsed[name] = tuple(instruction(text) for text in self.bodies.get(name, ()))
        return self._parsed[name]

    def named(self, name: str) -> dict[str, Instruction]:
        """A computation's instructions by their names."""
        if name not in self._named:
            self._named[name] = {each.name: each for each in self.computation(name)}
        return self._named[name]

    def users(self, name: str) -> dict[str, list[tuple[Instruction, int]]]:
        """For each instruction of a computation those that use it, with the place among their operands."""
        if name not in self._users:
            found: dict[str, list[tuple[Instruction, int]]] = {}
            for each in self.computation(name):
                for place, operand in enumerate(each.operands):
                    found.setdefault(operand, []).append((each, place))
            self._users[name] = found
        return self._users[name]

    def trips(self, loop: Instruction, computation: str) -> int:
        """How often a while's body runs: the compiler's count, else what its condition compares with, by the counter's
        start and step (0 and 1 where they are not told).

        computation: in which the while is.

        Raises:
            DriverError: neither is there, so that no time can be predicted.
        """
        known = _TRIPS.search(loop.attributes)
        if known:
            return int(known[1])
        condition, body = loop.loop or ("", "")
        compared = self._compared(condition)
        if compared is None:
            raise DriverError(
                f"The compiled program's loop {loop.name} has no trip count, so no step time can be predicted.",
                rule="A loop has known_trip_count, or a constant in its condition.",
                fix="train with the versions of trainer/requirements.txt, whose dumps driver plan reads",
            )
        limit, place = compared
        start = self._tuple_part(computation, loop.operands[:1], place) or 0
        step = self._step(body, place) or 1
        return max(0, math.ceil((limit - start) / step))

    def _compared(self, condition: str) -> tuple[int, int | None] | None:
        """The constant that a condition compares with, and which part of the loop's state it compares."""
        for each in (condition, *(called for one in self.computation(condition) for called in one.called)):
            constants = [one.constant for one in self.computation(each) if one.constant is not None]
            if constants:
                parts = [part for one in self.computation(condition) for part in one.parts if part is not None]
                return max(constants), parts[0] if parts else None
        return None

    def _step(self, body: str, place: int | None) -> int | None:
        """What a loop's body adds to a part of its state."""
        root = self.computation(body)[-1] if self.computation(body) else None
        if place is None or root is None or root.opcode != "tuple" or place >= len(root.operands):
            return None
        added = self.named(body).get(root.operands[place])
        if added is None or added.opcode != "add":
            return None
        terms = [self.named(body)[name].constant for name in added.operands if name in self.named(body)]
        return next((term for term in terms if term is not None), None)

    def _tuple_part(self, computation: str, names: tuple[str, ...], place: int | None) -> int | None:
        """The constant that is this part of a tuple."""
        named = self.named(computation)
        whole = named.get(names[0]) if names else None
        if place is None or whole is None or whole.opcode != "tuple" or place >= len(whole.operands):
            return None
        part = named.get(whole.operands[place])
        return None if part is None else part.constant

    def executed(self, name: str = "", times: float = 1) -> Iterator[tuple[Instruction, float]]:
        """Every instruction that runs, with how often in a step: loops multiply, every branch of a conditional counts.

        What is inside of a fusion runs as that fusion and is not given.
        """
        for one in self.computation(name or self.entry):
            yield one, times
            if one.loop:
                yield from self.executed(one.loop[1], times * self.trips(one, name or self.entry))
            elif one.opcode in ("call", "conditional"):
                for called in one.called:
                    yield from self.executed(called, times)


def parse(text: str) -> Program:
    """Raises a DriverError if there is no program in the text."""
    bodies: dict[str, list[str]] = {}
    entry = ""
    current: list[str] | None = None
    for line in text.splitlines():
        # A line may begin with } inside of an instruction (kernels' attributes do): only a } alone ends a computation,
        # or one with the thread that it runs on (SparseCore's).
        if line == "}" or line.startswith("}, execution_thread="):
            current = None
        elif current is None:
            header = _HEADER.match(line)
            if header and not line.startswith(" "):
                current = bodies.setdefault(header[2], [])
                entry = header[2] if header[1] else entry
        elif _INSTRUCTION.match(line) or not current:
            current.append(line)
        else:
            current[-1] += " " + line.strip()
    if not entry:
        raise DriverError(
            "The compiler's dump of the program holds no ENTRY computation.",
            rule="libtpu 0.0.46 writes XLA's HLO there.",
            fix="compile again; if it stays so, `driver plan --install` sets the compiler's environment up anew",
        )
    return Program(entry, bodies)


def instruction(text: str) -> Instruction:
    """From `%name = type opcode(operands), attributes`."""
    found = _INSTRUCTION.match(text)
    if not found:
        return Instruction("", "", "", (), (), text)
    rest = text[found.end() :]
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    result, rest = rest[:end], rest[end:].lstrip()
    opcode, bracket, _ = rest.partition("(")
    close = _closing(rest, len(opcode)) if bracket else len(rest)
    inside = rest[len(opcode) : close]
    operands = _NAME.findall(inside)
    parts = tuple(int(part) if part else None for _, part in operands)
    # A parameter's number and a constant's value are all that they have between their brackets.
    attributes = f"{inside}){rest[close + 1 :]}" if opcode in ("parameter", "constant") else rest[close + 1 :]
    return Instruction(found[2], opcode, result, tuple(name for name, _ in operands), parts, attributes)


def arrays_in(text: str) -> tuple[Array, ...]:
    """The arrays of a type: `(bf16[8,128]{1,0:T(8,128)S(5)}, u32[])` are two, the first in the host's memory."""
    found = []
    for dtype, shape, layout in _ARRAY.findall(text):
        space = _SPACE.search(layout)
        found.append(Array(dtype, tuple(map(int, filter(None, shape.split(",")))), int(space[1]) if space else HBM))
    return tuple(found)


def _closing(text: str, start: int) -> int:
    """Where the bracket closes that opens at `start`; the text's end if it does not."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, start):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.start()
    return len(text)
