"""The Kubernetes API of a GKE cluster, with the caller's Google token: no kubeconfig and no plugin needed."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

from google.api_core import exceptions
from google.auth.transport.requests import Request
from kubernetes import client
from urllib3.exceptions import HTTPError

from driver.errors import DriverError

if TYPE_CHECKING:
    from driver.gcp.cloud import Cloud
    from driver.gcp.resource import Found


class NotReachedError(DriverError):
    """The API did not answer, or the connection broke: what became of the call is not known."""


def api_client(cloud: Cloud, details: Mapping[str, Any]) -> client.ApiClient:
    """details: of the cluster's `Found`: endpoint and ca. Every call has a token that is still good."""
    configuration = client.Configuration(host=url(details["endpoint"]))
    if details["ca"]:
        configuration.ca_cert_data = base64.b64decode(details["ca"]).decode()

    def refresh(to: client.Configuration) -> None:
        bearer = token(cloud)
        if bearer:
            to.api_key["authorization"] = f"Bearer {bearer}"

    refresh(configuration)  # the client asks the hook only where there is a key already
    configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]  # its None has no wider type
    return client.ApiClient(configuration)


def answers(found: Found | None) -> TypeGuard[Found]:
    """Whether what was found of a cluster has a Kubernetes API: not before it is made, nor when it is being deleted."""
    if found is None or found.broken or found.unfinished in ("PROVISIONING", "STOPPING"):
        return False
    return bool(found.details.get("endpoint"))


def url(endpoint: str) -> str:
    """GKE gives an address without a scheme."""
    return endpoint if "://" in endpoint else f"https://{endpoint}"


@contextmanager
def explained(doing: str, permission: str) -> Iterator[None]:
    """Turns what goes wrong with the Kubernetes API into a DriverError, and what passes (409, 429, 5xx) into the
    Google error of that status, so that it is tried again. A 404 goes through unchanged: what it means is the caller's
    to say.

    doing: "creating the namespace x".
    permission: what IAM calls the right to do it.
    """
    try:
        yield
    except client.ApiException as error:
        if error.status == 404:
            raise
        if error.status in (409, 429) or error.status >= 500:
            raise exceptions.from_http_status(error.status, f"{doing}: {error.reason}") from error
        raise _refused(error, doing, permission) from None
    except HTTPError as error:
        raise NotReachedError(
            f"{doing}: the cluster's Kubernetes API cannot be reached: {error}.",
            rule="Its endpoint must be open to this machine; a private one, or one with authorized networks, is not.",
            fix="run the driver from inside the network, or add this machine's address to the authorized networks",
        ) from None


def _refused(error: Any, doing: str, permission: str) -> DriverError:
    said = f"{error.status} {error.reason}"
    if error.status in (401, 403):
        return DriverError(
            f"{doing}: the cluster's Kubernetes API refused: {said}.",
            rule=f"It needs {permission}, from IAM or from RBAC in the cluster.",
            fix="have roles/container.developer granted (gcloud projects add-iam-policy-binding PROJECT "
            "--member=user:YOU --role=roles/container.developer)",
        )
    return DriverError(f"{doing}: the cluster's Kubernetes API answered {said}: {error.body}")


def token(cloud: Cloud) -> str:
    """The caller's Google token, good for some minutes at least; empty without credentials."""
    credentials = cloud.credentials
    with cloud.lock:
        if not credentials.valid:
            credentials.refresh(Request())
        return credentials.token or ""
