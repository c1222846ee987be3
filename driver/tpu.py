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


@dataclass(frozen=True)
class Hardware:
    """What a chip of a type can do at most, for predictions; None where the table has no source for it.

    Bandwidths are bytes/s. HBM's is for reads and writes together, the others are for each direction.
    """

    type: str
    devices_per_chip: int
    """JAX devices: what a compiled program is for, and what every figure of one is about."""
    peak_flops: float
    """FLOP/s of one chip, bfloat16."""
    clock_hz: float | None
    """The TensorCore's, in whose cycles the compiler estimates."""
    mxu_width: int
    hbm_bandwidth: float
    ici_link_bandwidth: float
    ici_wraps: dict[str, int]
    """{"axis": 16}: axes of 16 chips close to a ring. {"cube": 4}: all do, in slices of multiples of 4."""
    dcn_bandwidth: float
    """A chip's share of its host's NICs."""
    pcie_bandwidth: float | None
    splash_of_peak: dict[str, float] | None
    """`forward` and `backward`: splash attention's share of the peak, measured."""

    def wraps(self, topology: str) -> tuple[bool, ...]:
        """For each axis of a slice, whether its ends are connected: (False, True) for v6e 8x16."""
        axes = [int(axis) for axis in topology.split("x")]
        if "axis" in self.ici_wraps:
            return tuple(axis == self.ici_wraps["axis"] for axis in axes)
        return (all(axis % self.ici_wraps["cube"] == 0 for axis in axes),) * len(axes)


def chips_in(topology: str) -> int:
    """16 for 4x4."""
    return math.prod(map(int, topology.split("x")))


def hardware(tpu_type: str) -> Hardware:
    """Raises a ValueError that says what types there are."""
    if tpu_type not in table():
        raise ValueError(f"tpu.type is {tpu_type!r}. There is {', '.join(table())}.")
    facts = table()[tpu_type]

    def scaled(name: str, unit: float) -> float | None:
        return None if facts[name] is None else facts[name] * unit

    return Hardware(
        type=tpu_type,
        devices_per_chip=facts["devicesPerChip"],
        peak_flops=facts["peakTflopsPerChip"] * 1e12,
        clock_hz=scaled("clockGHz", 1e9),
        mxu_width=facts["mxuWidth"],
        hbm_bandwidth=facts["hbmGBps"] * 1e9,
        ici_link_bandwidth=facts["iciGBpsPerLink"] * 1e9,
        ici_wraps=facts["iciWraps"],
        dcn_bandwidth=facts["dcnGBps"] * 1e9,
        pcie_bandwidth=scaled("pcieGBps", 1e9),
        splash_of_peak=facts["splashOfPeak"],
    )


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
