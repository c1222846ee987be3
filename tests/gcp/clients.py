"""Google's unmodified client libraries, all pointed at the stand-in."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from google.cloud import (
    artifactregistry_v1,
    cloudquotas_v1,
    compute_v1,
    container_v1,
    resourcemanager_v3,
    service_usage_v1,
)
from google.cloud.devtools import cloudbuild_v1
from google.cloud.storage import Client as StorageClient

from tests.gcp.google import Google

PROJECT = "demo-project"
ZONE = f"projects/{PROJECT}/locations/us-east5-b"
REGION = f"projects/{PROJECT}/locations/us-east5"
CLUSTER = f"{ZONE}/clusters/demo"
DRANET = {"cloud.google.com/gke-networking-dra-driver": "true"}


class Clients:
    """The clients, and the shortest way to what most tests begin with. A test gives what it is about."""

    def __init__(self, google: Google, endpoint: str = "") -> None:
        """endpoint: where it is not the stand-in's usual one; {service} stands for the API's name."""
        self._credentials = google.credentials()
        self._endpoint = endpoint or google.endpoint

    def _options(self, service: str) -> dict[str, Any]:
        endpoint = self._endpoint.replace("{service}", service)
        return {"credentials": self._credentials, "client_options": {"api_endpoint": endpoint}}

    def _rest(self, service: str) -> dict[str, Any]:
        return self._options(service) | {"transport": "rest"}

    @cached_property
    def clusters(self) -> container_v1.ClusterManagerClient:
        return container_v1.ClusterManagerClient(**self._rest("container"))

    @cached_property
    def networks(self) -> compute_v1.NetworksClient:
        return compute_v1.NetworksClient(**self._rest("compute"))

    @cached_property
    def subnetworks(self) -> compute_v1.SubnetworksClient:
        return compute_v1.SubnetworksClient(**self._rest("compute"))

    @cached_property
    def firewalls(self) -> compute_v1.FirewallsClient:
        return compute_v1.FirewallsClient(**self._rest("compute"))

    @cached_property
    def global_operations(self) -> compute_v1.GlobalOperationsClient:
        return compute_v1.GlobalOperationsClient(**self._rest("compute"))

    @cached_property
    def region_operations(self) -> compute_v1.RegionOperationsClient:
        return compute_v1.RegionOperationsClient(**self._rest("compute"))

    @cached_property
    def regions(self) -> compute_v1.RegionsClient:
        return compute_v1.RegionsClient(**self._rest("compute"))

    @cached_property
    def compute_projects(self) -> compute_v1.ProjectsClient:
        return compute_v1.ProjectsClient(**self._rest("compute"))

    @cached_property
    def machine_types(self) -> compute_v1.MachineTypesClient:
        return compute_v1.MachineTypesClient(**self._rest("compute"))

    @cached_property
    def reservations(self) -> compute_v1.ReservationsClient:
        return compute_v1.ReservationsClient(**self._rest("compute"))

    @cached_property
    def storage(self) -> StorageClient:
        return StorageClient(project=PROJECT, **self._options("storage"))

    @cached_property
    def services(self) -> service_usage_v1.ServiceUsageClient:
        return service_usage_v1.ServiceUsageClient(**self._rest("serviceusage"))

    @cached_property
    def projects(self) -> resourcemanager_v3.ProjectsClient:
        return resourcemanager_v3.ProjectsClient(**self._rest("cloudresourcemanager"))

    @cached_property
    def repositories(self) -> artifactregistry_v1.ArtifactRegistryClient:
        return artifactregistry_v1.ArtifactRegistryClient(**self._rest("artifactregistry"))

    @cached_property
    def builds(self) -> cloudbuild_v1.CloudBuildClient:
        return cloudbuild_v1.CloudBuildClient(**self._rest("cloudbuild"))

    @cached_property
    def quotas(self) -> cloudquotas_v1.CloudQuotasClient:
        return cloudquotas_v1.CloudQuotasClient(**self._rest("cloudquotas"))

    def operation(self, name: str, place: str = ZONE) -> container_v1.Operation:
        return self.clusters.get_operation(name=f"{place}/operations/{name}")

    def make_cluster(self, place: str = ZONE, **fields: Any) -> container_v1.Operation:
        wanted: dict[str, Any] = {
            "name": "demo",
            "initial_node_count": 1,
            "node_config": {"machine_type": "n1-standard-16"},
            "network_config": {"datapath_provider": "ADVANCED_DATAPATH"},
            "workload_identity_config": {"workload_pool": f"{PROJECT}.svc.id.goog"},
            "addons_config": {
                "gcs_fuse_csi_driver_config": {"enabled": True},
                "ray_operator_config": {"enabled": True},
            },
        }
        merged = {key: value for key, value in (wanted | fields).items() if value is not None}
        return self.clusters.create_cluster(parent=place, cluster=container_v1.Cluster(merged))

    def make_pool(self, name: str = "v6e-16-0", **fields: Any) -> container_v1.Operation:
        wanted: dict[str, Any] = {
            "name": name,
            "initial_node_count": 4,
            "placement_policy": {"tpu_topology": "4x4"},
            "config": {"machine_type": "ct6e-standard-4t", "labels": DRANET},
        }
        return self.clusters.create_node_pool(parent=CLUSTER, node_pool=container_v1.NodePool(wanted | fields))

    def make_network(self, name: str = "net-1", mtu: int = 8896) -> compute_v1.Operation:
        network = compute_v1.Network(name=name, mtu=mtu, auto_create_subnetworks=False)
        operation = self.networks.insert_unary(project=PROJECT, network_resource=network)
        return self.global_operations.wait(project=PROJECT, operation=operation.name)

    def make_subnet(self, name: str = "sub-1", network: str = "net-1", place: str = "10.50.0.0/16") -> Any:
        link = f"projects/{PROJECT}/global/networks/{network}" if network else ""
        subnet = compute_v1.Subnetwork(name=name, network=link, ip_cidr_range=place)
        operation = self.subnetworks.insert_unary(project=PROJECT, region="us-east5", subnetwork_resource=subnet)
        return self.region_operations.wait(project=PROJECT, region="us-east5", operation=operation.name)

    def make_firewall(self, name: str = "fire-1", network: str = "net-1") -> compute_v1.Operation:
        rule = compute_v1.Firewall(
            name=name,
            network=f"global/networks/{network}",
            allowed=[compute_v1.Allowed(I_p_protocol="all")],
            source_ranges=["10.50.0.0/16"],
        )
        operation = self.firewalls.insert_unary(project=PROJECT, firewall_resource=rule)
        return self.global_operations.wait(project=PROJECT, operation=operation.name)
