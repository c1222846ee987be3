"""Kubernetes Engine: clusters, their operations and what versions there are. Node pools are in node_pools.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.cloud import container_v1

from tests.gcp import cluster_rules, gke, machines, protos
from tests.gcp.errors import GoogleError, invalid
from tests.gcp.operations import Operation
from tests.gcp.routing import Call, Routes

if TYPE_CHECKING:
    from tests.gcp.google import Google

ROUTES = Routes("container.googleapis.com", "Kubernetes Engine API", gke.PREFIX)
CLUSTER = "/clusters/{cluster}"

# Fields of ClusterUpdate that are applied as they are, with the cluster's field that they become.
UPDATES = {
    "desiredAddonsConfig": "addonsConfig",
    "desiredWorkloadIdentityConfig": "workloadIdentityConfig",
    "desiredReleaseChannel": "releaseChannel",
    "desiredMonitoringConfig": "monitoringConfig",
    "desiredLoggingConfig": "loggingConfig",
}


@ROUTES.on("GET", "/serverConfig", "container.clusters.list")
def get_server_config(call: Call) -> dict[str, Any]:
    gke.check_location(call.parts["location"])
    return machines.server_config()


@ROUTES.on("GET", "/clusters", "container.clusters.list")
def list_clusters(call: Call) -> dict[str, Any]:
    location = call.parts["location"]
    start = f"projects/{call.project}/"
    found = [
        view(call.google, name)
        for name in list(call.google.resources)
        if re.fullmatch(rf"{start}locations/{'[^/]+' if location == '-' else location}/clusters/[^/ ]+", name)
    ]
    return {"clusters": found}


@ROUTES.on("POST", "/clusters", "container.clusters.create")
def create(call: Call) -> dict[str, Any]:
    google, location = call.google, call.parts["location"]
    cluster = protos.read(container_v1.CreateClusterRequest, call.body).get("cluster", {})
    name = f"projects/{call.project}/locations/{location}/clusters/{cluster.get('name', '')}"
    gke.check_location(location)
    gke.check_name("cluster.name", cluster.get("name", ""))
    if name in google.resources:
        raise GoogleError("ALREADY_EXISTS", f"Already exists: {gke.spoken(name)}.")
    cluster_rules.complete(call, cluster, location)
    pools = cluster.pop("nodePools")
    google.resources[name] = cluster | {"status": "PROVISIONING"}
    for pool in pools:
        google.resources[f"{name}/nodePools/{pool['name']}"] = pool | {"status": "PROVISIONING"}
    if "workloadIdentityConfig" in cluster:
        google.workload_pools.add(cluster["workloadIdentityConfig"]["workloadPool"])

    def finish(error: GoogleError | None) -> GoogleError | None:
        for one in [name, *(f"{name}/nodePools/{pool['name']}" for pool in pools)]:
            google.resources[one] |= outcome(error)
        google.resources[name]["endpoint"] = google.kubernetes.open(name)
        return error

    return begin(call, "CREATE_CLUSTER", name, "cluster", finish)


@ROUTES.on("GET", CLUSTER, "container.clusters.get")
def get(call: Call) -> dict[str, Any]:
    return view(call.google, find(call))


@ROUTES.on("DELETE", CLUSTER, "container.clusters.delete")
def delete(call: Call) -> dict[str, Any]:
    google, name = call.google, find(call)
    refuse_if_busy(google, name, "")
    google.resources[name]["status"] = "STOPPING"

    def finish(error: GoogleError | None) -> GoogleError | None:
        if error:
            google.resources[name] |= outcome(error)
            return error
        for one in [one for one in google.resources if one == name or one.startswith(f"{name}/")]:
            del google.resources[one]
        google.kubernetes.close(name)
        return None

    return begin(call, "DELETE_CLUSTER", name, "delete cluster", finish)


@ROUTES.on("PUT", CLUSTER, "container.clusters.update")
def update(call: Call) -> dict[str, Any]:
    wanted = protos.read(container_v1.UpdateClusterRequest, call.body).get("update", {})
    if len(wanted) != 1:
        raise invalid("Exactly one update can be applied to a cluster with each request.")
    ((field, value),) = wanted.items()
    if field == "desiredDatapathProvider":
        raise invalid("Updating to DATAPATH_PROVIDER ADVANCED_DATAPATH is not supported for an existing cluster.")
    if field not in UPDATES:
        raise GoogleError("UNIMPLEMENTED", f"The stand-in does not change {field}.")
    return change(call, UPDATES[field], value)


@ROUTES.on("POST", f"{CLUSTER}:setResourceLabels", "container.clusters.update")
def set_labels(call: Call) -> dict[str, Any]:
    request = protos.read(container_v1.SetLabelsRequest, call.body)
    current = call.google.resources[find(call)]
    if request.get("labelFingerprint") != current["labelFingerprint"]:
        raise GoogleError("FAILED_PRECONDITION", "Labels could not be set due to fingerprint mismatch.", code=412)
    gke.check_labels(request.get("resourceLabels", {}))
    current["labelFingerprint"] = gke.fingerprint()
    return change(call, "resourceLabels", request.get("resourceLabels", {}), merge=False)


@ROUTES.on("GET", "/operations", "container.operations.list")
def list_operations(call: Call) -> dict[str, Any]:
    location = call.parts["location"]
    found = [
        as_json(one)
        for one in call.google.operations.values()
        if one.api == "container" and one.project == call.project and location in ("-", one.facts["location"])
    ]
    return {"operations": found}


@ROUTES.on("GET", "/operations/{operation=operation-[^/:]+}", "container.operations.get")
def get_operation(call: Call) -> dict[str, Any]:
    operation = call.google.operations.get(call.parts["operation"])
    if operation is None or operation.api != "container":
        raise GoogleError("NOT_FOUND", f"Not found: {gke.spoken(call.path.removeprefix('/v1/'))}.")
    return as_json(operation)


def change(call: Call, field: str, value: Any, *, merge: bool = True) -> dict[str, Any]:
    """An operation that changes one field of the cluster."""
    google, name = call.google, find(call)
    refuse_if_busy(google, name, "")
    cluster = google.resources[name]
    after = cluster | {field: (cluster.get(field, {}) | value) if merge else value}
    cluster_rules.check_addons(after)
    cluster["status"] = "RECONCILING"

    def finish(error: GoogleError | None) -> GoogleError | None:
        cluster["status"] = "RUNNING"
        if not error:
            cluster[field] = after[field]
            if field == "workloadIdentityConfig":
                google.workload_pools.add(value["workloadPool"])
        return error

    return begin(call, "UPDATE_CLUSTER", name, "update cluster", finish)


def begin(
    call: Call, kind: str, target: str, delay: str, finish: Callable[[GoogleError | None], GoogleError | None]
) -> dict[str, Any]:
    """Begins an operation on a cluster or a node pool."""
    operation = Operation("container", call.project, 0, finish, call.fail_with)
    location = call.parts["location"]
    operation.facts = {"type": kind, "target": target, "location": location}
    call.google.begin(operation, delay)
    return as_json(operation)


def as_json(operation: Operation) -> dict[str, Any]:
    facts, number = operation.facts, operation.project
    answer: dict[str, Any] = {
        "name": operation.name,
        "zone": facts["location"],
        "location": facts["location"],
        "operationType": facts["type"],
        "status": "DONE" if operation.done else "RUNNING",
        "selfLink": gke.link(f"projects/{number}/locations/{facts['location']}/operations/{operation.name}"),
        "targetLink": gke.link(facts["target"]),
        "startTime": operation.started,
    }
    if operation.done:
        answer["endTime"] = operation.ended
    if operation.error:
        answer |= {"error": operation.error.as_status(), "statusMessage": operation.error.message}
    return answer


def refuse_if_busy(google: Google, cluster: str, pool: str) -> None:
    """One operation at a time on a cluster; node pools may be worked on at the same time as each other, not as the
    cluster. pool: the full name of the node pool, empty where the cluster itself is worked on."""
    for running in google.running("container"):
        target = running.facts["target"]
        if target in (cluster, pool) or (not pool and target.startswith(f"{cluster}/")):
            raise GoogleError(
                "FAILED_PRECONDITION",
                f"Cluster is running incompatible operation {running.name}.",
                reason="CLUSTER_ALREADY_HAS_OPERATION",
                domain="container.googleapis.com",
            )


def find(call: Call) -> str:
    """The full name of the call's cluster. Raises NOT_FOUND."""
    name = f"projects/{call.project}/locations/{call.parts['location']}/clusters/{call.parts['cluster']}"
    if name not in call.google.resources:
        raise GoogleError("NOT_FOUND", f"Not found: {gke.spoken(name)}.")
    return name


def view(google: Google, name: str) -> dict[str, Any]:
    """The cluster as Google shows it, with its node pools."""
    pools = [
        pool for other, pool in google.resources.items() if re.fullmatch(rf"{re.escape(name)}/nodePools/[^/]+", other)
    ]
    return google.resources[name] | {
        "nodePools": pools,
        "currentNodeCount": sum(pool["initialNodeCount"] for pool in pools),
    }


def outcome(error: GoogleError | None) -> dict[str, Any]:
    """The status after an operation, with Google's reason where it went wrong."""
    if not error:
        return {"status": "RUNNING"}
    condition = {"code": error.reason or "UNKNOWN", "message": error.message, "canonicalCode": error.status}
    return {"status": error.leaves, "statusMessage": error.message, "conditions": [condition]}
