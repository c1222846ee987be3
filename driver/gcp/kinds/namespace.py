"""The Kubernetes namespace of the runs. One that exists without our mark is used and never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kubernetes import client

from driver.errors import DriverError
from driver.gcp import kubeconfig
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kubernetes import answers, api_client, explained
from driver.gcp.resource import Command, Found, Permissions, Resource

if TYPE_CHECKING:
    from driver.gcp.cloud import Cloud
    from driver.gcp.site import Site
    from driver.gcp.waiting import Waiting


class Namespace(Resource):
    """One that is there without our mark is as good: Found(ours=False) without differences."""

    kind = "namespace"
    shared = True
    inside = Cluster.kind
    permissions = Permissions(
        describe=("container.namespaces.get", "container.namespaces.list"),
        create=("container.namespaces.create",),
        delete=("container.namespaces.delete",),
    )

    def __init__(self, site: Site, cluster: Cluster) -> None:
        super().__init__(site, site.namespace)
        self._cluster = cluster

    def wanted(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def describe(self, cloud: Cloud) -> Found | None:
        api = self._api(cloud)
        if api is None:
            return None
        namespace = self._read(api)
        if namespace is None:
            return None
        leaving = namespace.status is not None and namespace.status.phase == "Terminating"
        return Found(ours=self.is_ours(namespace.metadata.labels or {}), unfinished="Terminating" if leaving else "")

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        api = self._api(cloud)
        if api is None:
            raise DriverError(f"{self._cluster.key} is not there.", rule="A namespace comes after its cluster.")
        waiting.tell(f"creating namespace {self.name}")
        body = client.V1Namespace(metadata=client.V1ObjectMeta(name=self.name, labels=self.labels))
        with explained(f"Creating the namespace {self.name}", "container.namespaces.create"):
            api.create_namespace(body)

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        api = self._api(cloud)
        if api is None:  # gone with its cluster
            return
        with explained(f"Deleting the namespace {self.name}", "container.namespaces.delete"):
            try:
                api.delete_namespace(self.name)
            except client.ApiException as error:
                if error.status != 404:
                    raise
        waiting.until(lambda: self._read(api) is None, f"deleting namespace {self.name}")

    def gcloud(self) -> Sequence[Command]:
        context = kubeconfig.name_of(self.site)
        kubectl = ("kubectl", f"--context={context}")
        marks = tuple(f"{key}={value}" for key, value in self.labels.items())
        if self.name == "default":
            return (kubeconfig.command(self.site),)
        return (
            kubeconfig.command(self.site),
            Command((*kubectl, "create", "namespace", self.name)),
            Command((*kubectl, "label", "namespace", self.name, *marks)),
        )

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Resource]:
        """In a cluster of others, also under earlier names. Our own cluster takes its namespaces along."""
        cluster = Cluster(site)
        here = cls(site, cluster)
        api = here._api(cloud) if cluster.existing else None
        if api is None:
            return ()
        with explained("Looking for namespaces", "container.namespaces.list"):
            items = api.list_namespace().items
        names = [one.metadata.name for one in items if here.is_ours(one.metadata.labels or {})]
        return tuple(cls(site.model_copy(update={"namespace": name}), cluster) for name in names)

    def _api(self, cloud: Cloud) -> Any:
        """None where there is no cluster that answers, or one of others that is not asked."""
        found = self._cluster.describe(cloud)
        if found is None or not (found.ours or self._cluster.existing):
            return None
        return client.CoreV1Api(api_client(cloud, found.details)) if answers(found) else None

    def _read(self, api: Any) -> Any:
        with explained(f"Looking for the namespace {self.name}", "container.namespaces.get"):
            try:
                return api.read_namespace(self.name)
            except client.ApiException as error:
                if error.status == 404:
                    return None
                raise
