"""Service Usage: which APIs are enabled."""

from __future__ import annotations

from typing import Any

from tests.gcp.errors import GoogleError, invalid
from tests.gcp.filters import matching
from tests.gcp.operations import Operation
from tests.gcp.routing import Call, Routes

ROUTES = Routes("serviceusage.googleapis.com", "Service Usage API", "/v1")
KNOWN = {
    "artifactregistry.googleapis.com": "Artifact Registry API",
    "cloudbuild.googleapis.com": "Cloud Build API",
    "cloudquotas.googleapis.com": "Cloud Quotas API",
    "cloudresourcemanager.googleapis.com": "Cloud Resource Manager API",
    "compute.googleapis.com": "Compute Engine API",
    "container.googleapis.com": "Kubernetes Engine API",
    "iam.googleapis.com": "Identity and Access Management (IAM) API",
    "serviceusage.googleapis.com": "Service Usage API",
    "storage.googleapis.com": "Cloud Storage API",
    "tpu.googleapis.com": "Cloud TPU API",
}


@ROUTES.on("GET", "/projects/{project}/services/{service}", "serviceusage.services.get")
def get(call: Call) -> dict[str, Any]:
    return _service(call, call.parts["service"])


@ROUTES.on("GET", "/projects/{project}/services", "serviceusage.services.list")
def list_all(call: Call) -> dict[str, Any]:
    services = [_service(call, service) for service in KNOWN]
    return {"services": matching(services, call.query.get("filter", "").replace(":", "="))}


@ROUTES.on("GET", "/projects/{project}/services:batchGet", "serviceusage.services.get")
def batch_get(call: Call) -> dict[str, Any]:
    names = call.query.get("names", "").split(",")
    return {"services": [_service(call, name.rpartition("/")[2]) for name in names if name]}


@ROUTES.on("POST", "/projects/{project}/services:batchEnable", "serviceusage.services.enable")
def batch_enable(call: Call) -> dict[str, Any]:
    services = call.body.get("serviceIds", [])
    if len(services) > 20:
        raise invalid("Too many services: at most 20 can be enabled in one call.")
    unknown = [service for service in services if service not in KNOWN]
    if unknown:
        raise GoogleError(
            "PERMISSION_DENIED",
            f"Not found or permission denied for service(s): {', '.join(unknown)}.",
            reason="SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED",
            domain="serviceusage.googleapis.com",
            metadata={"services": ",".join(unknown)},
        )

    def finish(error: GoogleError | None) -> GoogleError | None:
        for service in services if not error else ():
            call.google.resources[f"projects/{call.project}/services/{service}"] = {"state": "ENABLED"}
        return error

    made = [_service(call, service) | {"state": "ENABLED"} for service in services]
    kind = "type.googleapis.com/google.api.serviceusage.v1.BatchEnableServicesResponse"
    operation = Operation("services", call.project, 0, finish, call.fail_with)
    operation.name = f"acat.p2-{call.google.projects[call.project]}-{operation.name[10:]}"
    operation.facts = {"response": {"@type": kind, "services": made}}
    return _as_json(call.google.begin(operation, "services"))


@ROUTES.on("GET", "/operations/{name=acat\\..+}")
def get_operation(call: Call) -> dict[str, Any]:
    name = call.parts["name"]
    if name not in call.google.operations:
        raise GoogleError("NOT_FOUND", f"Operation operations/{name} not found.")
    return _as_json(call.google.operations[name])


def _as_json(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = {"name": f"operations/{operation.name}"}
    if not operation.done:
        return answer
    answer["done"] = True
    return answer | ({"error": operation.error.as_status()} if operation.error else operation.facts)


def _service(call: Call, service: str) -> dict[str, Any]:
    number = call.google.projects[call.project]
    enabled = f"projects/{call.project}/services/{service}" in call.google.resources
    return {
        "name": f"projects/{number}/services/{service}",
        "parent": f"projects/{number}",
        "config": {"name": service, "title": KNOWN.get(service, service)},
        "state": "ENABLED" if enabled else "DISABLED",
    }
