"""Compute Engine: the resource policies of a region, of which only workload policies are known here."""

from __future__ import annotations

from typing import Any

from google.cloud import compute_v1

from tests.gcp import compute, protos
from tests.gcp.errors import GoogleError, invalid
from tests.gcp.filters import matching
from tests.gcp.routing import Call, Routes

ROUTES = Routes("compute.googleapis.com", "Compute Engine API", "/compute/v1/projects/{project}")
PLACE = "/{scope=regions/[^/]+}/{kind=resourcePolicies}"


@ROUTES.on("GET", PLACE, "compute.resourcePolicies.list")
def list_policies(call: Call) -> dict[str, Any]:
    start = f"projects/{call.project}/{call.parts['scope']}/resourcePolicies/"
    there = [one for name, one in call.google.resources.items() if name.startswith(start)]
    return {"items": matching(there, call.query.get("filter", ""))}


@ROUTES.on("GET", f"{PLACE}/{{name}}", "compute.resourcePolicies.get")
def get(call: Call) -> dict[str, Any]:
    return call.google.resources[compute.find(call)]


@ROUTES.on("POST", PLACE, "compute.resourcePolicies.create")
def insert(call: Call) -> dict[str, Any]:
    body = protos.read(compute_v1.ResourcePolicy, call.body)
    name = f"projects/{call.project}/{call.parts['scope']}/resourcePolicies/{body['name']}"
    if name in call.google.resources:
        raise GoogleError("ALREADY_EXISTS", f"The resource '{name}' already exists")
    if "type" not in body.get("workloadPolicy", {}):
        raise invalid("Invalid value for field 'resource.workloadPolicy.type': ''.")
    call.google.resources[name] = body
    return compute.begin(call, "insert", name, "workload policy", lambda error: error)


@ROUTES.on("DELETE", f"{PLACE}/{{name}}", "compute.resourcePolicies.delete")
def delete(call: Call) -> dict[str, Any]:
    name = compute.find(call)
    policy = name.rpartition("/")[2]
    for other, one in call.google.resources.items():
        if one.get("placementPolicy", {}).get("policyName") == policy:
            raise invalid(f"The resource_policy resource '{name}' is already being used by '{other}'")
    del call.google.resources[name]
    return compute.begin(call, "delete", name, "delete workload policy", lambda error: error)
