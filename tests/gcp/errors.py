"""Google's errors, as its REST APIs write them."""

from __future__ import annotations

from typing import Any

# https://cloud.google.com/apis/design/errors: google.rpc.Code to HTTP.
CODES = {
    "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "ALREADY_EXISTS": 409, "ABORTED": 409, "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499, "INTERNAL": 500, "UNIMPLEMENTED": 501, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
}  # fmt: skip
NUMBERS = {
    "CANCELLED": 1, "UNKNOWN": 2, "INVALID_ARGUMENT": 3, "DEADLINE_EXCEEDED": 4, "NOT_FOUND": 5, "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7, "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9, "ABORTED": 10, "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12, "INTERNAL": 13, "UNAVAILABLE": 14, "UNAUTHENTICATED": 16,
}  # fmt: skip

# The `reason` of the older form of errors, which Compute Engine and Cloud Storage still send.
LEGACY = {
    "INVALID_ARGUMENT": "invalid", "FAILED_PRECONDITION": "failedPrecondition", "UNAUTHENTICATED": "authError",
    "PERMISSION_DENIED": "forbidden", "NOT_FOUND": "notFound", "ALREADY_EXISTS": "alreadyExists",
    "ABORTED": "conflict", "RESOURCE_EXHAUSTED": "rateLimitExceeded", "INTERNAL": "backendError",
    "UNAVAILABLE": "backendError", "UNIMPLEMENTED": "notImplemented", "DEADLINE_EXCEEDED": "backendError",
}  # fmt: skip


class GoogleError(Exception):
    """A refusal.

    status: one of google.rpc.Code ("FAILED_PRECONDITION").
    reason: of an ErrorInfo in the details ("CLUSTER_ALREADY_HAS_OPERATION"), none where empty.
    legacy: the reason of the older form ("resourceInUseByAnotherResource").
    code: the HTTP status, where it is not the usual one of that status.
    leaves: the status of a cluster or node pool whose operation ends with it ("RUNNING_WITH_ERROR" is the other one).
    """

    def __init__(
        self,
        status: str,
        message: str,
        *,
        reason: str = "",
        domain: str = "googleapis.com",
        metadata: dict[str, str] | None = None,
        details: tuple[dict[str, Any], ...] = (),
        legacy: str = "",
        code: int = 0,
        leaves: str = "ERROR",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or CODES[status]
        self.legacy = legacy or LEGACY.get(status, "backendError")
        self.reason = reason
        self.leaves = leaves
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason, "domain": domain, "metadata": metadata or {},
        }  # fmt: skip
        self.details = ((info,) if reason else ()) + details

    def as_json(self) -> dict[str, Any]:
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "errors": [{"message": self.message, "domain": "global", "reason": self.legacy}],
            "status": self.status,
        }
        if self.details:
            error["details"] = list(self.details)
        return {"error": error}

    def as_status(self) -> dict[str, Any]:
        """As google.rpc.Status, which a failed operation carries."""
        return {"code": NUMBERS[self.status], "message": self.message, "details": list(self.details)}


def invalid(message: str, legacy: str = "invalid") -> GoogleError:
    return GoogleError("INVALID_ARGUMENT", message, legacy=legacy)


def service_disabled(service: str, title: str, project: str, number: str) -> GoogleError:
    url = f"https://console.developers.google.com/apis/api/{service}/overview?project={project}"
    return GoogleError(
        "PERMISSION_DENIED",
        f"{title} has not been used in project {project} before or it is disabled. Enable it by visiting {url} then "
        "retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and "
        "retry.",
        reason="SERVICE_DISABLED",
        metadata={
            "service": service, "serviceTitle": title, "consumer": f"projects/{number}", "activationUrl": url,
            "containerInfo": number,
        },
        details=(
            {
                "@type": "type.googleapis.com/google.rpc.Help",
                "links": [{"description": "Google developers console API activation", "url": url}],
            },
        ),
        legacy="accessNotConfigured",
    )  # fmt: skip


def permission_denied(permission: str, resource: str, service: str) -> GoogleError:
    name = f"//{service}/{resource}"
    return GoogleError(
        "PERMISSION_DENIED",
        DENIED.get(service, DENIED[""]).format(permission=permission, resource=resource, name=name),
        reason="IAM_PERMISSION_DENIED",
        domain="iam.googleapis.com",
        metadata={"permission": permission, "resource": resource},
    )


DENIED = {
    "": "Permission '{permission}' denied on resource '{name}' (or it may not exist).",
    "compute.googleapis.com": "Required '{permission}' permission for '{resource}'",
    "container.googleapis.com": 'Required "{permission}" permission(s) for "{resource}".',
}


def unknown_project(service: str, project: str) -> GoogleError:
    """Each API has its own way to say that it does not tell whether there is such a project."""
    if service == "compute.googleapis.com":
        return GoogleError("NOT_FOUND", f"The resource 'projects/{project}' was not found")
    if service == "cloudresourcemanager.googleapis.com":
        return GoogleError("PERMISSION_DENIED", "The caller does not have permission")
    if service == "storage.googleapis.com":
        return GoogleError("INVALID_ARGUMENT", f"Unknown project id: {project}")
    return GoogleError(
        "PERMISSION_DENIED",
        f"Permission denied on resource project {project}.",
        reason="CONSUMER_INVALID",
        metadata={"service": service, "consumer": f"projects/{project}"},
    )
