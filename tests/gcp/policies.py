"""IAM policies with etags, of projects and of buckets."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from tests.gcp.errors import GoogleError, invalid

if TYPE_CHECKING:
    from tests.gcp.google import Google

_POOL = re.compile(
    r"principal(?:Set)?://iam\.googleapis\.com/projects/(\d+)/locations/global/workloadIdentityPools/([^/]+)/.+"
)
_MEMBER = re.compile(r"(user|group|serviceAccount|domain|projectOwner|projectEditor|projectViewer|deleted:\w+):.+")


def allowed(permissions: set[str] | None, asked: list[str]) -> dict[str, Any]:
    """The answer of testIamPermissions: those that the caller has, in the order asked; nothing at all for none."""
    held = [one for one in asked if permissions is None or one in permissions]
    return {"permissions": held} if held else {}


def get(google: Google, resource: str) -> dict[str, Any]:
    return dict(google.resources.get(f"{resource} iamPolicy") or made([]))


def put(google: Google, resource: str, policy: dict[str, Any], stale: GoogleError | None = None) -> dict[str, Any]:
    """Replaces the policy. Raises `stale`, a 409 where not given, where its etag is an older one's, and 400 for members
    that cannot be."""
    old = get(google, resource)
    if policy.get("etag") and policy["etag"] != old["etag"]:
        raise stale or GoogleError(
            "ABORTED",
            "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff.",
        )
    for binding in policy.get("bindings", []):
        for member in binding.get("members", []):
            _check_member(google, member)
    bindings = [binding for binding in policy.get("bindings", []) if binding.get("members")]
    new = made(bindings, _count(old["etag"]) + 1) | {"version": int(policy.get("version", 1))}
    google.resources[f"{resource} iamPolicy"] = new
    return dict(new)


def _check_member(google: Google, member: str) -> None:
    pool = _POOL.fullmatch(member)
    if pool:
        number, name = pool.groups()
        if (number, name) not in {
            (google.projects[one.removesuffix(".svc.id.goog")], one) for one in google.workload_pools
        }:
            raise invalid(
                f"Identity Pool does not exist ({name}). Please check that you specified a valid resource name as "
                "returned in the `name` attribute in the configuration API."
            )
    elif member not in ("allUsers", "allAuthenticatedUsers") and not _MEMBER.fullmatch(member):
        raise invalid(f"Invalid argument: member {member} is of an unknown type.")


def made(bindings: list[dict[str, Any]], count: int = 1) -> dict[str, Any]:
    """A policy whose etag is that of its count-th change."""
    return {"version": 1, "bindings": bindings, "etag": base64.b64encode(count.to_bytes(8, "big")).decode()}


def _count(etag: str) -> int:
    return int.from_bytes(base64.b64decode(etag), "big")
