"""What an instruction needs of the chip: FLOPs of its matrix products, bytes that it moves to and from HBM.

libtpu's cost model estimates fusions with matrix products alone: in a dump's backend_config they have a
`cost_model_type`, and all else has COST_MODEL_TYPE_INVALID and a default that is several times what HBM allows. On TPUs
those others (norms, activations, rotary embeddings, the optimizer, copies) are bound by HBM.
"""

import math
import re
from collections.abc import Iterator
from functools import cache

from driver.plan.codegen import HBM, Array, Instruction, Program, arrays_in
from driver.plan.traffic import collectives_in

_NO_TRAFFIC = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "reshape", "partition-id", "after-all", "while"}
    | {"call", "conditional", "custom-call", "iota", "add-dependency", "opt-barrier"}
)
_LINKS = ("all-", "reduce-scatter", "ragged-all-to-all", "collective-", "send", "recv")
_SLICES = frozenset({"slice", "dynamic-slice", "gather"})
_VIEWS = frozenset({"bitcast", "get-tuple-element"})
_LABELS = re.compile(r"dim_labels=([\dbf]+)_([\dio]+)->([\dbf]+)")
_COST = re.compile(r'"cost_estimate":\{"flops":"(\d+)".*?"bytes_accessed":"(\d+)"')
_WINDOW = re.compile(r"window=\{([^}]*)\}")


def hbm_bytes(one: Instruction, program: Program, computation: str) -> float:
    """Read from and written to HBM, on one device. Of what an instruction slices only the slice counts, and of a buffer
    that it updates in place only the update.

    computation: in which the instruction is.
    """
    if one.opcode in _NO_TRAFFIC or one.opcode.endswith(("-start", "-done", "-update")):
        return 0.0
    if one.opcode.startswith(_LINKS):
        return 0.0  # what they wait for is their link
    if one.opcode == "fusion":
        (inner,) = one.called[:1]
        if collectives_in(program, inner):
            return 0.0  # it waits for its link
        read = sum(
            _read(program, inner, each.name) for each in program.computation(inner) if each.opcode == "parameter"
        )
        return read + sum(_written(program, inner))
    written = sum(array.bytes for array in one.arrays if array.space == HBM)
    if one.opcode in _SLICES:
        return 2 * written
    if one.opcode == "dynamic-update-slice":
        return 2 * _operand_bytes(one, 1, program, computation)
    if one.opcode == "broadcast":
        return written
    return written + sum(_operand_bytes(one, place, program, computation) for place in range(len(one.operands)))


def is_kernel(one: Instruction) -> bool:
    """Whether it is a Pallas kernel."""
    return one.opcode == "custom-call" and 'custom_call_target="tpu_custom_call"' in one.attributes


def kernel_cost(one: Instruction) -> tuple[float, float] | None:
    """FLOPs and bytes of a kernel as its authors estimate them (pallas.CostEstimate); None where they do not."""
    found = _COST.search(one.attributes)
    return (float(found[1]), float(found[2])) if found else None


def kernel_bytes(one: Instruction) -> float:
    """Of a kernel's operands and results, each once."""
    operands = arrays_in(one.attribute(r"operand_layout_constraints=\{(.*?\})\}"))
    return sum(array.bytes for array in (*operands, *one.arrays))


def matmul_flops(one: Instruction, program: Program, computation: str) -> float:
    """Of all matrix products in an instruction, which XLA writes as convolutions."""
    if one.opcode == "fusion":
        return sum(
            matmul_flops(each, program, inner) for inner in one.called[:1] for each in program.computation(inner)
        )
    if one.opcode != "convolution":
        return 0.0
    labels = _LABELS.search(one.attributes)
    arrays = [_operand(one, place, program, computation) for place in range(2)]
    if not labels or not one.arrays or any(array is None for array in arrays):
        return 0.0
    left, right = (array.shape for array in arrays if array is not None)
    lhs, rhs, out = labels.groups()
    result = dict(zip(out, one.arrays[0].shape, strict=True))
    kernel = dict(zip(rhs, right, strict=True))
    inputs = dict(zip(lhs, left, strict=True))
    spatial = [label for label in out if label.isdigit()]
    pairs = math.prod(
        _valid_pairs(inputs[label], kernel[label], result[label], *dimension)
        for label, dimension in zip(sorted(spatial, key=int), _window(one, len(spatial)), strict=True)
    )
    return 2.0 * result["b"] * result["f"] * kernel["i"] * pairs


def _window(one: Instruction, dimensions: int) -> list[tuple[int, int, int, int]]:
    """Padding before, stride, dilation of the input and of the kernel, for each spatial dimension."""
    found = _WINDOW.search(one.attributes)
    fields = dict(part.split("=") for part in found[1].split()) if found else {}

    def numbers(name: str, default: str) -> list[str]:
        return fields[name].split("x") if name in fields else [default] * dimensions

    pads = [int(pad.split("_")[0]) for pad in numbers("pad", "0_0")]
    rest = [[int(number) for number in numbers(name, "1")] for name in ("stride", "lhs_dilate", "rhs_dilate")]
    return list(zip(pads, *rest, strict=True))


@cache
def _valid_pairs(size: int, kernel: int, out: int, pad: int, stride: int, dilation: int, kernel_dilation: int) -> int:
    """How many (output, kernel) positions of one dimension meet an element of the input. XLA writes a batch dimension,
    and one that is contracted or made by an outer product, so that most of them meet padding."""
    places = (o * stride + k * kernel_dilation - pad for o in range(out) for k in range(kernel))
    return sum(place % dilation == 0 and 0 <= place < (size - 1) * dilation + 1 for place in places)


def _read(program: Program, computation: str, name: str) -> float:
    """Bytes that a fusion reads of one of its parameters, or of a view of it."""
    source = program.named(computation)[name]
    whole = sum(array.bytes for array in source.arrays if array.space == HBM)
    users = program.users(computation).get(name, [])
    if not users:
        return whole if source.opcode == "parameter" and source.name == _root(program, computation).name else 0.0
    return min(whole, sum(_read_by(program, computation, user, place, whole) for user, place in users))


def _read_by(program: Program, computation: str, user: Instruction, place: int, whole: float) -> float:
    if user.opcode in _VIEWS:
        return _read(program, computation, user.name)
    if user.opcode in _SLICES and place == 0:
        return sum(array.bytes for array in user.arrays)
    if user.opcode == "dynamic-update-slice" and place == 0:
        return 0.0
    if user.opcode == "fusion":
        inner = user.called[0]
        for each in program.computation(inner):
            if each.opcode == "parameter" and each.number == place:
                return _read(program, inner, each.name)
    return whole


def _written(program: Program, computation: str) -> Iterator[float]:
    """Bytes of each of a fusion's results that are in HBM."""
    root = _root(program, computation)
    named = program.named(computation)
    parts = [named.get(name, root) for name in root.operands] if root.opcode == "tuple" else [root]
    for part in parts:
        if not any(array.space == HBM for array in part.arrays):
            continue
        seen = part
        while seen.opcode in _VIEWS and seen.operands and seen.operands[0] in named:
            seen = named[seen.operands[0]]
        if seen.opcode == "dynamic-update-slice" and len(seen.operands) > 1 and seen.operands[1] in named:
            seen = named[seen.operands[1]]
        yield sum(array.bytes for array in seen.arrays if array.space == HBM or seen is not part)


def _operand_bytes(one: Instruction, place: int, program: Program, computation: str) -> float:
    array = _operand(one, place, program, computation)
    return array.bytes if array is not None and array.space == HBM else 0.0


def _operand(one: Instruction, place: int, program: Program, computation: str) -> Array | None:
    """The array that an operand is: one of a tuple's, or the only one."""
    source = program.named(computation).get(one.operands[place]) if place < len(one.operands) else None
    if source is None:
        return None
    part = one.parts[place] or 0
    return source.arrays[part] if part < len(source.arrays) else None


def _root(program: Program, computation: str) -> Instruction:
    return program.computation(computation)[-1]
