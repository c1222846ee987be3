"""The TPU types, from the chart's table (files/tpu-types.yaml), which is the only place that knows them."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from driver import resources


@dataclass(frozen=True)
class Slice:
    """One slice: its chips, and the machines that hold them."""

    type: str
    topology: str
    chips_per_host: int
    machine_type: str
    quota_family: str
    """Compute Engine's dimension tpu_family."""
    pod_type: str
    """As Ray, MaxText and the tutorial's node pools call it: v6e-16."""

    @property
    def chips(self) -> int:
        return chips_in(self.topology)

    @property
    def hosts(self) -> int:
        return self.chips // self.chips_per_host


def chips_in(topology: str) -> int:
    """16 for 4x4."""
    return math.prod(map(int, topology.split("x")))


def topologies(tpu_type: str, chips_per_host: int) -> dict[int, str]:
    """Number of hosts to the first topology in the table that has so many, of so many chips each."""
    known: dict[int, str] = {}
    for topology, ways in table()[tpu_type]["topologies"].items():
        if chips_per_host in ways:
            known.setdefault(chips_in(topology) // chips_per_host, topology)
    return known


@cache
def table() -> dict[str, Any]:
    """Type to its facts."""
    return dict(yaml.safe_load((resources.chart_dir() / "files" / "tpu-types.yaml").read_text()))


def type_of(accelerator: str) -> str:
    """The type that GKE calls this in a node's label cloud.google.com/gke-tpu-accelerator; empty for none of ours."""
    return next((name for name, facts in table().items() if facts["gkeAccelerator"] == accelerator), "")


def find(tpu_type: str, topology: str, chips_per_host: int | None = None) -> Slice:
    """The slice of this shape. Raises a ValueError that says what there is."""
    if tpu_type not in table():
        raise ValueError(f"tpu.type is {tpu_type!r}. There is {', '.join(table())}.")
    facts = table()[tpu_type]
    if topology not in facts["topologies"]:
        known = ", ".join(facts["topologies"])
        raise ValueError(f"tpu.topology is {topology!r}. {tpu_type} has {known}.")
    ways = facts["topologies"][topology]
    chips = ways[0] if chips_per_host is None else chips_per_host
    if chips not in ways:
        raise ValueError(
            f"tpu.chipsPerHost is {chips}. {tpu_type} {topology} is built of hosts with {' or '.join(map(str, ways))}."
        )
    machine = facts["machines"][chips]
    cores = chips_in(topology) * facts["coresPerChip"]
    return Slice(
        tpu_type, topology, chips, machine["type"], facts["quotaFamily"],
        f"{facts['podTypePrefix']}-{cores}",
    )  # fmt: skip
