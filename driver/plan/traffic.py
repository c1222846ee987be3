"""What a compiled program moves off its chip: between chips (ICI), slices (DCN), and to and from the host's memory.

The forms are those of libtpu 0.0.46, but two that no dump has shown yet: a collective that is fused with computing,
which is taken to show by its channel in several fusions, and Megascale's target with more than two slices.
"""

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from driver.plan.codegen import HOST, Instruction, Program, instruction
from driver.tpu import Hardware

Link = Literal["ici", "dcn", "toHost", "toDevice"]

_COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute")
_COLLECTIVE = re.compile(rf" ({'|'.join(_COLLECTIVES)})(?:-start)?\(")
_GROUPS = re.compile(r"replica_groups=(?:\{\{([\d,]+)\}|\[\d+,(\d+)\])")
_MESH_GROUPS = re.compile(r"replica_groups=mesh\[([^\]]*)\] ?\{([^}]*)\}")
_MESH_AXIS = re.compile(r"'(\w+)'(?::\(\d+\)(\d+)|=(\d+))?")
_TARGET = re.compile(r'_xla_megascale_target="?\{([\d,]+)\}')


@dataclass(frozen=True)
class Transfer:
    """One transfer of one device."""

    link: Link
    kind: str
    """The collective's opcode, Megascale's type of transfer, or `copy`."""
    bytes: float
    """What the device sends; as much arrives, but for transfers to and from the host."""
    group: int = 1
    """Devices of a collective, slices of a transfer over DCN."""


def transfers(one: Instruction, program: Program) -> dict[str, Transfer]:
    """What this instruction moves, by an identity that its start and its end share (a channel, or a name)."""
    if one.opcode == "send" and "_xla_megascale_transfer_type" in one.attributes:
        return {rendezvous(one): _between_slices(one)}
    if one.opcode.endswith("-done") or one.opcode in ("while", "call", "conditional"):
        return {}
    found = dict(_own(one))
    for called in one.called:
        for inner in collectives_in(program, called):
            found.update(_scattered(inner) if _keeps_a_slice(inner, program, called) else _own(inner))
    if not found and one.opcode.endswith("-start"):
        moved = _with_host(one)
        return {one.name: moved} if moved else {}
    return found


def rendezvous(one: Instruction) -> str:
    """What a send to other slices shares with the recv of its answer."""
    name = one.attribute(r'_xla_host_transfer_rendezvous="?([^",}]+)')
    return f"dcn {name or one.channel}"


def seconds(moved: Transfer, hardware: Hardware, topology: str) -> float:
    """How long its link is taken: bytes by bandwidth, no latency.

    Over ICI the axes of the torus that a group spans work together, each with one link each way, or two where it closes
    to a ring (scaling book, part 3). Raises a ValueError if the table has no bandwidth for the link.
    """
    if moved.link == "ici":
        return moved.bytes / _ici_bandwidth(moved, hardware, topology)
    chip = hardware.dcn_bandwidth if moved.link == "dcn" else hardware.pcie_bandwidth
    if chip is None:
        raise ValueError(f"files/tpu-types.yaml has no PCIe bandwidth for {hardware.type}")
    return moved.bytes / (chip / hardware.devices_per_chip)


def _own(one: Instruction) -> dict[str, Transfer]:
    opcode = one.opcode.removesuffix("-start")
    if opcode not in _COLLECTIVES:
        return {}
    arrays = [array for array in one.arrays if array.shape]
    if one.opcode != opcode and len(arrays) >= 2 * len(one.operands):
        arrays = arrays[len(one.operands) : 2 * len(one.operands)]  # a start's result holds its operands before
    group = _group(one)
    whole = sum(array.bytes for array in arrays) * (group if opcode == "reduce-scatter" else 1)
    factor = {"all-reduce": 2 * (group - 1) / group, "collective-permute": 1.0}.get(opcode, (group - 1) / group)
    return {f"ici{one.channel or one.name}": Transfer("ici", opcode, whole * factor, group)}


def collectives_in(program: Program, computation: str) -> tuple[Instruction, ...]:
    """Those that the compiler has fused with something else."""
    return tuple(instruction(text) for text in program.bodies.get(computation, ()) if _COLLECTIVE.search(text))


def _keeps_a_slice(one: Instruction, program: Program, computation: str) -> bool:
    """Whether this is libtpu's all-reduce-scatter: a sum of which each device keeps a part, run as a reduce-scatter."""
    users = program.users(computation).get(one.name, [])
    return one.opcode == "all-reduce" and bool(users) and all(user.opcode == "dynamic-slice" for user, _ in users)


def _scattered(one: Instruction) -> dict[str, Transfer]:
    ((identity, summed),) = _own(one).items()
    return {identity: Transfer("ici", "reduce-scatter", summed.bytes / 2, summed.group)}


def _group(one: Instruction) -> int:
    mesh = _MESH_GROUPS.search(one.attributes)
    if mesh:
        # mesh['a'=4,'b'=8] {'b','a':(2)2}: along all of b and the two parts of a that lie within its first two.
        lengths = {name: int(length) for name, _, length in _MESH_AXIS.findall(mesh[1])}
        return math.prod(int(part) if part else lengths[name] for name, part, _ in _MESH_AXIS.findall(mesh[2]))
    found = _GROUPS.search(one.attributes)
    if not found:
        return 2 if "source_target_pairs" in one.attributes else 1
    return len(found[1].split(",")) if found[1] else int(found[2])


def _between_slices(one: Instruction) -> Transfer:
    """Megascale's own collectives: with n slices a ring sends 2(n-1)/n of a sum's bytes, (n-1)/n of a scatter's."""
    kind = one.attribute(r'_xla_megascale_transfer_type="?(\w+)')
    target = _TARGET.search(one.attributes)
    slices = len(target[1].split(",")) if target else 2
    factor = {
        "ALL_REDUCE": 2 * (slices - 1) / slices,
        "REDUCE_SCATTER": (slices - 1) / slices,
        "ALL_TO_ALL": (slices - 1) / slices,
        "ALL_GATHER": slices - 1,
    }.get(kind, 1)
    return Transfer("dcn", kind, max((array.bytes for array in one.arrays), default=0.0) * factor, slices)


def _with_host(one: Instruction) -> Transfer | None:
    """Copies, slices and updates that cross. Of a stacked buffer only the slice moves: the smallest array."""
    arrays = [array for array in one.arrays if array.shape]
    if len(arrays) < 2 or len({array.space == HOST for array in arrays}) == 1:
        return None
    # copy-start gives (destination, source, context), any other start ((operands), result, context).
    target = arrays[0] if one.opcode == "copy-start" else arrays[-1]
    link: Link = "toHost" if target.space == HOST else "toDevice"
    return Transfer(link, "copy", min(array.bytes for array in arrays))


def _ici_bandwidth(moved: Transfer, hardware: Hardware, topology: str) -> float:
    link = hardware.ici_link_bandwidth / hardware.devices_per_chip
    if moved.kind == "collective-permute":
        return link
    links = sum(2 if ring else 1 for ring in _rings(moved.group // hardware.devices_per_chip, hardware, topology))
    # All-to-all: of a ring's traffic most goes to near neighbours, so that a quarter of a gather's time is enough.
    return link * links * (4 if moved.kind.endswith("all-to-all") else 1)


def _rings(group: int, hardware: Hardware, topology: str) -> list[bool]:
    """For each axis of the torus that a group of chips spans, whether it closes to a ring.

    Which chips they are is not looked up: a group is taken to lie as JAX's mesh lays it, along whole axes if their
    lengths allow it, and as few of them as do.
    """
    axes = tuple(map(int, topology.split("x")))
    wraps = hardware.wraps(topology)
    chosen = _subset(axes, group)
    if chosen is not None:
        return [wraps[index] for index in chosen] or [False]
    spanned, count = 1, 0
    for axis in sorted(axes, reverse=True):
        if spanned >= group:
            break
        spanned, count = spanned * axis, count + 1
    return [False] * max(1, count)


@cache
def _subset(axes: tuple[int, ...], group: int) -> tuple[int, ...] | None:
    """The fewest axes whose lengths multiply to the group, without those of one chip."""
    wide = [index for index, axis in enumerate(axes) if axis > 1]
    subsets = [tuple(i for bit, i in enumerate(wide) if mask >> bit & 1) for mask in range(1, 2 ** len(wide))]
    fitting = [subset for subset in subsets if math.prod(axes[i] for i in subset) == group]
    return min(fitting, key=len, default=None)
