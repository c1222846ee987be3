"""What a Kubernetes API says of itself: its version, its APIs and their kinds, as Helm and kubectl ask first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERSION = {"major": "1", "minor": "35", "gitVersion": "v1.35.2-gke.1842000"}
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def find(path: str, kinds: Mapping[str, tuple[str, str, bool]]) -> dict[str, Any] | None:
    """The answer; None where the path is no such question. kinds: those that are there, as in kubernetes.KINDS."""
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = sorted({api.split("/")[2] for api, _, _ in kinds.values() if api.startswith("/apis/")})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in groups]}
    inside = [
        {"name": plural, "kind": kind, "singularName": kind.lower(), "namespaced": namespaced, "verbs": VERBS}
        for plural, (api, kind, namespaced) in kinds.items()
        if api == path
    ]
    version = path.removeprefix("/apis/").removeprefix("/api/")
    return {"kind": "APIResourceList", "groupVersion": version, "resources": inside} if inside else None


def _group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}
