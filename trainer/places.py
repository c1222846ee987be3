"""The order of slices and hosts, and whether all of them are there. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """Where a worker runs, as its TPU environment tells."""

    slice_name: str
    worker_id: int
    topology: str

    @property
    def slice_number(self) -> float:
        """The number at the end of the slice's name; names without one come last, in text order."""
        match = re.search(r"(\d+)$", self.slice_name)
        return int(match[1]) if match else float("inf")


class SliceError(RuntimeError):
    """The workers' TPU environment is not what the run asked for."""


def order(places: Sequence[Place]) -> list[int]:
    """Indices of the workers in process order."""
    return sorted(range(len(places)), key=lambda i: (places[i].slice_number, places[i].slice_name, places[i].worker_id))


def check(places: Sequence[Place], topology: str, hosts_per_slice: int) -> None:
    """Every slice has all its hosts, each once, and the topology that was asked for.

    Raises:
        SliceError: instead of the hang that libtpu would make of it.
    """
    for place in places:
        if place.topology and place.topology != topology:
            raise SliceError(f"slice {place.slice_name} has topology {place.topology}; the run asked for {topology}")
    for name in sorted({place.slice_name for place in places}):
        ids = Counter(place.worker_id for place in places if place.slice_name == name)
        if ids != Counter(range(hosts_per_slice)):
            raise SliceError(
                f"slice {name!r} has hosts with TPU_WORKER_ID {sorted(ids.elements())};"
                f" topology {topology} has hosts 0 to {hosts_per_slice - 1}, each once."
                " Is TPU_NAME the same on all hosts of one slice and no other?"
            )
