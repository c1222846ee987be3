"""Compute Engine: the project, its regions and zones, and what machines there are where."""

from __future__ import annotations

from typing import Any

from tests.gcp import machines, quotas
from tests.gcp.compute_rules import URL, missing
from tests.gcp.filters import matching
from tests.gcp.routing import Call, Routes

ROUTES = Routes("compute.googleapis.com", "Compute Engine API", "/compute/v1/projects/{project}")


@ROUTES.on("GET", "", "compute.projects.get")
def get_project(call: Call) -> dict[str, Any]:
    number, name = call.google.projects[call.project], call.project
    return {"kind": "compute#project", "id": number, "name": name, "quotas": quotas.of_project(call.google, name)}


@ROUTES.on("GET", "/regions/{region}", "compute.regions.get")
def get_region(call: Call) -> dict[str, Any]:
    if call.parts["region"] not in machines.REGIONS:
        raise missing(f"projects/{call.project}/regions/{call.parts['region']}")
    return _region(call, call.parts["region"])


@ROUTES.on("GET", "/zones/{zone}", "compute.zones.get")
def get_zone(call: Call) -> dict[str, Any]:
    if call.parts["zone"] not in machines.ZONES:
        raise missing(f"projects/{call.project}/zones/{call.parts['zone']}")
    return _zone(call, call.parts["zone"])


@ROUTES.on("GET", "/zones", "compute.zones.list")
def list_zones(call: Call) -> dict[str, Any]:
    return {"items": matching([_zone(call, zone) for zone in machines.ZONES], call.query.get("filter", ""))}


@ROUTES.on("GET", "/zones/{zone}/machineTypes/{machine}", "compute.machineTypes.get")
def get_machine(call: Call) -> dict[str, Any]:
    get_zone(call)
    if not machines.available(call.parts["machine"], call.parts["zone"]):
        raise missing(f"projects/{call.project}/zones/{call.parts['zone']}/machineTypes/{call.parts['machine']}")
    return _machine(call, call.parts["machine"], call.parts["zone"])


@ROUTES.on("GET", "/aggregated/machineTypes", "compute.machineTypes.list")
def list_machines_everywhere(call: Call) -> dict[str, Any]:
    items = {}
    for zone in machines.ZONES:
        there = [_machine(call, machine, zone) for machine in machines.MACHINES if machines.available(machine, zone)]
        found = matching(there, call.query.get("filter", ""))
        items[f"zones/{zone}"] = {"machineTypes": found} if found else {"warning": {"code": "NO_RESULTS_ON_PAGE"}}
    return {"items": items}


def _region(call: Call, region: str) -> dict[str, Any]:
    place = f"{URL}projects/{call.project}"
    return {
        "kind": "compute#region", "name": region, "status": "UP", "selfLink": f"{place}/regions/{region}",
        "zones": [f"{place}/zones/{zone}" for zone in machines.zones_of(region)],
        "quotas": quotas.regional(call.google, call.project, region),
    }  # fmt: skip


def _zone(call: Call, zone: str) -> dict[str, Any]:
    region = f"{URL}projects/{call.project}/regions/{machines.region_of(zone)}"
    return {"kind": "compute#zone", "name": zone, "status": "UP", "region": region}


def _machine(call: Call, machine: str, zone: str) -> dict[str, Any]:
    vcpus, memory, _, _ = machines.MACHINES[machine]
    link = f"{URL}projects/{call.project}/zones/{zone}/machineTypes/{machine}"
    return {"name": machine, "guestCpus": vcpus, "memoryMb": memory, "zone": zone, "selfLink": link}
