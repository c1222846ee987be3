"""Kubernetes Engine: node pools, with what TPU slices and DRANET ask for."""

from __future__ import annotations

from typing import Any

from google.cloud import container_v1

from tests.gcp import container, gke, pool_rules, protos
from tests.gcp.container import CLUSTER
from tests.gcp.errors import GoogleError, invalid
from tests.gcp.routing import Call, Routes

ROUTES = Routes("container.googleapis.com", "Kubernetes Engine API", gke.PREFIX)
POOL = f"{CLUSTER}/nodePools/{{pool}}"


@ROUTES.on("GET", f"{CLUSTER}/nodePools", "container.clusters.get")
def list_pools(call: Call) -> dict[str, Any]:
    return {"nodePools": container.view(call.google, container.find(call))["nodePools"]}


@ROUTES.on("GET", POOL, "container.clusters.get")
def get(call: Call) -> dict[str, Any]:
    return call.google.resources[find(call)]


@ROUTES.on("POST", f"{CLUSTER}/nodePools", "container.clusters.update")
def create(call: Call) -> dict[str, Any]:
    google, cluster = call.google, container.find(call)
    pool = protos.read(container_v1.CreateNodePoolRequest, call.body).get("nodePool", {})
    name = f"{cluster}/nodePools/{pool.get('name', '')}"
    _refuse_autopilot(google.resources[cluster])
    if name in google.resources:
        raise GoogleError("ALREADY_EXISTS", f"Already exists: {gke.spoken(name)}.")
    container.refuse_if_busy(google, cluster, name)
    call.fail_with = pool_rules.complete(call, google.resources[cluster], pool) or call.fail_with
    google.resources[name] = pool | {"status": "PROVISIONING"}

    def finish(error: GoogleError | None) -> GoogleError | None:
        google.resources[name] |= container.outcome(error)
        return error

    return container.begin(call, "CREATE_NODE_POOL", name, "node pool", finish)


@ROUTES.on("DELETE", POOL, "container.clusters.update")
def delete(call: Call) -> dict[str, Any]:
    google, cluster, name = call.google, container.find(call), find(call)
    container.refuse_if_busy(google, cluster, name)
    google.resources[name]["status"] = "STOPPING"

    def finish(error: GoogleError | None) -> GoogleError | None:
        if error:
            google.resources[name] |= container.outcome(error)
        else:
            del google.resources[name]
        return error

    return container.begin(call, "DELETE_NODE_POOL", name, "delete node pool", finish)


@ROUTES.on("PUT", POOL, "container.clusters.update")
def update(call: Call) -> dict[str, Any]:
    google, cluster, name = call.google, container.find(call), find(call)
    wanted = protos.read(container_v1.UpdateNodePoolRequest, call.body)
    known = {"labels": "labels", "resourceLabels": "labels"}
    changes = {field: value[known[field]] for field, value in wanted.items() if field in known}
    if set(wanted) - set(known):
        raise GoogleError("UNIMPLEMENTED", f"The stand-in does not change {sorted(set(wanted) - set(known))}.")
    container.refuse_if_busy(google, cluster, name)
    google.resources[name]["status"] = "RECONCILING"

    def finish(error: GoogleError | None) -> GoogleError | None:
        google.resources[name]["status"] = "RUNNING"
        if not error:
            google.resources[name]["config"] |= changes
        return error

    return container.begin(call, "UPDATE_NODE_POOL", name, "update node pool", finish)


@ROUTES.on("POST", f"{POOL}:setSize", "container.clusters.update")
def set_size(call: Call) -> dict[str, Any]:
    google, cluster, name = call.google, container.find(call), find(call)
    size = int(protos.read(container_v1.SetNodePoolSizeRequest, call.body).get("nodeCount", 0))
    container.refuse_if_busy(google, cluster, name)
    google.resources[name]["status"] = "RECONCILING"

    def finish(error: GoogleError | None) -> GoogleError | None:
        google.resources[name] |= {"status": "RUNNING"} | ({} if error else {"initialNodeCount": size})
        return error

    return container.begin(call, "SET_NODE_POOL_SIZE", name, "update node pool", finish)


def find(call: Call) -> str:
    name = f"{container.find(call)}/nodePools/{call.parts['pool']}"
    _refuse_autopilot(call.google.resources[container.find(call)])
    if name not in call.google.resources:
        raise GoogleError("NOT_FOUND", f"Not found: {gke.spoken(name)}.")
    return name


def _refuse_autopilot(cluster: dict[str, Any]) -> None:
    if cluster.get("autopilot", {}).get("enabled"):
        raise invalid("Autopilot node pools cannot be accessed or modified.")
