"""Cloud Storage: buckets, with their labels, places, policies and preconditions. Objects are in objects.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.gcp import machines, policies
from tests.gcp.errors import GoogleError, invalid, unknown_project
from tests.gcp.operations import now
from tests.gcp.routing import Call, NotYetError, Reply, Routes

if TYPE_CHECKING:
    from tests.gcp.google import Google

ROUTES = Routes("storage.googleapis.com", "Cloud Storage API")
B = "/storage/v1/b"
BUCKET = f"{B}/{{bucket=[^/]+}}"
OBJECT = "{object=.+}"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{1,61}[a-z0-9]")
_PLACES = {"US", "EU", "ASIA", *(region.upper() for region in machines.REGIONS)}
_ROLE = re.compile(r"roles/storage\.\w+|projects/[^/]+/roles/[\w.]+|organizations/[^/]+/roles/[\w.]+")


@ROUTES.on("GET", B)
def list_buckets(call: Call) -> dict[str, Any]:
    project = _project(call)
    check(call, "storage.buckets.list", f"projects/{project}")
    number, prefix = call.google.projects[project], call.query.get("prefix", "")
    there = [bucket for name, bucket in _buckets(call.google) if bucket["projectNumber"] == number]
    return {"kind": "storage#buckets", "items": [one for one in there if one["name"].startswith(prefix)]}


@ROUTES.on("POST", B)
def insert(call: Call) -> dict[str, Any]:
    google, project, bucket = call.google, _project(call), dict(call.body)
    check(call, "storage.buckets.create", f"projects/{project}")
    _await_delay(call, "bucket")
    name, location = bucket.get("name", ""), bucket.get("location", "US").upper()
    if not _NAME.fullmatch(name) or name.startswith("goog") or "google" in name:
        raise invalid(f"Invalid bucket name: '{name}'")
    there = google.resources.get(f"buckets/{name}")
    if there:
        raise _taken(there["projectNumber"] == google.projects[project])
    if location not in _PLACES:
        raise invalid("The specified location constraint is not valid.")
    _check_namespace(bucket)
    uniform = bucket.setdefault("iamConfiguration", {}).setdefault("uniformBucketLevelAccess", {"enabled": False})
    bucket["iamConfiguration"] |= {"bucketPolicyOnly": dict(uniform)}
    bucket["iamConfiguration"].setdefault("publicAccessPrevention", "inherited")
    bucket |= {
        "kind": "storage#bucket", "id": name, "selfLink": f"https://www.googleapis.com/storage/v1/b/{name}",
        "projectNumber": google.projects[project], "location": location, "timeCreated": now(), "updated": now(),
        "locationType": "region" if location.lower() in machines.REGIONS else "multi-region",
        "storageClass": bucket.get("storageClass", "STANDARD"), "metageneration": "1", "etag": "CAE=",
    }  # fmt: skip
    google.resources[f"buckets/{name}"] = bucket
    google.objects.open(name)
    owners = [f"projectEditor:{project}", f"projectOwner:{project}"]
    google.resources[f"buckets/{name} iamPolicy"] = policies.made(
        [
            {"role": "roles/storage.legacyBucketOwner", "members": owners},
            {"role": "roles/storage.legacyBucketReader", "members": [f"projectViewer:{project}"]},
        ]
    )
    return bucket


@ROUTES.on("GET", BUCKET)
def get(call: Call) -> dict[str, Any]:
    return find(call, "storage.buckets.get")


@ROUTES.on("PATCH", BUCKET)
def patch(call: Call) -> dict[str, Any]:
    bucket = find(call, "storage.buckets.update")
    _check_metageneration(call, bucket)
    changes = dict(call.body)
    fixed = {"location", "hierarchicalNamespace", "name"} & set(changes)
    if any(changes[key] != bucket.get(key) for key in fixed):
        raise invalid(f"Cannot change {sorted(fixed)} of an existing bucket.")
    labels = {
        key: value for key, value in (bucket.get("labels", {}) | (changes.pop("labels", {}) or {})).items() if value
    }
    bucket |= changes | {"metageneration": str(int(bucket["metageneration"]) + 1), "updated": now()}
    bucket["labels"] = labels
    return bucket


def delete(call: Call) -> Reply:
    """For tests/gcp/folders.py, which looks for folders first."""
    bucket = find(call, "storage.buckets.delete")
    _check_metageneration(call, bucket)
    _await_delay(call, "delete bucket")
    if call.google.objects.names(bucket["name"]):
        raise GoogleError("ABORTED", "The bucket you tried to delete is not empty.", legacy="conflict")
    for name in (f"buckets/{bucket['name']}", f"buckets/{bucket['name']} iamPolicy"):
        del call.google.resources[name]
    call.google.objects.close(bucket["name"])
    return Reply(b"", 204)


@ROUTES.on("GET", f"{BUCKET}/iam")
def get_policy(call: Call) -> dict[str, Any]:
    name = find(call, "storage.buckets.getIamPolicy")["name"]
    return _policy(name, policies.get(call.google, f"buckets/{name}"))


@ROUTES.on("PUT", f"{BUCKET}/iam")
def set_policy(call: Call) -> dict[str, Any]:
    name = find(call, "storage.buckets.setIamPolicy")["name"]
    for binding in call.body.get("bindings", []):
        if not _ROLE.fullmatch(binding["role"]):
            raise invalid(f"Role {binding['role']} is not supported for this resource.")
    stale = GoogleError(
        "FAILED_PRECONDITION",
        "At least one of the pre-conditions you specified did not hold.",
        legacy="conditionNotMet",
        code=412,
    )
    return _policy(name, policies.put(call.google, f"buckets/{name}", call.body, stale))


@ROUTES.on("GET", f"{BUCKET}/iam/testPermissions")
def test_permissions(call: Call) -> dict[str, Any]:
    bucket = find(call, "")
    asked = call.query.get("permissions", "").split(",")
    held = policies.allowed(set() if _foreign(call.google, bucket) else call.google.permissions, asked)
    return {"kind": "storage#testIamPermissionsResponse"} | held


@ROUTES.on("GET", f"{BUCKET}/o")
def list_objects(call: Call) -> Reply:
    return _leave(call, "storage.objects.list")


@ROUTES.on("GET", f"/download{BUCKET}/o/{OBJECT}")
def download(call: Call) -> Reply:
    return _leave(call, "storage.objects.get")


@ROUTES.on("DELETE", f"{BUCKET}/o/{OBJECT}")
def delete_object(call: Call) -> Reply:
    return _leave(call, "storage.objects.delete")


def upload(call: Call) -> Reply:
    """For tests/gcp/folders.py, which keeps the new object's folders."""
    return _leave(call, "storage.objects.create")


def find(call: Call, permission: str) -> dict[str, Any]:
    """The call's bucket. Raises 404 where there is none, 403 where it is another's or the permission is missing."""
    name = call.parts["bucket"]
    bucket = call.google.resources.get(f"buckets/{name}")
    if not bucket:
        raise GoogleError("NOT_FOUND", "The specified bucket does not exist.")
    if permission and _foreign(call.google, bucket):
        raise _denied(call, permission)
    check(call, permission, f"buckets/{name}")
    return bucket


def check(call: Call, permission: str, resource: str) -> None:
    held = call.google.permissions
    if permission and held is not None and permission not in held:
        raise _denied(call, permission)


def add_foreign_bucket(google: Google, name: str) -> None:
    """A bucket of a project that the caller has nothing to do with."""
    google.resources[f"buckets/{name}"] = {
        "name": name, "projectNumber": "1", "location": "US", "metageneration": "1", "locationType": "multi-region",
    }  # fmt: skip


def _leave(call: Call, permission: str) -> Reply:
    """To the emulator, after what it does not check."""
    bucket = find(call, permission)["name"]
    wanted = call.query.get("ifGenerationMatch")
    name = call.parts.get("object") or call.query.get("name") or uploaded_name(call)
    if wanted is not None and wanted != call.google.objects.generation(bucket, name):
        raise GoogleError(
            "FAILED_PRECONDITION",
            "At least one of the pre-conditions you specified did not hold.",
            legacy="conditionNotMet",
            code=412,
        )
    return call.google.objects.answer(call)


def uploaded_name(call: Call) -> str:
    """Of a multipart or resumable upload: it is in the metadata."""
    found = re.search(rb'"name":\s*"([^"]+)"', call.raw)
    return found[1].decode() if found else ""


def _project(call: Call) -> str:
    project = call.google.project_id(call.query.get("project", ""))
    if project not in call.google.projects:
        raise unknown_project(ROUTES.service, project)
    return project


def _buckets(google: Google) -> list[tuple[str, dict[str, Any]]]:
    return [(name, one) for name, one in google.resources.items() if re.fullmatch(r"buckets/[^/ ]+", name)]


def _foreign(google: Google, bucket: dict[str, Any]) -> bool:
    return bucket["projectNumber"] not in google.projects.values()


def _denied(call: Call, permission: str) -> GoogleError:
    kind = "bucket" if "bucket" in call.parts else "project"
    return GoogleError(
        "PERMISSION_DENIED",
        f"{call.account} does not have {permission} access to the Google Cloud {'Storage ' * (kind == 'bucket')}{kind}."
        f" Permission '{permission}' denied on resource (or it may not exist).",
    )


def _taken(ours: bool) -> GoogleError:
    if ours:
        message = "Your previous request to create the named bucket succeeded and you already own it."
    else:
        message = (
            "The requested bucket name is not available. The bucket namespace is shared by all users of the system."
            " Please select a different name and try again."
        )
    return GoogleError("ALREADY_EXISTS", message, legacy="conflict")


def _check_namespace(bucket: dict[str, Any]) -> None:
    uniform = bucket.get("iamConfiguration", {}).get("uniformBucketLevelAccess", {}).get("enabled", False)
    if bucket.get("hierarchicalNamespace", {}).get("enabled") and not uniform:
        raise invalid("Hierarchical namespace requires uniform bucket-level access to be enabled.")


def _check_metageneration(call: Call, bucket: dict[str, Any]) -> None:
    wanted = call.query.get("ifMetagenerationMatch", bucket["metageneration"])
    if wanted != bucket["metageneration"]:
        raise GoogleError(
            "FAILED_PRECONDITION",
            "At least one of the pre-conditions you specified did not hold.",
            legacy="conditionNotMet",
            code=412,
        )


def _await_delay(call: Call, kind: str) -> None:
    """Buckets have no operations: the reply itself comes late."""
    seconds = call.google.delays.get(kind, 0)
    if seconds and not call.parts.get("waited"):
        call.parts["waited"] = "yes"
        raise NotYetError(call.google.clock() + seconds)


def _policy(bucket: str, policy: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "storage#policy", "resourceId": f"projects/_/buckets/{bucket}"} | policy
