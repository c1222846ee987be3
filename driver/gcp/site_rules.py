"""Rules between the values of a site file: what cannot go together, and what would change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from driver.gcp import dranet

if TYPE_CHECKING:
    from driver.gcp.site import Site


def problems(site: Site) -> Iterator[str]:
    """Everything that breaks a rule, each in words of its own."""
    network = site.network
    if site.cluster.mode == "autopilot" and site.cluster.release_channel is None:
        yield (
            "cluster.releaseChannel is null and cluster.mode is autopilot. Autopilot clusters are always in a channel."
        )
    if site.namespace.startswith("kube-"):
        yield f"namespace is {site.namespace!r}. Kubernetes keeps names that begin with kube- for itself."
    names = [one.network for one in network.existing]
    if site.cluster.network in names:
        yield f"network.existing has {site.cluster.network}, the cluster's own. A host is in it already."
    for name in dict.fromkeys(one for one in names if names.count(one) > 1):
        yield f"network.existing has {name} twice. A host has one interface in each network."
    # https://cloud.google.com/storage/docs/buckets#naming
    if not site.bucket.existing and (site.bucket.name.startswith("goog") or "google" in site.bucket.name):
        yield f"bucket.name is {site.bucket.name!r}. Names with google in them are Google's own."
    yield from _unused(site)


def _unused(site: Site) -> Iterator[str]:
    """Keys that would change nothing."""
    given = site.network.model_fields_set
    ours = {"ranges", "mtu"}
    seen: set[str] = set()
    for keys, holds, why in (
        ({*ours, "existing"}, not dranet.supported(site), f"{site.slice.machine_type} has no further networks"),
        ({*ours, "existing"}, site.cluster.mode == "autopilot", "with Autopilot, GKE makes the further networks"),
        (ours, site.network.profile == "auto", "with network.profile: auto, GKE makes the networks"),
        (ours, bool(site.network.existing), "networks under existing are used as they are"),
    ):
        if not holds:
            continue
        for key in sorted((keys & given) - seen):
            seen.add(key)
            yield f"network.{key} would change nothing: {why}. Take it out."
    if "default_pool" in site.cluster.model_fields_set and (site.cluster.existing or site.cluster.mode == "autopilot"):
        why = "an existing cluster has its pools" if site.cluster.existing else "Autopilot chooses its machines itself"
        yield f"cluster.defaultPool would change nothing: {why}. Take it out."
    if site.bucket.existing and "hierarchical_namespace" in site.bucket.model_fields_set:
        yield "bucket.hierarchicalNamespace would change nothing: an existing bucket is used as it is. Take it out."
