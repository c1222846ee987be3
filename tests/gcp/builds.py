"""Cloud Build: a build fetches its source from a bucket and pushes its images to Artifact Registry; it runs no steps.

A build whose source or repository is not there fails, as does one that a fault says so of.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from typing import TYPE_CHECKING, Any

from google.cloud.devtools import cloudbuild_v1

from tests.gcp import protos
from tests.gcp.errors import GoogleError, invalid
from tests.gcp.filters import matching
from tests.gcp.operations import Operation, now
from tests.gcp.routing import Call, Routes

if TYPE_CHECKING:
    from tests.gcp.google import Google

ROUTES = Routes("cloudbuild.googleapis.com", "Cloud Build API", "/v1")
PLACE = "/projects/{project}{location=(?:/locations/[^/]+)?}"
TYPE = "type.googleapis.com/google.devtools.cloudbuild.v1"
# A domain-scoped project (example.com:name) is two parts of the path.
_IMAGE = re.compile(r"([a-z0-9-]+)-docker\.pkg\.dev/((?:[^/]+\.[^/]+/)?[^/]+)/([^/]+)/([^:@]+)(?::([\w.-]+))?")


@ROUTES.on("POST", f"{PLACE}/builds", "cloudbuild.builds.create")
def create(call: Call) -> dict[str, Any]:
    google, build = call.google, protos.read(cloudbuild_v1.Build, call.body)
    if not build.get("steps"):
        raise invalid("invalid build: steps must be specified")
    number, location = str(uuid.uuid4()), call.parts["location"].rpartition("/")[2] or "global"
    name = f"projects/{call.project}/locations/{location}/builds/{number}"
    place = f"https://console.cloud.google.com/cloud-build/builds;region={location}/{number}?project={call.project}"
    google.resources[name] = build | {
        "id": number, "name": name, "projectId": call.project, "status": "QUEUED", "createTime": now(), "logUrl": place,
    }  # fmt: skip

    def finish(error: GoogleError | None) -> GoogleError | None:
        error = error or _run(google, build)
        ended: dict[str, Any] = {"status": "FAILURE" if error else "SUCCESS", "finishTime": now()}
        if error:
            ended |= {
                "statusDetail": error.message,
                "failureInfo": {"type": "USER_BUILD_STEP", "detail": error.message},
            }
        else:
            ended |= {"results": {"images": [_push(google, build, image) for image in build.get("images", [])]}}
        google.resources[name] |= ended
        return error

    operation = Operation("builds", call.project, 0, finish, call.fail_with)
    operation.name = base64.urlsafe_b64encode(number.encode()).decode().rstrip("=")
    operation.facts = {"target": name}
    google.begin(operation, "build")
    return _as_json(google, operation)


@ROUTES.on("GET", f"{PLACE}/builds", "cloudbuild.builds.list")
def list_all(call: Call) -> dict[str, Any]:
    start = f"projects/{call.project}/locations/{call.parts['location'].rpartition('/')[2] or 'global'}/builds/"
    there = [_shown(call.google, name) for name in call.google.resources if name.startswith(start)]
    return {"builds": matching(there, call.query.get("filter", ""))}


@ROUTES.on("GET", f"{PLACE}/builds/{{build}}", "cloudbuild.builds.get")
def get(call: Call) -> dict[str, Any]:
    return _shown(call.google, _find(call))


@ROUTES.on("POST", f"{PLACE}/builds/{{build}}:cancel", "cloudbuild.builds.update")
def cancel(call: Call) -> dict[str, Any]:
    name = _find(call)
    running = call.google.running("builds", name)
    if not running:
        raise GoogleError("FAILED_PRECONDITION", "Build is not in progress and cannot be cancelled.")
    running[0].done = True
    running[0].error = GoogleError("CANCELLED", "Build cancelled")
    call.google.resources[name] |= {"status": "CANCELLED", "finishTime": now()}
    return call.google.resources[name]


@ROUTES.on("GET", f"{PLACE}/defaultServiceAccount", "cloudbuild.builds.get")
def default_account(call: Call) -> dict[str, Any]:
    """As in projects that built first after June 2024."""
    account = f"{call.google.projects[call.project]}-compute@developer.gserviceaccount.com"
    return {
        "name": f"projects/{call.project}{call.parts['location']}/defaultServiceAccount",
        "serviceAccountEmail": f"projects/{call.project}/serviceAccounts/{account}",
    }


@ROUTES.on("GET", "/operations/build/{project}/{operation}")
def get_operation(call: Call) -> dict[str, Any]:
    operation = call.google.operations.get(call.parts["operation"])
    if operation is None or operation.api != "builds":
        raise GoogleError("NOT_FOUND", "Requested entity was not found.")
    return _as_json(call.google, operation)


def _find(call: Call) -> str:
    location = call.parts["location"].rpartition("/")[2] or "global"
    name = f"projects/{call.project}/locations/{location}/builds/{call.parts['build']}"
    if name not in call.google.resources:
        raise GoogleError("NOT_FOUND", "Requested entity was not found.")
    return name


def _shown(google: Google, name: str) -> dict[str, Any]:
    build = google.resources[name]
    return build | ({"status": "WORKING", "startTime": build["createTime"]} if google.running("builds", name) else {})


def _as_json(google: Google, operation: Operation) -> dict[str, Any]:
    build = _shown(google, operation.facts["target"])
    answer: dict[str, Any] = {
        "name": f"operations/build/{operation.project}/{operation.name}",
        "metadata": {"@type": f"{TYPE}.BuildOperationMetadata", "build": build},
    }
    if not operation.done:
        return answer
    ended = (
        {"error": operation.error.as_status()} if operation.error else {"response": {"@type": f"{TYPE}.Build"} | build}
    )
    return answer | {"done": True} | ended


def _run(google: Google, build: dict[str, Any]) -> GoogleError | None:
    source = build.get("source", {}).get("storageSource")
    if source and source.get("object") not in google.objects.names(source.get("bucket", "")):
        return GoogleError(
            "NOT_FOUND", f"could not fetch source: gs://{source.get('bucket')}/{source.get('object')} not found"
        )
    for image in build.get("images", []):
        match = _IMAGE.fullmatch(image)
        if not match:
            return GoogleError("INVALID_ARGUMENT", f"failed to push {image}: not an image of Artifact Registry")
        location, project, repository, _, _ = match.groups()
        project = project.replace("/", ":")
        if f"projects/{project}/locations/{location}/repositories/{repository}" not in google.resources:
            return GoogleError(
                "NOT_FOUND", f'failed to push {image}: name unknown: Repository "{repository}" not found'
            )
    return None


def _push(google: Google, build: dict[str, Any], image: str) -> dict[str, str]:
    """The image's digest follows from the build's steps and source, so that the same build gives the same one."""
    match = _IMAGE.fullmatch(image)
    assert match
    location, project, repository, name, tag = match.groups()
    project = project.replace("/", ":")
    made_of = json.dumps([build["steps"], build.get("source", {}), name], sort_keys=True)
    digest = f"sha256:{hashlib.sha256(made_of.encode()).hexdigest()}"
    where = f"projects/{project}/locations/{location}/repositories/{repository}/dockerImages/{name}@{digest}"
    google.resources[where] = {"name": where, "uri": f"{image.rpartition(':')[0]}@{digest}", "tags": [tag or "latest"]}
    return {"name": image, "digest": digest}
