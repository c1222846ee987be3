"""Kubernetes Engine: names, links, labels, locations and versions, as all its parts use them."""

from __future__ import annotations

import re

from tests.gcp import machines
from tests.gcp.errors import invalid
from tests.gcp.operations import now

PREFIX = "/v1/projects/{project}/locations/{location}"
_LABEL = re.compile(r"[a-z0-9_-]{0,63}")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def check_name(field: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise invalid(
            f'Invalid value for field "{field}": "{name}". Must be 1-40 characters of lowercase letters, numbers and '
            "hyphens, starting with a letter and not ending with a hyphen."
        )


def check_location(location: str) -> None:
    if location not in machines.REGIONS and location not in machines.ZONES:
        raise invalid(f'Location "{location}" does not exist.')


def check_labels(labels: dict[str, str]) -> None:
    for key, value in labels.items():
        if not key or not _LABEL.fullmatch(key) or not _LABEL.fullmatch(value) or not key[0].isalpha():
            raise invalid(f'Invalid resource label "{key}={value}": at most 63 lowercase letters, digits, - and _.')


def fingerprint() -> str:
    return now().encode().hex()[-16:]


def link(name: str) -> str:
    """GKE's links say zones where the location is one."""
    return f"https://container.googleapis.com/v1/{spoken(name)}"


def spoken(name: str) -> str:
    """A name as GKE's messages have it: projects/p/zones/us-east5-b/clusters/c."""
    return re.sub(r"/locations/([a-z]+-[a-z]+\d+-[a-z])(?=/|$)", r"/zones/\1", name)


def resolve_version(asked: str, channel: str, which: str) -> str:
    """The version that is meant by "", "latest", "1.35" or a full one."""
    offered = machines.CHANNELS.get(channel, machines.VERSIONS)
    default = machines.CHANNELS.get(channel, machines.CHANNELS["REGULAR"])[0]
    if asked in ("", "-"):
        return default
    if asked == "latest":
        return offered[0]
    found = [one for one in offered if one == asked or one.startswith((f"{asked}.", f"{asked}-"))]
    if not found:
        raise invalid(f'{which} version "{asked}" is unsupported.')
    return found[0]
