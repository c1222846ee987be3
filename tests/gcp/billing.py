"""Cloud Billing, as far as a project's own account goes. Off unless a test turns it on, as in most projects."""

from __future__ import annotations

from typing import Any

from tests.gcp.routing import Call, Routes

ROUTES = Routes("cloudbilling.googleapis.com", "Cloud Billing API", "/v1/projects/{project}")


@ROUTES.on("GET", "/billingInfo", "resourcemanager.projects.get")
def get(call: Call) -> dict[str, Any]:
    name = f"projects/{call.project}/billingInfo"
    return {"name": name, "projectId": call.project} | call.google.resources.get(name, {"billingEnabled": True})
