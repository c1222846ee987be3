"""Google's client libraries for one project, all with the same credentials and endpoint.

Every client speaks REST: it passes through HTTPS proxies, and one override moves all of them to another endpoint.
"""

from __future__ import annotations

import importlib
import re
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import google.auth
import requests
from google.api_core import exceptions, retry
from google.auth.credentials import Credentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.auth.transport.requests import AuthorizedSession, Request
from google.oauth2.credentials import Credentials as UserCredentials

from driver.errors import DriverError
from driver.gcp.endpoint import check as check_endpoint

if TYPE_CHECKING:
    # compute's classes alone take seconds to import: the properties below do it when they are asked for.
    from google.cloud import compute_v1 as compute
    from google.cloud.artifactregistry_v1 import ArtifactRegistryClient
    from google.cloud.cloudquotas_v1 import CloudQuotasClient
    from google.cloud.container_v1 import ClusterManagerClient
    from google.cloud.devtools.cloudbuild_v1 import CloudBuildClient
    from google.cloud.resourcemanager_v3 import ProjectsClient
    from google.cloud.service_usage_v1 import ServiceUsageClient
    from google.cloud.storage import Client as StorageClient

SCOPES = ("https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email", "openid")

READS = retry.Retry(
    predicate=retry.if_exception_type(
        exceptions.TooManyRequests,
        exceptions.InternalServerError,
        exceptions.BadGateway,
        exceptions.ServiceUnavailable,
        exceptions.GatewayTimeout,
        requests.exceptions.ConnectionError,
        requests.exceptions.ChunkedEncodingError,
        requests.exceptions.Timeout,
    ),
    initial=0.5,
    maximum=10,
    timeout=60,
)
"""For calls that change nothing: asked again after what passes by itself, for a minute."""


def found_or_none[T](get: Callable[[], T]) -> T | None:
    """What the call gets; None where Google says that it is not there."""
    try:
        return get()
    except exceptions.NotFound:
        return None


def connect(project: str, endpoint: str = "") -> Cloud:
    """The cloud as the Application Default Credentials see it.

    endpoint: as for Cloud.
    Raises a DriverError when there are no credentials, or the endpoint is not one.
    """
    if endpoint:
        check_endpoint(endpoint)
    return Cloud(project, endpoint, _default_credentials(project))


class _Once[T]:
    """A property that is made at its first use and then kept, also when threads ask for it at once."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, cloud: None, owner: type) -> _Once[T]: ...

    @overload
    def __get__(self, cloud: Cloud, owner: type) -> T: ...

    def __get__(self, cloud: Cloud | None, owner: type) -> T | _Once[T]:
        if cloud is None:
            return self
        with cloud.lock:
            if self._name not in cloud.__dict__:
                # Python looks into __dict__ first from now on, because this class has no __set__.
                cloud.__dict__[self._name] = self._make(cloud)
        made: T = cloud.__dict__[self._name]
        return made


class Cloud:
    """One project of Google Cloud. Its clients are made when they are first used, and may be used by many threads.

    endpoint: where all APIs are instead of Google's own addresses; `{service}` in it is replaced by the API's name
    (container, compute, storage, ...), as Private Service Connect needs it. Empty for Google's own.
    """

    def __init__(self, project: str, endpoint: str = "", credentials: Credentials | None = None) -> None:
        """credentials: None for the Application Default Credentials, looked for at the first call."""
        self.project = project
        self.endpoint = endpoint.rstrip("/")
        self.lock = threading.RLock()
        if credentials is not None:
            self.__dict__["credentials"] = credentials

    def url(self, service: str) -> str:
        """Where the API of this name is, without a slash at the end: "https://storage.googleapis.com"."""
        return self.endpoint.replace("{service}", service) or f"https://{service}.googleapis.com"

    @_Once
    def credentials(self) -> Credentials:
        """Raises a DriverError where there are none."""
        return _default_credentials(self.project)

    @_Once
    def session(self) -> AuthorizedSession:
        """For the few calls that no client library has."""
        return AuthorizedSession(self.credentials)

    @_Once
    def project_number(self) -> int:
        """Raises Google's error where the project is not there or not ours to see."""
        name = self.projects.get_project(name=f"projects/{self.project}", retry=READS).name
        return int(name.removeprefix("projects/"))

    @_Once
    def account(self) -> str:
        """The caller's email address; empty where the credentials do not tell."""
        return _account(self)

    @_Once
    def clusters(self) -> ClusterManagerClient:
        return self._client("container_v1", "ClusterManagerClient", "container")

    @_Once
    def networks(self) -> compute.NetworksClient:
        return self._client("compute_v1", "NetworksClient", "compute")

    @_Once
    def subnetworks(self) -> compute.SubnetworksClient:
        return self._client("compute_v1", "SubnetworksClient", "compute")

    @_Once
    def firewalls(self) -> compute.FirewallsClient:
        return self._client("compute_v1", "FirewallsClient", "compute")

    @_Once
    def regions(self) -> compute.RegionsClient:
        return self._client("compute_v1", "RegionsClient", "compute")

    @_Once
    def zones(self) -> compute.ZonesClient:
        return self._client("compute_v1", "ZonesClient", "compute")

    @_Once
    def machine_types(self) -> compute.MachineTypesClient:
        return self._client("compute_v1", "MachineTypesClient", "compute")

    @_Once
    def reservations(self) -> compute.ReservationsClient:
        return self._client("compute_v1", "ReservationsClient", "compute")

    @_Once
    def resource_policies(self) -> compute.ResourcePoliciesClient:
        return self._client("compute_v1", "ResourcePoliciesClient", "compute")

    @_Once
    def compute_projects(self) -> compute.ProjectsClient:
        """Compute's own view of the project: its quotas that belong to no region."""
        return self._client("compute_v1", "ProjectsClient", "compute")

    @_Once
    def global_operations(self) -> compute.GlobalOperationsClient:
        return self._client("compute_v1", "GlobalOperationsClient", "compute")

    @_Once
    def region_operations(self) -> compute.RegionOperationsClient:
        return self._client("compute_v1", "RegionOperationsClient", "compute")

    @_Once
    def zone_operations(self) -> compute.ZoneOperationsClient:
        return self._client("compute_v1", "ZoneOperationsClient", "compute")

    @_Once
    def storage(self) -> StorageClient:
        from google.cloud.storage import Client

        options = {"api_endpoint": self.url("storage")}
        return Client(self.project, credentials=self.credentials, client_options=options)

    @_Once
    def services(self) -> ServiceUsageClient:
        return self._client("service_usage_v1", "ServiceUsageClient", "serviceusage")

    @_Once
    def projects(self) -> ProjectsClient:
        return self._client("resourcemanager_v3", "ProjectsClient", "cloudresourcemanager")

    @_Once
    def repositories(self) -> ArtifactRegistryClient:
        return self._client("artifactregistry_v1", "ArtifactRegistryClient", "artifactregistry")

    @_Once
    def builds(self) -> CloudBuildClient:
        return self._client("devtools.cloudbuild_v1", "CloudBuildClient", "cloudbuild")

    @_Once
    def quotas(self) -> CloudQuotasClient:
        return self._client("cloudquotas_v1", "CloudQuotasClient", "cloudquotas")

    def _client(self, module: str, name: str, service: str) -> Any:
        kind = getattr(importlib.import_module(f"google.cloud.{module}"), name)
        options = {"api_endpoint": self.url(service)} if self.endpoint else {}
        return kind(credentials=self.credentials, transport="rest", client_options=options)


def _default_credentials(project: str) -> Credentials:
    try:
        with warnings.catch_warnings():
            # google.auth warns about users' credentials without a quota project; ours get one below.
            warnings.filterwarnings("ignore", message=".*quota project.*")
            credentials, _ = google.auth.default(scopes=SCOPES)
    except (DefaultCredentialsError, OSError, ValueError) as error:  # the latter of a file that cannot be read
        first = error.args[0] if isinstance(error, DefaultCredentialsError) else error
        said = re.sub(r"\s+", " ", str(first)).split(" To set up ")[0].rstrip(".")
        raise DriverError(
            f"There are no Google Cloud credentials: {said}.",
            rule="The driver uses the Application Default Credentials.",
            fix="gcloud auth application-default login "
            "(or set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account)",
        ) from None
    # Users' own calls are counted against a project; without one, they go to gcloud's own, which has no such APIs.
    if isinstance(credentials, UserCredentials):
        quota_project = credentials.quota_project_id or project
        return credentials.with_quota_project(quota_project)
    return credentials


def _account(cloud: Cloud) -> str:
    credentials: Any = cloud.credentials
    try:
        if getattr(credentials, "service_account_email", None) == "default":
            # On a machine of Google Cloud the name is known after the first token.
            credentials.refresh(Request())
        known = getattr(credentials, "service_account_email", None) or getattr(credentials, "account", None)
        if known:
            return str(known)
        answer = cloud.session.get(f"{cloud.url('openidconnect')}/v1/userinfo", timeout=10)
        return str(answer.json().get("email", "")) if answer.ok else ""
    except (GoogleAuthError, requests.exceptions.RequestException):
        # Messages then name no account; the calls that need the credentials say what is wrong with them.
        return ""
