"""Cloud Storage's folders, in buckets with a hierarchical namespace: they come with the objects and stay without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.gcp import storage
from tests.gcp.errors import GoogleError
from tests.gcp.routing import Call, Reply, Routes
from tests.gcp.storage import BUCKET, find

if TYPE_CHECKING:
    from tests.gcp.google import Google

ROUTES = Routes("storage.googleapis.com", "Cloud Storage API")
PAGE = 3
"""Folders per answer: few, so that whoever lists them has to turn pages."""


def _keep(google: Google, bucket: dict[str, Any], name: str) -> None:
    """Makes the folders of a new object."""
    parts = name.split("/")[:-1] if bucket.get("hierarchicalNamespace", {}).get("enabled") else []
    for length in range(1, len(parts) + 1):
        folder = "/".join(parts[:length]) + "/"
        google.resources.setdefault(_key(bucket["name"], folder), {"name": folder, "bucket": bucket["name"]})


def _names(google: Google, bucket: str) -> list[str]:
    start = _key(bucket, "")
    return sorted(key.removeprefix(start) for key in google.resources if key.startswith(start))


@ROUTES.on("POST", f"/upload{BUCKET}/o")
def upload(call: Call) -> Reply:
    """A new object brings its folders."""
    reply = storage.upload(call)
    _keep(call.google, find(call, ""), call.query.get("name") or storage.uploaded_name(call))
    return reply


@ROUTES.on("DELETE", BUCKET)
def delete_bucket(call: Call) -> Reply:
    """Only without folders."""
    bucket = find(call, "storage.buckets.delete")["name"]
    if _names(call.google, bucket):
        raise GoogleError("ABORTED", "The bucket you tried to delete is not empty.", legacy="conflict")
    return storage.delete(call)


@ROUTES.on("GET", f"{BUCKET}/folders")
def list_folders(call: Call) -> dict[str, Any]:
    bucket = _hierarchical(call, "storage.folders.list")
    after = call.query.get("pageToken", "")
    there = [name for name in _names(call.google, bucket) if name > after]
    answer = {"kind": "storage#folders", "items": [call.google.resources[_key(bucket, name)] for name in there[:PAGE]]}
    return answer | ({"nextPageToken": there[PAGE - 1]} if there[PAGE:] else {})


@ROUTES.on("DELETE", f"{BUCKET}/folders/{{folder=.+}}")
def delete_folder(call: Call) -> Reply:
    bucket, folder = _hierarchical(call, "storage.folders.delete"), call.parts["folder"]
    if _key(bucket, folder) not in call.google.resources:
        raise GoogleError("NOT_FOUND", "The folder does not exist.")
    inside = [*_names(call.google, bucket), *call.google.objects.names(bucket)]
    if any(name.startswith(folder) and name != folder for name in inside):
        raise GoogleError("ABORTED", "The folder you tried to delete is not empty.", legacy="conflict")
    del call.google.resources[_key(bucket, folder)]
    return Reply(b"", 204)


def _hierarchical(call: Call, permission: str) -> str:
    bucket = find(call, permission)
    if not bucket.get("hierarchicalNamespace", {}).get("enabled"):
        raise GoogleError("ABORTED", "The bucket does not have hierarchical namespace enabled.", legacy="conflict")
    return str(bucket["name"])


def _key(bucket: str, folder: str) -> str:
    return f"buckets/{bucket}/folders/{folder}"
