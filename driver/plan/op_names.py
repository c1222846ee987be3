"""What an instruction of a compiled program is to someone who knows MaxText: `MlpBlock dot_general, backward pass`.

Told by the metadata that JAX gives instructions and that XLA writes into its dumps: op_name, a path of
transformations, and the Python frames of the call, which hold the names of modules that op_name lacks. Read from
*after_optimizations.txt of libtpu 0.0.46 with MaxText 0.2.5 and jax 0.11.1.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_COMPUTATION = re.compile(r"^(ENTRY )?%([\w.\-]+) \(")
_INSTRUCTION = re.compile(r"^  (ROOT )?%([\w.\-]+) = ")
_OPCODE = re.compile(r"(?:[})\]] |^)([a-z][a-z\-]*)\(")
_OPERAND = re.compile(r"%([\w.\-]+)(?:#(\d+))?")
_METADATA = re.compile(r'\bmetadata=\{(?:op_type="[^"]*" )?op_name="([^"]*)"(?: stack_frame_id=(\d+))?')
_BODY = re.compile(r"\bbody=%([\w.\-]+)")
_ROW = re.compile(r"^(\d+) (?:\"(.*)\"|\{(.*)\})$")
_NUMBER = re.compile(r"parameter\((\d+)\)")
_INDEX = re.compile(r"\{(\d+)\}$")

_LAYERS = re.compile(r"/maxtext/(?:layers|models|kernels)/")
_BELOW = ("DenseGeneral.", "_compute_dot_general", "maybe_shard", "_maybe_shard")
"""Functions below those of the layers that a user knows."""

_DEEPEST = 12


@dataclass(frozen=True)
class _Instruction:
    opcode: str
    operands: tuple[tuple[str, str], ...]
    """Name, and the index where it is an element of a tuple."""
    op_name: str
    frame: int
    computation: str


@dataclass
class Program:
    parameters: dict[int, str] = field(default_factory=dict)
    """JAX's names of the step's parameters by number: state['model']['decoder']..., data['inputs']."""
    instructions: dict[str, _Instruction] = field(default_factory=dict)
    roots: dict[str, _Instruction] = field(default_factory=dict)
    loops: dict[str, _Instruction] = field(default_factory=dict)
    """The while of each body."""
    tables: dict[str, dict[int, str]] = field(default_factory=dict)

    def describe(self, name: str) -> str:
        """name: of a value, as in a buffer assignment: `fusion.525{0}`. Itself, where nothing more is known."""
        found, layers = self._origin(name)
        if found is None:
            return name.partition("{")[0]
        if re.match(r"(state|data)\[", found.op_name):
            return f"copy of {parameter(found.op_name)}"
        last = re.sub(r"\{\d+\}$", "", found.op_name.split(";")[0]).split("/")
        op = last[-2] if last[-1] == "pallas_call" and len(last) > 1 else last[-1]
        said = " ".join(filter(None, [self._layer(found.frame), op]))
        return ", ".join(filter(None, [said, _phase(found.op_name), "of all layers" if layers else ""]))

    def _origin(self, name: str) -> tuple[_Instruction | None, bool]:
        """The instruction with metadata that a value comes from, and whether a loop collects it in a stack."""
        index = _INDEX.search(name)
        place, element = name.partition("{")[0], index[1] if index else ""
        stacked = False
        for _ in range(_DEEPEST):
            found = self.instructions.get(place)
            if found is None:
                return None, stacked
            body = found.computation
            if found.opcode == "parameter" and body in self.loops:
                # What a loop carries: what its body makes of it or, where the body hands it on, what it was given.
                given = _operand(self.roots.get(body), element)
                if given is None or given == (place, element):
                    init = self.instructions.get(self.loops[body].operands[0][0])
                    given = _operand(init, element)
                if given is None:
                    return None, stacked
                place, element = given
            elif found.opcode == "dynamic-update-slice" and len(found.operands) > 1:
                stacked = True
                place, element = found.operands[1]
            elif found.op_name:
                return found, stacked
            elif found.operands:
                place, element = found.operands[0]
            else:
                return None, stacked
        return None, stacked

    def _layer(self, frame: int) -> str:
        """The innermost of MaxText's layers among the callers."""
        for _ in range(len(self.tables.get("StackFrames", ()))):
            location, caller = _numbers(self.tables["StackFrames"].get(frame, ""))
            file, function = _numbers(self.tables["FileLocations"].get(location, ""))
            called = self.tables["FunctionNames"].get(function, "")
            if _LAYERS.search(self.tables["FileNames"].get(file, "")) and not called.startswith(_BELOW):
                return called.partition(".<locals>")[0].removesuffix(".__call__")
            if caller <= 1:
                break
            frame = caller - 1  # the dump counts callers from 1 for none
        return ""


def parse(text: str) -> Program:
    """From a program in XLA's HLO text."""
    program = Program()
    lines = iter(_statements(text))
    table: dict[int, str] = {}
    computation, entry = "", False
    for line in lines:
        header = _COMPUTATION.match(line)
        found = _INSTRUCTION.match(line)
        if header:
            computation, entry = header[2], bool(header[1])
        elif found:
            one = _instruction(line[found.end() :], computation)
            program.instructions[found[2]] = one
            if found[1]:
                program.roots[computation] = one
            if one.opcode == "while" and (body := _BODY.search(line)):
                program.loops[body[1]] = one
            if entry and one.opcode == "parameter" and (number := _NUMBER.search(line)):
                program.parameters[int(number[1])] = one.op_name
        elif not computation and (row := _ROW.match(line)):
            table[int(row[1])] = row[2] or row[3] or ""
        elif not computation:
            table = program.tables.setdefault(line, {})
    return program


def parameter(op_name: str) -> str:
    """`weights decoder.layers.mlp.wi_0.kernel` for JAX's state['model']['decoder'][...].value."""
    keys = [key for key in re.split(r"[\[\]']+", op_name.removesuffix(".value")) if key]
    tree, path = keys[:2], keys[2:]
    if tree[:1] == ["data"]:
        return f"input {'.'.join(tree[1:])}"
    if tree == ["state", "optimizer"]:
        moment = [key for key in path if key in ("mu", "nu")]
        path = [key for key in path if key not in ("mu", "nu", "opt_state") and not key.isdigit()]
        return " ".join(["optimizer state", *moment, ".".join(path)])
    return f"weights {'.'.join(path)}" if tree == ["state", "model"] else op_name


def _statements(text: str) -> Iterator[str]:
    """Lines; an instruction whose attributes go over several, as a kernel's do, is one."""
    inside, parts = False, list[str]()
    for line in text.splitlines():
        starts = _INSTRUCTION.match(line) or _COMPUTATION.match(line)
        if inside and not starts and line != "}":
            parts.append(line)
            continue
        if parts:
            yield "".join(parts)
        parts = [line]
        inside = bool(starts)
    yield "".join(parts)


def _instruction(text: str, computation: str) -> _Instruction:
    """text: its type and all behind it."""
    opcode = _OPCODE.search(text)
    metadata = _METADATA.search(text)
    operands = text[opcode.end() : text.find(")", opcode.end())] if opcode else ""
    op_name = metadata[1].replace("\\'", "'") if metadata else ""
    frame = int(metadata[2] or 0) if metadata else 0
    return _Instruction(opcode[1] if opcode else "", tuple(_OPERAND.findall(operands)), op_name, frame, computation)


def _operand(of: _Instruction | None, index: str) -> tuple[str, str] | None:
    """An element of a tuple."""
    if of is None or of.opcode != "tuple" or not index or int(index) >= len(of.operands):
        return None
    return of.operands[int(index)]


def _phase(op_name: str) -> str:
    if "rematted_computation" in op_name:
        return "recomputed in the backward pass"
    if "transpose(" in op_name:
        return "backward pass"
    return "forward pass" if "jvp(" in op_name else ""


def _numbers(row: str) -> list[int]:
    return [*map(int, re.findall(r"=(\d+)", row)), 0, 0][:2]
