"""What the server says of itself: its kinds, and the OpenAPI document that Helm and the driver look into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.gcp import kubernetes_discovery
from tests.kube.server.calls import Object
from tests.kube.server.kinds import Kind

_DOCUMENT = "/openapi/v3"


def find(path: str, kinds: Mapping[str, Kind], schemas: Mapping[str, Any]) -> Object | None:
    """The answer; None where the path is no such question. schemas: of ray.io."""
    return kubernetes_discovery.find(path, kinds) or _openapi(path, kinds, schemas)


def _openapi(path: str, kinds: Mapping[str, Kind], schemas: Mapping[str, Any]) -> Object | None:
    """That every kind's patches may be validated by the server: Helm asks, and then leaves it to the server."""
    apis = sorted({kind.api for kind in kinds.values()})
    if path == _DOCUMENT:
        return {"paths": {api[1:]: {"serverRelativeURL": f"{_DOCUMENT}{api}?hash=1"} for api in apis}}
    api = path.removeprefix(_DOCUMENT)
    if path == api or api not in apis:
        return None
    inside = {plural: kind for plural, kind in kinds.items() if kind.api == api}
    of_ray = any(kind.group == "ray.io" for kind in inside.values())
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.35.2"},
        "paths": {f"{api}/{plural}/{{name}}": {"patch": _patch(kind)} for plural, kind in inside.items()},
        "components": {"schemas": schemas if of_ray else {}},
    }


def _patch(kind: Kind) -> Object:
    return {
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": "v1", "kind": kind.name},
        "x-kubernetes-action": "patch",
        "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
    }
