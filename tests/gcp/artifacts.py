"""Artifact Registry: repositories, and the images that builds pushed."""

from __future__ import annotations

import uuid
from typing import Any

from google.cloud import artifactregistry_v1

from tests.gcp import machines, protos
from tests.gcp.errors import GoogleError, invalid
from tests.gcp.gke import check_labels
from tests.gcp.operations import Operation, now
from tests.gcp.routing import Call, Routes

ROUTES = Routes(
    "artifactregistry.googleapis.com", "Artifact Registry API", "/v1/projects/{project}/locations/{location}"
)
REPOSITORY = "/repositories/{repository}"
TYPE = "type.googleapis.com/google.devtools.artifactregistry.v1"


@ROUTES.on("GET", "/repositories", "artifactregistry.repositories.list")
def list_all(call: Call) -> dict[str, Any]:
    start = _name(call, "")
    return {
        "repositories": [
            one for name, one in call.google.resources.items() if name.startswith(start) and "format" in one
        ]
    }


@ROUTES.on("GET", REPOSITORY, "artifactregistry.repositories.get")
def get(call: Call) -> dict[str, Any]:
    return call.google.resources[find(call)]


@ROUTES.on("POST", "/repositories", "artifactregistry.repositories.create")
def create(call: Call) -> dict[str, Any]:
    google, name = call.google, _name(call, call.query.get("repositoryId", ""))
    body = protos.read(artifactregistry_v1.Repository, call.body)
    if call.parts["location"] not in (*machines.REGIONS, "us", "europe", "asia"):
        raise invalid(f"Location {call.parts['location']} is not found or access is unauthorized.")
    if (
        name.endswith("/")
        or not name.rpartition("/")[2][0].isalpha()
        or name.rpartition("/")[2].lower() != name.rpartition("/")[2]
    ):
        raise invalid(f"Invalid repository id: {name.rpartition('/')[2]!r}.")
    if "format" not in body:
        raise invalid("A repository format must be specified.")
    check_labels(body.get("labels", {}))
    if name in google.resources:
        raise GoogleError("ALREADY_EXISTS", "the repository already exists")
    made = body | {
        "name": name,
        "createTime": now(),
        "updateTime": now(),
        "mode": body.get("mode", "STANDARD_REPOSITORY"),
    }

    def finish(error: GoogleError | None) -> GoogleError | None:
        if name in google.resources:
            return GoogleError("ALREADY_EXISTS", "the repository already exists")
        if not error:
            google.resources[name] = made
        return error

    return _begin(call, "repository", finish, {"@type": f"{TYPE}.Repository"} | made)


@ROUTES.on("DELETE", REPOSITORY, "artifactregistry.repositories.delete")
def delete(call: Call) -> dict[str, Any]:
    google, name = call.google, find(call)

    def finish(error: GoogleError | None) -> GoogleError | None:
        if not error:
            for other in [one for one in google.resources if one == name or one.startswith((f"{name}/", f"{name} "))]:
                del google.resources[other]
        return error

    return _begin(call, "delete repository", finish, {"@type": "type.googleapis.com/google.protobuf.Empty"})


@ROUTES.on("GET", f"{REPOSITORY}/dockerImages", "artifactregistry.dockerimages.list")
def list_images(call: Call) -> dict[str, Any]:
    start = f"{find(call)}/dockerImages/"
    return {"dockerImages": [one for name, one in call.google.resources.items() if name.startswith(start)]}


@ROUTES.on("GET", f"{REPOSITORY}/packages/{{package}}/tags/{{tag}}", "artifactregistry.tags.get")
def get_tag(call: Call) -> dict[str, Any]:
    """The tag of the image that was pushed last with it: a tag moves."""
    repository, package, tag = find(call), call.parts["package"], call.parts["tag"]
    start = f"{repository}/dockerImages/{package}@"
    images = [one for name, one in call.google.resources.items() if name.startswith(start) and tag in one["tags"]]
    if not images:
        raise GoogleError("NOT_FOUND", "Requested entity was not found.")
    digest = images[-1]["name"].rpartition("@")[2]
    path = f"{repository}/packages/{package}"
    return {"name": f"{path}/tags/{tag}", "version": f"{path}/versions/{digest}"}


@ROUTES.on("GET", "/operations/{operation=(?!operation-)[^/:]+}")
def get_operation(call: Call) -> dict[str, Any]:
    operation = call.google.operations.get(call.parts["operation"])
    if operation is None or operation.api != "artifacts":
        raise GoogleError("NOT_FOUND", "The operation was not found.")
    return _as_json(operation)


def find(call: Call) -> str:
    name = _name(call, call.parts["repository"])
    if name not in call.google.resources:
        raise GoogleError("NOT_FOUND", "Requested entity was not found.")
    return name


def _name(call: Call, repository: str) -> str:
    return f"projects/{call.project}/locations/{call.parts['location']}/repositories/{repository}"


def _begin(call: Call, kind: str, finish: Any, response: dict[str, Any]) -> dict[str, Any]:
    operation = Operation("artifacts", call.project, 0, finish, call.fail_with, name=str(uuid.uuid4()))
    operation.facts = {"response": response, "location": call.parts["location"]}
    return _as_json(call.google.begin(operation, kind))


def _as_json(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "name": f"projects/{operation.project}/locations/{operation.facts['location']}/operations/{operation.name}",
        "metadata": {"@type": f"{TYPE}.OperationMetadata"},
    }
    if not operation.done:
        return answer
    ended = {"error": operation.error.as_status()} if operation.error else {"response": operation.facts["response"]}
    return answer | {"done": True} | ended
