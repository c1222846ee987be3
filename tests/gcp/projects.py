"""Resource Manager: projects, what the caller may do in them, and their IAM policies."""

from __future__ import annotations

from typing import Any

from tests.gcp import policies
from tests.gcp.errors import GoogleError
from tests.gcp.routing import Call, Routes

ROUTES = Routes("cloudresourcemanager.googleapis.com", "Cloud Resource Manager API", "/v3")
IAM = Routes("iam.googleapis.com", "Identity and Access Management (IAM) API", "/v1/projects/{project}")


@ROUTES.on("GET", "/projects/{project}", "resourcemanager.projects.get")
def get(call: Call) -> dict[str, Any]:
    return {
        "name": f"projects/{call.google.projects[call.project]}",
        "parent": "organizations/1",
        "projectId": call.project,
        "state": "ACTIVE",
        "displayName": call.project,
        "createTime": "2026-01-01T00:00:00Z",
        "etag": 'W/"1"',
    }


@ROUTES.on("POST", "/projects/{project}:testIamPermissions", reads=True)
def test_permissions(call: Call) -> dict[str, Any]:
    asked = call.body.get("permissions", [])
    if len(asked) > 100:
        raise GoogleError("INVALID_ARGUMENT", "A maximum of 100 permissions can be tested in one call.")
    return policies.allowed(call.google.permissions, asked)


@ROUTES.on("POST", "/projects/{project}:getIamPolicy", "resourcemanager.projects.getIamPolicy", reads=True)
def get_policy(call: Call) -> dict[str, Any]:
    return policies.get(call.google, f"projects/{call.project}")


@ROUTES.on("POST", "/projects/{project}:setIamPolicy", "resourcemanager.projects.setIamPolicy")
def set_policy(call: Call) -> dict[str, Any]:
    return policies.put(call.google, f"projects/{call.project}", call.body["policy"])


@IAM.on("POST", "/serviceAccounts/{account}:testIamPermissions", reads=True)
def test_permissions_of_account(call: Call) -> dict[str, Any]:
    """What a test has put under `projects/P/serviceAccounts/EMAIL permissions`, beside what the project grants."""
    name = f"projects/{call.project}/serviceAccounts/{call.parts['account']} permissions"
    granted = set(call.google.resources.get(name, {}).get("granted", ()))
    held = None if call.google.permissions is None else call.google.permissions | granted
    return policies.allowed(held, call.body.get("permissions", []))
