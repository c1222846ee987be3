"""The work of Pallas splash attention kernels, of which the compiler makes no estimate.

From a kernel's operands and its metadata (jax.experimental.pallas.ops.tpu.splash_attention 0.11.1, tokamax 0.0.14, and
MaxText 0.2.5, which calls them).
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from driver.plan.codegen import Array, Instruction, arrays_in

_KERNEL = re.compile(r"splash_m[hq]a_(fwd|dq|dkv)")
_PRODUCTS = {"fwd": 2, "dq": 3, "dkv": 4}
"""Matrix products for each score. fwd: QK^T, PV; dq: QK^T, dO V^T, dQ; dkv: QK^T, dV, dO V^T, dK."""
_FUSED_PRODUCTS = 5
"""dkv with dQ beside: the fused backward kernel."""


@dataclass(frozen=True)
class Attention:
    """One call of a kernel, on one device."""

    phase: str
    """fwd, dq or dkv."""
    rows: int
    """Batch x query heads x query positions."""
    positions: int
    """Keys that a query could see."""
    head_dim: int
    covered: float | None
    """Share of rows x positions in blocks that the mask leaves; None where the kernel's grid does not tell."""

    @property
    def forward(self) -> bool:
        return self.phase == "fwd"


def attention(instruction: Instruction) -> Attention | None:
    """The kernel that this instruction calls; None if it is no splash attention."""
    if instruction.opcode != "custom-call":
        return None
    kernel = _KERNEL.search(instruction.attributes)
    operands = arrays_in(instruction.attribute(r"operand_layout_constraints=\{(.*?\})\}"))
    floats = [array for array in operands if array.dtype in ("bf16", "f32", "f16") and len(array.shape) >= 3]
    if not kernel or len(floats) < 2:
        return None
    query, key = floats[0], floats[1]
    length, head_dim = max(query.shape[-2:]), min(query.shape[-2:])
    heads = math.prod(query.shape[:-2])
    positions = max(key.shape[-2:])
    phase = kernel[1]
    covered = _covered(instruction, phase, _integers(operands), length, positions)
    return Attention(phase, heads * length, positions, head_dim, covered)


def padded_flops(call: Attention, program: Iterable[tuple[Attention, float]], mxu_width: int) -> float:
    """FLOPs of one call, with head_dim padded to the matrix unit's width, over the blocks that the mask leaves.

    program: all calls of the step, each with how often it runs. It tells whether the backward kernel is the fused one
    (there is no dq beside it), and the mask of one whose grid does not tell it: the mean of the forward calls over as
    many positions, for they belong to the same layers.
    """
    calls = list(program)
    products = _PRODUCTS[call.phase]
    if call.phase == "dkv" and not any(other.phase == "dq" for other, _ in calls):
        products = _FUSED_PRODUCTS
    covered = call.covered
    if covered is None:
        same = [
            (other.covered, times)
            for other, times in calls
            if other.forward and other.positions == call.positions and other.covered is not None
        ]
        count = sum(times for _, times in same)
        covered = sum(share * times for share, times in same) / count if count else 1.0
    width = math.ceil(call.head_dim / mxu_width) * mxu_width
    return call.rows * call.positions * covered * products * 2 * width


def _integers(operands: Iterable[Array]) -> list[Array]:
    """The mask's arrays, which come first: one number for each block of the grid."""
    found = []
    for array in operands:
        if array.dtype not in ("s8", "s16", "s32", "pred"):
            break
        found.append(array)
    return found


def _covered(call: Instruction, phase: str, masks: list[Array], length: int, positions: int) -> float | None:
    """Masks are taken to be causal, or a part of causal, as those of MaxText's decoders are."""
    suffix = "" if phase == "fwd" else f"_{phase}"
    block_q = int(call.attribute(rf"block_q{suffix}\W+(\d+)") or 0)
    block_kv = int(call.attribute(rf"block_kv{suffix}\W+(\d+)") or 0)
    if not masks or not block_q or not block_kv:
        return None
    rows, columns = length // block_q, positions // block_kv
    if len(masks[0].shape) == 1:  # tokamax: as many entries as blocks are computed
        return min(1.0, masks[0].shape[0] / (rows * columns))
    across, width = (rows, masks[0].shape[-2]) if phase == "dkv" else (columns, masks[0].shape[-1])
    if phase == "dkv":
        if width == across:
            return None
        blocks = sum(min(width, rows - (column * block_kv) // block_q) for column in range(columns))
    else:
        blocks = sum(min(width, math.ceil((row + 1) * block_q / block_kv)) for row in range(rows))
    return blocks / (rows * columns)
