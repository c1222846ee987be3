"""JSON schemas for kubeconform, made from KubeRay's custom resource definitions and Kubernetes' OpenAPI document.

Both say which fields exist without saying that there are no others; a misspelt field is what these tests are after, so
every object with named fields is closed.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.chart.rendering import tool

Schema = dict[str, Any]

CLOSED = Path(__file__).parent / "crds"
"""Schemas by hand, of custom resources whose definitions are not at hand: only the fields that the chart may use."""

KINDS = {
    "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "Pod": "io.k8s.api.core.v1.Pod",
    "PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
    "Role": "io.k8s.api.rbac.v1.Role",
    "RoleBinding": "io.k8s.api.rbac.v1.RoleBinding",
    "ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
    "ResourceClaimTemplate": "io.k8s.api.resource.v1.ResourceClaimTemplate",
}
"""Kubernetes' own kinds that the chart makes, by their names in the OpenAPI document."""


def write(folder: Path) -> str:
    """Writes a schema for each kind; returns kubeconform's -schema-location for them."""
    for kind, schema in {**_of_kubernetes(), **_of_kuberay()}.items():
        (folder / f"{kind.lower()}.json").write_text(json.dumps(schema))
    for file in CLOSED.glob("*.json"):
        shutil.copy(file, folder)
    return str(folder / "{{.ResourceKind}}.json")


def _of_kuberay() -> dict[str, Schema]:
    schemas = {}
    for file in Path(tool("kuberay-config"), "crd", "bases").glob("ray.io_ray[cj]*.yaml"):
        # The C loader: each file is 2 MB.
        definition = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)["spec"]
        version = next(version for version in definition["versions"] if version["name"] == "v1")
        schemas[definition["names"]["kind"]] = _closed(version["schema"]["openAPIV3Schema"])
    return schemas


def _of_kubernetes() -> dict[str, Schema]:
    document = json.loads((Path(tool("kubernetes-openapi")) / "swagger.json").read_text())
    # A quantity is text in the document and may be a number in a manifest.
    document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = {"type": ["string", "integer"]}
    return {kind: _with_definitions(name, document["definitions"]) for kind, name in KINDS.items()}


def _with_definitions(name: str, definitions: dict[str, Schema]) -> Schema:
    """The named schema with those that it refers to, directly or not."""
    needed: dict[str, Schema] = {}
    open_names = {name}
    while open_names:
        current = open_names.pop()
        needed[current] = _closed(definitions[current])
        open_names |= set(re.findall(r'"#/definitions/([^"]+)"', json.dumps(needed[current]))) - needed.keys()
    return {"$ref": f"#/definitions/{name}", "definitions": needed}


def _closed(schema: Any) -> Any:
    """The schema with no fields but the named ones, and with OpenAPI's own words in JSON schema's."""
    if not isinstance(schema, dict):
        return schema
    result = {
        key: _closed(value) if key in ("items", "additionalProperties") else value for key, value in schema.items()
    }
    if "properties" in schema:
        result["properties"] = {name: _closed(value) for name, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            result.setdefault("additionalProperties", False)
        if schema["properties"].get("metadata") == {"type": "object"}:  # a CRD leaves it to the API server
            result["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    if schema.get("x-kubernetes-int-or-string"):
        result.pop("anyOf", None)
        result["type"] = ["integer", "string"]
    return result
