"""Compute Engine: networks, subnets, firewall rules, their operations, and what machines there are where."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.cloud import compute_v1

from tests.gcp import machines, protos
from tests.gcp.compute_rules import URL, check_new, check_unused, missing, refuse_unless_ready
from tests.gcp.errors import GoogleError, invalid
from tests.gcp.filters import matching
from tests.gcp.operations import Operation, now
from tests.gcp.routing import Call, NotYetError, Routes

if TYPE_CHECKING:
    from tests.gcp.google import Google

ROUTES = Routes("compute.googleapis.com", "Compute Engine API", "/compute/v1/projects/{project}")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
# Collection: the message, the kind of delay, what a message calls it
KINDS: dict[str, tuple[Any, str]] = {
    "networks": (compute_v1.Network, "network"),
    "subnetworks": (compute_v1.Subnetwork, "subnet"),
    "firewalls": (compute_v1.Firewall, "firewall"),
    "reservations": (compute_v1.Reservation, "reservation"),
}
WORDS = {"networks": "network", "subnetworks": "subnetwork", "firewalls": "firewall", "reservations": "reservation"}
SCOPE = "{scope=global|regions/[^/]+|zones/[^/]+}"
KIND = "{kind=networks|subnetworks|firewalls|reservations}"


@ROUTES.on("GET", f"/{SCOPE}/operations/{{operation}}")
def get_operation(call: Call) -> dict[str, Any]:
    _check_operations(call, "get")
    return as_json(_operation(call))


@ROUTES.on("POST", f"/{SCOPE}/operations/{{operation}}/wait", reads=True)
def wait(call: Call) -> dict[str, Any]:
    _check_operations(call, "get")
    operation = _operation(call)
    if not operation.done and not call.parts.get("waited"):
        call.parts["waited"] = "yes"
        raise NotYetError(operation.deadline)
    return as_json(operation)


@ROUTES.on("GET", f"/{SCOPE}/operations")
def list_operations(call: Call) -> dict[str, Any]:
    _check_operations(call, "list")
    there = [
        as_json(one)
        for one in call.google.operations.values()
        if (one.api, one.project, one.facts.get("scope")) == ("compute", call.project, call.parts["scope"])
    ]
    return {"items": matching(there, call.query.get("filter", ""))}


@ROUTES.on("GET", f"/{SCOPE}/{KIND}")
def list_all(call: Call) -> dict[str, Any]:
    check(call, "list")
    found = matching(_inside(call, call.parts["scope"], call.parts["kind"]), call.query.get("filter", ""))
    return {"items": found} if found else {}


@ROUTES.on("GET", f"/{SCOPE}/{KIND}/{{name}}")
def get(call: Call) -> dict[str, Any]:
    check(call, "get")
    return _shown(call.google, find(call))


@ROUTES.on("POST", f"/{SCOPE}/{KIND}")
def insert(call: Call) -> dict[str, Any]:
    check(call, "create")
    google, scope, kind = call.google, call.parts["scope"], call.parts["kind"]
    body = protos.read(KINDS[kind][0], call.body)
    name = f"projects/{call.project}/{scope}/{kind}/{body.get('name', '')}"
    again = _asked_before(call)
    if again:
        return as_json(again)
    _check_name(body.get("name", ""))
    if name in google.resources:
        raise GoogleError("ALREADY_EXISTS", f"The resource '{name}' already exists")
    error = check_new(call, kind, name, body)
    google.resources[name] = body | {
        "kind": f"compute#{WORDS[kind]}", "id": str(uuid.uuid4().int >> 65), "creationTimestamp": now(),
        "selfLink": URL + name, "fingerprint": uuid.uuid4().hex[:12],
    }  # fmt: skip

    def finish(failed: GoogleError | None) -> GoogleError | None:
        if failed:
            del google.resources[name]
        return failed

    return begin(call, "insert", name, KINDS[kind][1], finish, error)


@ROUTES.on("GET", "/global/networks/{name}/listPeeringRoutes", "compute.networks.listPeeringRoutes")
def list_peering_routes(call: Call) -> dict[str, Any]:
    """The ranges that a test has put there, under `NETWORK peering NAME`."""
    call.parts |= {"scope": "global", "kind": "networks"}
    ranges = call.google.resources.get(f"{find(call)} peering {call.query['peeringName']}", {}).get("ranges", [])
    return {"items": [{"destRange": one, "type": "SUBNET_PEERING_ROUTE", "imported": True} for one in ranges]}


@ROUTES.on("DELETE", f"/{SCOPE}/{KIND}/{{name}}")
def delete(call: Call) -> dict[str, Any]:
    check(call, "delete")
    again = _asked_before(call)
    if again:
        return as_json(again)
    name = find(call)
    refuse_unless_ready(call.google, name)
    error = check_unused(call.google, name)

    def finish(failed: GoogleError | None) -> GoogleError | None:
        failed = failed or check_unused(call.google, name)
        if not failed:
            del call.google.resources[name]
        return failed

    return begin(call, "delete", name, f"delete {KINDS[call.parts['kind']][1]}", finish, error)


@ROUTES.on("PATCH", f"/{SCOPE}/{KIND}/{{name}}")
def patch(call: Call) -> dict[str, Any]:
    check(call, "update")
    name, body = find(call), protos.read(KINDS[call.parts["kind"]][0], call.body)
    refuse_unless_ready(call.google, name)
    if call.parts["kind"] == "networks" and set(body) - {"mtu", "routingConfig", "name", "fingerprint"}:
        raise invalid(f"Invalid value for field 'resource': networks cannot change {sorted(body)}.")
    call.google.resources[name] |= body | {"fingerprint": uuid.uuid4().hex[:12]}
    return begin(call, "patch", name, f"update {KINDS[call.parts['kind']][1]}", lambda error: error)


def check(call: Call, verb: str) -> None:
    kind = call.parts["kind"]
    call.google.check(call, f"compute.{kind}.{verb}", ROUTES.service, f"projects/{call.project}/{kind}")
    if kind in ("firewalls", "subnetworks") and verb in ("create", "delete"):
        # https://cloud.google.com/compute/docs/reference/rest/v1/firewalls/insert: both change a network's policy.
        network = f"projects/{call.project}/global/networks"
        call.google.check(call, "compute.networks.updatePolicy", ROUTES.service, network)


def _check_operations(call: Call, verb: str) -> None:
    scope = call.parts["scope"].partition("/")[0].removesuffix("s")
    call.google.check(call, f"compute.{scope}Operations.{verb}", ROUTES.service, f"projects/{call.project}")


def begin(
    call: Call,
    kind: str,
    target: str,
    delay: str,
    finish: Callable[[GoogleError | None], GoogleError | None],
    error: GoogleError | None = None,
) -> dict[str, Any]:
    operation = Operation("compute", call.project, 0, finish, error or call.fail_with)
    operation.facts = {
        "type": kind, "target": target, "scope": call.parts["scope"], "request": call.query.get("requestId", ""),
        "user": call.account, "targetId": call.google.resources.get(target, {}).get("id", "0"),
    }  # fmt: skip
    call.google.begin(operation, delay)
    return as_json(operation)


def as_json(operation: Operation) -> dict[str, Any]:
    scope, facts = operation.facts["scope"], operation.facts
    answer: dict[str, Any] = {
        "kind": "compute#operation",
        "id": str(operation.number),
        "name": operation.name,
        "operationType": facts["type"],
        "status": "DONE" if operation.done else "RUNNING",
        "progress": 100 if operation.done else 0,
        "targetLink": URL + facts["target"],
        "targetId": facts["targetId"],
        "user": facts["user"],
        "insertTime": operation.started,
        "startTime": operation.started,
        "selfLink": f"{URL}projects/{operation.project}/{scope}/operations/{operation.name}",
    }
    if scope != "global":
        answer[scope.split("/")[0].removesuffix("s")] = f"{URL}projects/{operation.project}/{scope}"
    if operation.done:
        answer["endTime"] = operation.ended
    if operation.error:
        code = operation.error.reason or operation.error.status
        answer["error"] = {"errors": [{"code": code, "message": operation.error.message}]}
        answer |= {
            "httpErrorStatusCode": operation.error.code,
            "httpErrorMessage": operation.error.status.replace("_", " "),
        }
    return answer


def find(call: Call) -> str:
    name = f"projects/{call.project}/{call.parts['scope']}/{call.parts['kind']}/{call.parts['name']}"
    if name not in call.google.resources:
        raise missing(name)
    return name


def add_default_network(google: Google, project: str) -> None:
    """The network that every project has: a subnet per region."""
    name = f"projects/{project}/global/networks/default"
    google.resources[name] = {
        "name": "default", "autoCreateSubnetworks": True, "mtu": 1460, "selfLink": URL + name, "id": "1",
        "description": "Default network for the project", "routingConfig": {"routingMode": "REGIONAL"},
    }  # fmt: skip
    ranges = ipaddress.IPv4Network("10.128.0.0/12").subnets(new_prefix=20)
    for region, place in zip(machines.REGIONS, ranges, strict=False):
        subnet = f"projects/{project}/regions/{region}/subnetworks/default"
        google.resources[subnet] = {
            "name": "default", "network": URL + name, "ipCidrRange": str(place),
            "region": f"{URL}projects/{project}/regions/{region}",
            "gatewayAddress": str(place[1]), "selfLink": URL + subnet, "id": "1",
        }  # fmt: skip


def _shown(google: Google, name: str) -> dict[str, Any]:
    resource = dict(google.resources[name])
    if "/global/networks/" in name:
        resource["subnetworks"] = [
            URL + other
            for other, one in google.resources.items()
            if "/subnetworks/" in other and one["network"] == URL + name
        ]
    return resource


def _inside(call: Call, scope: str, kind: str) -> list[dict[str, Any]]:
    start = f"projects/{call.project}/{scope}/{kind}/"
    return [_shown(call.google, name) for name in list(call.google.resources) if name.startswith(start)]


def _asked_before(call: Call) -> Operation | None:
    """The operation that this very request began already."""
    request = call.query.get("requestId")
    return next(
        (one for one in call.google.operations.values() if request and one.facts.get("request") == request), None
    )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise invalid(
            f"Invalid value for field 'resource.name': '{name}'. Must be a match of regex "
            "'(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'"
        )


def _operation(call: Call) -> Operation:
    operation = call.google.operations.get(call.parts["operation"])
    if operation is None or operation.facts.get("scope") != call.parts["scope"]:
        raise missing(f"projects/{call.project}/{call.parts['scope']}/operations/{call.parts['operation']}")
    return operation
