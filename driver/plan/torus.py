"""Which meshes JAX lays over a slice's torus (jax/_src/mesh_utils.py), so that a search builds no others.

A user's own mesh is never refused by this: JAX knows more ways than are told here.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from driver.plan.verdict import devices_per_slice

_RESHAPED = {"v5e": 8, "v5p": 8, "v6e": 8}
"""Slices of so many devices are lines of devices for JAX, which it cuts at will."""


def takes(run: Mapping[str, Any], axes: Sequence[int]) -> bool:
    """Whether each axis of the mesh within a slice takes whole axes of the slice, or several of them: no 2 on a 4x4.

    axes: in MaxText's order.
    """
    tpu = run["tpu"]
    if int(tpu["devicesPerChip"]) != 1:
        return True  # the devices of a chip are an axis of their own there
    if devices_per_slice(run) <= _RESHAPED.get(str(tpu["type"]), 0):
        return True
    return _placed(axes, [int(axis) for axis in str(tpu["topology"]).split("x")])


def _placed(axes: Sequence[int], free: list[int]) -> bool:
    """As JAX 0.11.1 does it: the last axis first, over as many of the slice's axes as make its size; no way back."""
    free += [1] * (3 - len(free))
    for size in reversed(axes):
        if size == 1:
            continue
        every = (places for count in (3, 2, 1) for places in itertools.combinations(range(len(free)), count))
        taken = next((places for places in every if math.prod(free[place] for place in places) == size), None)
        if taken is None:
            return False
        free = [0 if place in taken else axis for place, axis in enumerate(free)]
    return True
