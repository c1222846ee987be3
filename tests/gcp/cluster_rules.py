"""What Kubernetes Engine asks of a new cluster, and what it fills in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.gcp import gke, machines, pool_rules
from tests.gcp.errors import invalid
from tests.gcp.operations import now
from tests.gcp.routing import Call

if TYPE_CHECKING:
    from tests.gcp.google import Google


def complete(call: Call, cluster: dict[str, Any], location: str) -> None:
    """Checks a new cluster and fills in what Google fills in."""
    google, project = call.google, call.project
    autopilot = cluster.get("autopilot", {}).get("enabled", False)
    if autopilot and location not in machines.REGIONS:
        raise invalid("Autopilot clusters must be regional clusters.")
    channel = cluster.get("releaseChannel", {}).get("channel", "REGULAR" if autopilot else "UNSPECIFIED")
    cluster["currentMasterVersion"] = gke.resolve_version(cluster.get("initialClusterVersion", ""), channel, "Master")
    pool = cluster.get("workloadIdentityConfig", {}).get("workloadPool", f"{project}.svc.id.goog" if autopilot else "")
    if pool not in ("", f"{project}.svc.id.goog"):
        raise invalid(f"Workload Pool must be {project}.svc.id.goog; got {pool}.")
    if autopilot:
        cluster["workloadIdentityConfig"] = {"workloadPool": pool}
        cluster.setdefault("networkConfig", {})["datapathProvider"] = "ADVANCED_DATAPATH"
        cluster.setdefault("addonsConfig", {})["gcsFuseCsiDriverConfig"] = {"enabled": True}
    check_addons(cluster)
    gke.check_labels(cluster.get("resourceLabels", {}))
    _connect(google, project, cluster, location)
    cluster["nodePools"] = _default_pools(call, cluster, location, autopilot)
    cluster |= {
        "selfLink": gke.link(f"projects/{project}/locations/{location}/clusters/{cluster['name']}"),
        "location": location, "zone": location, "locations": machines.zones_of(location),
        "releaseChannel": {"channel": channel}, "currentNodeVersion": cluster["currentMasterVersion"],
        "clusterIpv4Cidr": cluster.get("clusterIpv4Cidr") or "10.4.0.0/14", "servicesIpv4Cidr": "34.118.224.0/20",
        "createTime": now(), "labelFingerprint": gke.fingerprint(), "id": gke.fingerprint(), "etag": gke.fingerprint(),
        "masterAuth": {"clusterCaCertificate": google.kubernetes.ca_base64},
    }  # fmt: skip


def check_addons(cluster: dict[str, Any]) -> None:
    addons = cluster.get("addonsConfig", {})
    if addons.get("gcsFuseCsiDriverConfig", {}).get("enabled") and "workloadIdentityConfig" not in cluster:
        raise invalid("GCS FUSE CSI driver requires Workload Identity to be enabled on the cluster.")


def _connect(google: Google, project: str, cluster: dict[str, Any], location: str) -> None:
    """The network and subnetwork of the nodes must be there."""
    network = cluster.get("network", "default").rpartition("/")[2] or "default"
    subnet = cluster.get("subnetwork", "").rpartition("/")[2] or network
    region = machines.region_of(location)
    if f"projects/{project}/global/networks/{network}" not in google.resources:
        raise invalid(f'Network "{network}" does not exist.')
    name = f"projects/{project}/regions/{region}/subnetworks/{subnet}"
    found = google.resources.get(name)
    if not found or not found["network"].endswith(f"/{network}"):
        raise invalid(f'Subnetwork "{name}" is not valid for Network "{network}".')
    cluster |= {"network": network, "subnetwork": subnet}
    cluster.setdefault("networkConfig", {}).update(
        network=f"projects/{project}/global/networks/{network}", subnetwork=name
    )


def _default_pools(call: Call, cluster: dict[str, Any], location: str, autopilot: bool) -> list[dict[str, Any]]:
    """The pools that a cluster is made with: its own or, from the older fields, "default-pool"."""
    given, count = cluster.pop("nodePools", []), cluster.pop("initialNodeCount", 0)
    config = cluster.pop("nodeConfig", {})
    if autopilot:
        if given:
            raise invalid("Node pools cannot be specified for Autopilot clusters.")
        return []
    if given and (count or config):
        raise invalid("Cluster.initial_node_count and Cluster.node_config cannot be used with Cluster.node_pools.")
    if not given and not count:
        raise invalid("Cluster.initial_node_count must be greater than zero.")
    pools = given or [{"name": "default-pool", "initialNodeCount": count, "config": config}]
    locations = cluster.get("locations") or machines.zones_of(location)
    for pool in pools:
        pool_rules.complete(call, cluster | {"locations": locations, "location": location}, pool)
    return pools
