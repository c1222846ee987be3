"""Whether the cluster knows the fields of a manifest, from the OpenAPI v3 document of its API group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_REFERENCE = "#/components/schemas/"


def unknown_fields(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[str]:
    """Paths of the manifest's fields that its kind does not have, such as spec.preRunningDeadlineSeconds, without what
    is below them. None where the document does not describe the kind."""
    schemas = document.get("components", {}).get("schemas", {})
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    wanted = {"group": group, "version": version, "kind": manifest["kind"]}
    for schema in schemas.values():
        if wanted in schema.get("x-kubernetes-group-version-kind", []):
            return list(_unknown(schemas, schema, {"spec": manifest.get("spec", {})}, ""))
    return []


def _unknown(schemas: Mapping[str, Any], schema: Mapping[str, Any], content: Any, path: str) -> Iterator[str]:
    schema = _resolved(schemas, schema)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(content, Mapping):
        known = schema.get("properties")
        others = schema.get("additionalProperties")
        if known is None and others is None:
            return  # any object
        for key, value in content.items():
            place = f"{path}.{key}" if path else str(key)
            if known is not None and key in known:
                yield from _unknown(schemas, known[key], value, place)
            elif isinstance(others, Mapping):
                yield from _unknown(schemas, others, value, place)
            elif not others:
                yield place
    elif isinstance(content, list) and isinstance(schema.get("items"), Mapping):
        for number, value in enumerate(content):
            yield from _unknown(schemas, schema["items"], value, f"{path}[{number}]")


def _resolved(schemas: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Behind references. Kubernetes writes one beside a default as the only item of allOf."""
    while True:
        if "$ref" in schema:
            schema = schemas.get(str(schema["$ref"]).removeprefix(_REFERENCE), {})
        elif len(schema.get("allOf", [])) == 1:
            schema = schema["allOf"][0]
        else:
            return schema
