"""GKE DRANET: which TPU hosts can have network devices of their own for the traffic between slices, and how many.

https://docs.cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from driver.gcp import versions

if TYPE_CHECKING:
    from driver.gcp.site import Site

NODE_LABEL = "cloud.google.com/gke-networking-dra-driver"
"""With the value "true" on a node pool, DRANET's driver runs on its nodes."""

MINIMUM_VERSIONS: Mapping[str, versions.Version] = {
    "standard": versions.parse("1.34.1-gke.1829001"),
    "autopilot": versions.parse("1.35.2-gke.1842000"),
}
"""The oldest with DRANET, by the cluster's mode."""

MACHINE_TYPES = frozenset({"ct6e-standard-1t", "ct6e-standard-4t", "ct6e-standard-8t", "tpu7x-standard-4t"})
"""The TPU machines that DRANET serves. Hosts of v4, v5e and v5p have no further interfaces for it."""


def supported(site: Site) -> bool:
    """Whether the site's TPU hosts can have it. Where not, slices talk over the cluster's own network."""
    return site.slice.machine_type in MACHINE_TYPES


def own_networks(site: Site) -> bool:
    """Whether the slices' further networks are the site's to make or to name, and not GKE's. Autopilot's ComputeClass
    knows only GKE's."""
    return supported(site) and site.network.profile == "explicit" and site.cluster.mode == "standard"


def minimum_version(site: Site) -> versions.Version | None:
    """The oldest version that the site's cluster may have; None where DRANET is not used."""
    return MINIMUM_VERSIONS[site.cluster.mode] if supported(site) else None
