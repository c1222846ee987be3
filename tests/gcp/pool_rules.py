"""What Kubernetes Engine asks of a new node pool, TPU slices and DRANET above all, and what it fills in."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from tests.gcp import gke, machines, quotas
from tests.gcp.errors import GoogleError, invalid
from tests.gcp.routing import Call

if TYPE_CHECKING:
    from tests.gcp.google import Google

DRANET = "cloud.google.com/gke-networking-dra-driver"


def complete(call: Call, cluster: dict[str, Any], pool: dict[str, Any]) -> GoogleError | None:
    """Checks a new pool and fills in what Google fills in. Returns the error that making its machines will meet."""
    config = pool.setdefault("config", {})
    config.setdefault("machineType", "e2-medium")
    pool["locations"] = pool.get("locations") or cluster["locations"]
    pool["initialNodeCount"] = int(pool.get("initialNodeCount", 0))
    pool["version"] = gke.resolve_version(pool.get("version") or cluster["currentMasterVersion"], "", "Node")
    gke.check_name("node_pool.name", pool.get("name", ""))
    for zone in pool["locations"]:
        if not machines.available(config["machineType"], zone):
            raise invalid(f'Machine type "{config["machineType"]}" does not exist in zone "{zone}".')
    _check_shape(pool)
    _check_networks(call.google, call.project, cluster, pool)
    error = _check_capacity(call.google, call.project, pool)
    if (
        config.get("workloadMetadataConfig", {}).get("mode") == "GKE_METADATA"
        and "workloadIdentityConfig" not in cluster
    ):
        raise invalid("Workload Metadata Config mode GKE_METADATA requires Workload Identity on the cluster.")
    gke.check_labels(config.get("resourceLabels", {}))
    pool["selfLink"] = f"{cluster.get('selfLink', '')}/nodePools/{pool['name']}"
    pool["etag"] = gke.fingerprint()
    return error or quotas.shortage(call.google, call.project, machines.region_of(cluster["location"]), pool)


def _check_shape(pool: dict[str, Any]) -> None:
    """A slice is as many machines as its topology has room for, all in one zone."""
    machine = pool["config"]["machineType"]
    chips = machines.MACHINES[machine][2]
    topology = pool.get("placementPolicy", {}).get("tpuTopology", "")
    if not chips:
        if topology:
            raise invalid(f'TPU topology is not supported for machine type "{machine}".')
        return
    if not topology:
        return
    if not re.fullmatch(r"\d+x\d+(x\d+)?", topology) or math.prod(map(int, topology.split("x"))) % chips:
        raise invalid(f'Invalid TPU topology "{topology}" for machine type "{machine}".')
    hosts = math.prod(map(int, topology.split("x"))) // chips
    if len(pool["locations"]) != 1:
        raise invalid("Multi-host TPU node pools must be in exactly one zone.")
    if pool["initialNodeCount"] not in ({hosts, 0} if pool.get("autoscaling") or hosts == 1 else {hosts}):
        raise invalid(
            f"The number of nodes in the node pool ({pool['initialNodeCount']}) must equal the number of hosts "
            f"({hosts}) of TPU topology {topology} with machine type {machine}."
        )


def _check_networks(google: Google, project: str, cluster: dict[str, Any], pool: dict[str, Any]) -> None:
    network = pool.get("networkConfig", {})
    extra = network.get("additionalNodeNetworkConfigs", [])
    dranet = pool["config"].get("labels", {}).get(DRANET) == "true"
    dataplane_v2 = cluster.get("networkConfig", {}).get("datapathProvider") == "ADVANCED_DATAPATH"
    if dranet and machines.version_key(pool["version"]) < machines.version_key(machines.DRANET_MINIMUM):
        raise invalid(
            f"GKE managed DRANET requires version {machines.DRANET_MINIMUM} or later; node pool "
            f'"{pool["name"]}" has version {pool["version"]}.'
        )
    if dranet and not dataplane_v2:
        raise invalid("GKE managed DRANET requires Dataplane V2.")
    if network.get("acceleratorNetworkProfile") and (extra or network["acceleratorNetworkProfile"] != "auto"):
        raise invalid('accelerator_network_profile must be "auto", without additional_node_network_configs.')
    if extra and not dranet and not cluster.get("networkConfig", {}).get("enableMultiNetworking"):
        raise invalid("Additional node networks require multi-networking to be enabled on the cluster.")
    region, used = machines.region_of(cluster["location"]), {cluster["network"]}
    for one in extra:
        name, subnet = (one.get(key, "").rpartition("/")[2] for key in ("network", "subnetwork"))
        found = google.resources.get(f"projects/{project}/regions/{region}/subnetworks/{subnet}")
        if not found:
            raise invalid(f'Subnetwork "{subnet}" does not exist in region "{region}".')
        if not found["network"].endswith(f"/{name}"):
            raise invalid(f'Subnetwork "{subnet}" is not in network "{name}".')
        if name in used:
            raise invalid(f'Network "{name}" is used more than once by the nodes of pool "{pool["name"]}".')
        used.add(name)


def _check_capacity(google: Google, project: str, pool: dict[str, Any]) -> GoogleError | None:
    """Spot, flex-start and reservations exclude each other; a reservation must be there, and have the machines."""
    config = pool["config"]
    affinity = config.get("reservationAffinity", {})
    specific = affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION"
    if sum([bool(config.get("spot")), bool(config.get("flexStart")), specific]) > 1:
        raise invalid("Only one of spot, flex_start and a specific reservation can be used by a node pool.")
    seconds = float(config.get("maxRunDuration", "0s").removesuffix("s"))
    if seconds > 604800:
        raise invalid("max_run_duration must be at most 7 days.")
    if config.get("flexStart") and affinity.get("consumeReservationType") != "NO_RESERVATION":
        raise invalid("Flex-start node pools require reservation affinity none.")
    if not specific:
        return None
    if affinity.get("key") != "compute.googleapis.com/reservation-name" or len(affinity.get("values", [])) != 1:
        raise invalid("A specific reservation needs the key compute.googleapis.com/reservation-name and one value.")
    value = affinity["values"][0]
    owner, _, name = (
        value.removeprefix("projects/").rpartition("/reservations/") if "/" in value else (project, "", value)
    )
    for zone in pool["locations"]:
        found = google.resources.get(f"projects/{owner}/zones/{zone}/reservations/{name}")
        if not found:
            raise invalid(f"Reservation {value} does not exist in zone {zone}.")
        kept = found["specificReservation"]
        if kept["instanceProperties"]["machineType"] != config["machineType"]:
            raise invalid(f"Reservation {value} is for machine type {kept['instanceProperties']['machineType']}.")
        if int(kept["count"]) - int(kept["inUseCount"]) < pool["initialNodeCount"]:
            return GoogleError(
                "RESOURCE_EXHAUSTED",
                f"Google Compute Engine: Specified reservations [{name}] do not have available resources for the"
                " request.",
                reason="GCE_STOCKOUT",
            )
    return None
