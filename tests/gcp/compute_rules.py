"""What Compute Engine refuses: values and ranges that cannot be, quotas, and deletes of what is in use."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from tests.gcp import machines
from tests.gcp.errors import GoogleError, invalid
from tests.gcp.routing import Call

if TYPE_CHECKING:
    from tests.gcp.google import Google


URL = "https://www.googleapis.com/compute/v1/"


def check_new(call: Call, kind: str, name: str, body: dict[str, Any]) -> GoogleError | None:
    """Fills in what Google does. Raises what is refused at once, returns what the operation will end with."""
    check = {"networks": _network, "subnetworks": _subnet, "firewalls": _firewall}.get(kind)
    return check(call, name, body) if check else None


def check_unused(google: Google, name: str) -> GoogleError | None:
    """Raises, or returns for networks, which find out in the operation, that something still uses it."""
    user = next(iter(_users(google, name)), "")
    if not user:
        return None
    kind = "network" if "/networks/" in name else "subnetwork"
    error = GoogleError(
        "INVALID_ARGUMENT",
        f"The {kind} resource '{name}' is already being used by '{user}'",
        reason="RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
        domain="compute.googleapis.com",
        legacy="resourceInUseByAnotherResource",
    )
    if kind == "network":
        return error
    raise error


def refuse_unless_ready(google: Google, name: str) -> None:
    """A resource is there as soon as its making has begun, and cannot be used before that has ended."""
    if google.running("compute", name):
        raise invalid(f"The resource '{name}' is not ready", "resourceNotReady")


def missing(name: str) -> GoogleError:
    return GoogleError("NOT_FOUND", f"The resource '{name}' was not found")


def _users(google: Google, name: str) -> list[str]:
    """What uses a network or a subnet: subnets, firewall rules, and the machines of clusters and node pools."""
    users = [
        other
        for other, one in google.resources.items()
        if one.get("network") == URL + name and ("/subnetworks/" in other or "/firewalls/" in other)
    ]
    for other, one in google.resources.items():
        config = one.get("networkConfig", {})
        used = [config, *config.get("additionalNodeNetworkConfigs", [])]
        if "/clusters/" in other and any(_names(place, name, other) for place in used):
            zone = (one.get("locations") or one.get("config", {}).get("locations") or ["-"])[0]
            project = other.split("/")[1]
            users.append(f"projects/{project}/zones/{zone}/instances/gke-{'-'.join(other.split('/')[5::2])}-0")
    return users


def _names(place: dict[str, Any], name: str, user: str) -> bool:
    """Whether a network configuration names it, in full or by its last part, in the user's project and region."""
    _, project, *scope, kind, last = name.split("/")
    named = place.get("network" if kind == "networks" else "subnetwork", "")
    same_project = user.split("/")[1] == project
    same_region = scope[-1] in ("global", machines.region_of(user.split("/")[3]))
    return bool(named) and named.rpartition("/")[2] == last and same_project and same_region


def _network(call: Call, name: str, body: dict[str, Any]) -> GoogleError | None:
    mtu = body.setdefault("mtu", 1460)
    if not 1300 <= mtu <= 8896:
        least = "greater than or equal to 1300" if mtu < 1300 else "less than or equal to 8896"
        raise invalid(f"Invalid value for field 'resource.mtu': '{mtu}'. Must be {least}")
    if "autoCreateSubnetworks" not in body:
        raise invalid("Invalid value for field 'resource.IPv4Range': ''. Legacy networks are no longer supported.")
    body.setdefault("routingConfig", {"routingMode": "REGIONAL"})
    start = f"projects/{call.project}/global/networks/"
    return _over_quota(call.google, "NETWORKS", start, "globally")


def _subnet(call: Call, name: str, body: dict[str, Any]) -> GoogleError | None:
    region = call.parts["scope"].removeprefix("regions/")
    if region not in machines.REGIONS:
        raise GoogleError("NOT_FOUND", f"The resource 'projects/{call.project}/regions/{region}' was not found")
    body["network"] = _existing_network(call, body)
    body["region"] = f"{URL}projects/{call.project}/regions/{region}"
    body.setdefault("privateIpGoogleAccess", False)
    body.setdefault("purpose", "PRIVATE")
    body.setdefault("stackType", "IPV4_ONLY")
    wanted = _range(body.get("ipCidrRange", ""), "resource.ipCidrRange")
    if not 4 <= wanted.prefixlen <= 29:
        raise invalid(f"Invalid value for field 'resource.ipCidrRange': '{wanted}'. The prefix must be 4 to 29 bits.")
    body["gatewayAddress"] = str(wanted[1])
    for other, one in call.google.resources.items():
        if "/subnetworks/" not in other or one["network"] != body["network"]:
            continue
        if wanted.overlaps(ipaddress.IPv4Network(one["ipCidrRange"])):
            raise invalid(
                f"Invalid value for field 'resource.ipCidrRange': '{wanted}'. Invalid IPCidrRange: {wanted} conflicts "
                f"with existing subnetwork '{one['name']}' in region '{other.split('/')[3]}'."
            )
    return _over_quota(call.google, "SUBNETWORKS", f"projects/{call.project}/regions/", "globally", "/subnetworks/")


def _firewall(call: Call, name: str, body: dict[str, Any]) -> GoogleError | None:
    body.setdefault("network", f"{URL}projects/{call.project}/global/networks/default")
    body["network"] = _existing_network(call, body)
    if not body.get("allowed") and not body.get("denied"):
        raise invalid(
            "Invalid value for field 'resource.allowed': ''. At least one of allowed, denied is required.", "required"
        )
    for place in body.get("sourceRanges", []):
        _range(place, "resource.sourceRanges")
    body.setdefault("direction", "INGRESS")
    body.setdefault("priority", 1000)
    body.setdefault("disabled", False)
    for rule in [*body.get("allowed", []), *body.get("denied", [])]:
        if not rule.get("IPProtocol", rule.get("iPProtocol")):
            raise invalid("Invalid value for field 'resource.allowed[0].IPProtocol': ''. It is required.", "required")
    return _over_quota(call.google, "FIREWALLS", f"projects/{call.project}/global/firewalls/", "globally")


def _existing_network(call: Call, body: dict[str, Any]) -> str:
    """The full link of the network that a body names, which must be there and ready."""
    given = body.get("network", "")
    if not given:
        raise invalid("Required field 'resource.network' not specified", "required")
    match = given.removeprefix(URL)
    if "/" not in match:
        raise invalid(f"Invalid value for field 'resource.network': '{given}'. The URL is malformed.")
    name = match if match.startswith("projects/") else f"projects/{call.project}/{match}"
    if name not in call.google.resources:
        raise GoogleError("NOT_FOUND", f"The resource '{name}' was not found")
    refuse_unless_ready(call.google, name)
    return URL + name


def _range(text: str, field: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError:
        raise invalid(
            f"Invalid value for field '{field}': '{text}'. Must be a CIDR address range that is contained in a valid "
            "address block, without host bits."
        ) from None


def _over_quota(google: Google, metric: str, start: str, where: str, within: str = "") -> GoogleError | None:
    limit = google.quota(metric, machines.QUOTAS[metric])
    if sum(name.startswith(start) and within in name for name in google.resources) < limit:
        return None
    return GoogleError(
        "PERMISSION_DENIED", f"Quota '{metric}' exceeded.  Limit: {limit:.1f} {where}.", reason="QUOTA_EXCEEDED",
        legacy="quotaExceeded",
    )  # fmt: skip
