"""What a pod says about the TPU chips that it asks for."""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

RESOURCE = "google.com/tpu"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
NODE_POOL = "cloud.google.com/gke-nodepool"
TYPES_FILE = Path(__file__).parents[2] / "charts" / "maxtext-multislice" / "files" / "tpu-types.yaml"


class TopologyError(ValueError):
    """A pod or worker group whose TPU request GKE's webhook refuses."""


def tpu_containers(pod: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The containers of a pod (or pod template) that ask for chips, each with its index."""
    for index, container in enumerate(pod["spec"].get("containers", [])):
        resources = container.get("resources", {})
        if any(int(resources.get(kind, {}).get(RESOURCE, 0)) for kind in ("limits", "requests")):
            yield index, container


def chips_per_host(pod: Mapping[str, Any]) -> int:
    """Chips that a pod asks for: as GKE's webhook counts them, those of the last container that asks for any."""
    chips = 0
    for _, container in tpu_containers(pod):
        resources = container["resources"]
        limit = int(resources.get("limits", {}).get(RESOURCE, 0))
        chips = min(limit, int(resources.get("requests", {}).get(RESOURCE, limit)))
    if not chips:
        raise TopologyError("Container does not set TPU limits")
    return chips


def chips_of(topology: str) -> int:
    """Chips of a slice with this topology, such as 16 of 4x4."""
    try:
        return math.prod(int(side) for side in topology.split("x"))
    except ValueError:
        raise TopologyError(f'TPU topology "{topology}" is not numbers joined by x') from None


def hosts_of(pod: Mapping[str, Any]) -> int:
    """Hosts of the slice that a pod (or pod template) belongs to.

    Raises TopologyError where the topology is missing or no topology, or the limits lack chips.
    """
    topology = pod["spec"].get("nodeSelector", {}).get(TOPOLOGY, "")
    if not topology:
        raise TopologyError("TPU topology not specified")
    return max(chips_of(topology) // chips_per_host(pod), 1)


def accelerator_type(accelerator: str, topology: str) -> str:
    """What Cloud TPU calls a slice, such as v6e-16 of tpu-v6e-slice and 4x4."""
    for facts in _types().values():
        if facts["gkeAccelerator"] == accelerator:
            return f"{facts['podTypePrefix']}-{chips_of(topology) * facts['coresPerChip']}"
    known = ", ".join(sorted({facts["gkeAccelerator"] for facts in _types().values()}))
    raise TopologyError(f'nodeSelector {ACCELERATOR} is "{accelerator}", not one of {known}')


@cache
def _types() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(TYPES_FILE.read_text())
    return content
