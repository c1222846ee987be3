"""The GKE cluster: Standard with a pool for all but the slices, or Autopilot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.api_core.exceptions import NotFound
from google.cloud.container_v1 import types

from driver.gcp import dranet, gke, versions
from driver.gcp.cloud import READS, found_or_none
from driver.gcp.kinds.node_pool import DEFAULT_POOL
from driver.gcp.resource import SPEC_MARK, Command, Difference, Found, Permissions, Resource, pairs

if TYPE_CHECKING:
    from driver.gcp.cloud import Cloud
    from driver.gcp.site import Site
    from driver.gcp.waiting import Waiting

# What gcloud gives nodes by default ("gke-default"): pull images, write logs, metrics and traces. Pods get their rights
# through Workload Identity and not from these, so the head's machines need no cloud-platform.
SCOPES = tuple(
    f"https://www.googleapis.com/auth/{scope}"
    for scope in (
        "devstorage.read_only", "logging.write", "monitoring", "service.management.readonly", "servicecontrol",
        "trace.append",
    )
)  # fmt: skip

_Status = types.Cluster.Status
_UNSETTLED = {_Status.PROVISIONING, _Status.STOPPING}
_UNFINISHED = _UNSETTLED | {_Status.RECONCILING}
_GKE_METADATA = types.WorkloadMetadataConfig.Mode.GKE_METADATA
_ADVANCED = types.DatapathProvider.ADVANCED_DATAPATH

_RAY = "Ray operator add-on"
_FUSE = "GCS FUSE CSI driver add-on"
_WORKLOAD_POOL = "workload pool"
_PROMETHEUS = "managed Prometheus"
_CHANNEL = "release channel"
_NODES = "nodes of the default pool"


class Cluster(Resource):
    """Of an existing cluster only what a run needs is checked; of our own, all that the site file says."""

    kind = "GKE cluster"
    update_flag = "--update-cluster"
    permissions = Permissions(
        describe=("container.clusters.get", "container.clusters.list", "container.operations.list"),
        create=("container.clusters.create", "container.operations.get", "iam.serviceAccounts.actAs"),
        update=("container.clusters.update", "container.operations.get"),
        delete=("container.clusters.delete", "container.operations.get"),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site, site.cluster.name, existing=site.cluster.existing)

    @property
    def autopilot(self) -> bool:
        return self.site.cluster.mode == "autopilot"

    def wanted(self) -> Mapping[str, Any]:
        site = self.site
        common = {
            "mode": site.cluster.mode,
            "location": site.location,
            "releaseChannel": site.cluster.release_channel,
            "version": site.cluster.version,
            "network": site.cluster.network,
            "subnetwork": site.cluster.subnetwork,
            "addons": [_RAY, _FUSE],
            "workloadPool": self.site.workload_pool,
            "managedPrometheus": True,
        }
        return common if self.autopilot else {**common, "defaultPool": site.cluster.default_pool.model_dump()}

    def describe(self, cloud: Cloud) -> Found | None:
        cluster = found_or_none(lambda: cloud.clusters.get_cluster(name=gke.cluster_path(self.site), retry=READS))
        if cluster is None:
            return self._elsewhere(cloud) if self.existing else None
        return Found(
            ours=self.is_ours(dict(cluster.resource_labels)),
            differences=() if cluster.status in _UNSETTLED else tuple(self._differences(cluster)),
            unfinished=cluster.status.name if cluster.status in _UNFINISHED else "",
            broken=f"ERROR: {_why(cluster)}" if cluster.status == _Status.ERROR else "",
            details=_details(cluster),
        )

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        operation = cloud.clusters.create_cluster(parent=gke.location_path(self.site), cluster=self._spec(cloud))
        gke.wait(cloud, self.site, operation, waiting, f"creating cluster {self.name}")

    def update(self, cloud: Cloud, found: Found, waiting: Waiting) -> None:
        """GKE takes one change per call, and the next when that is done."""
        for difference in found.differences:
            if difference.in_place:
                operation = self._change(cloud, difference.field)
                gke.wait(cloud, self.site, operation, waiting, f"cluster {self.name}: {difference.field}")
        if found.ours and not self.existing:
            self._mark_again(cloud, waiting)

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        try:
            operation = cloud.clusters.delete_cluster(name=gke.cluster_path(self.site))
        except NotFound:
            return
        gke.wait(cloud, self.site, operation, waiting, f"deleting cluster {self.name}")

    def await_ready(self, cloud: Cloud, waiting: Waiting) -> None:
        gke.await_idle(cloud, self.site, waiting)
        super().await_ready(cloud, waiting)

    def gcloud(self) -> Sequence[Command]:
        site = self.site
        cluster = site.cluster
        words = ["gcloud", "container", "clusters", "create-auto" if self.autopilot else "create", self.name]
        words += [f"--project={site.project}", f"--location={site.location}"]
        comments = []
        if self.autopilot:
            words += ["--enable-ray-operator"]
            comments.append("Without the tutorial's --machine-type: Autopilot chooses its machines itself.")
        else:
            pool = cluster.default_pool
            words += ["--addons=RayOperator,GcsFuseCsiDriver", f"--machine-type={pool.machine_type}"]
            words += [f"--num-nodes={pool.nodes}", "--enable-dataplane-v2", "--enable-ip-alias"]
            words += [f"--workload-pool={self.site.workload_pool}", "--workload-metadata=GKE_METADATA"]
            words += ["--enable-managed-prometheus"]
        words += [f"--release-channel={cluster.release_channel or 'None'}"]
        minimum = dranet.minimum_version(site)
        if cluster.version:
            words += [f"--cluster-version={cluster.version}"]
        elif minimum:
            comments.append(
                f"Without --cluster-version it is the default version. If that is older than {minimum}, which DRANET "
                f"needs, add --cluster-version={minimum.numbers[0]}.{minimum.numbers[1]} or newer."
            )
        words += [f"--network={cluster.network}"]
        words += [f"--subnetwork={cluster.subnetwork}"] if cluster.subnetwork else []
        words += [f"--labels={pairs(self.labels)}"]
        return (Command(tuple(words), "\n".join(comments)),)

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Resource]:
        cluster = cls(site)
        found = cluster.describe(cloud)
        return (cluster,) if found and found.ours else ()

    def _spec(self, cloud: Cloud) -> types.Cluster:
        site = self.site
        config = cloud.clusters.get_server_config(name=gke.location_path(site), retry=READS)
        channel = site.cluster.release_channel
        version = versions.offer(config, channel).resolve(site.cluster.version, dranet.minimum_version(site))
        spec = types.Cluster(
            name=self.name,
            initial_cluster_version=str(version),
            network=site.cluster.network,
            subnetwork=site.cluster.subnetwork,
            ip_allocation_policy=types.IPAllocationPolicy(use_ip_aliases=True),
            addons_config=types.AddonsConfig(ray_operator_config=types.RayOperatorConfig(enabled=True)),
            resource_labels=self.labels,
        )
        if channel:
            spec.release_channel = types.ReleaseChannel(channel=channel.upper())
        if self.autopilot:
            spec.autopilot = types.Autopilot(enabled=True)
            return spec
        spec.addons_config.gcs_fuse_csi_driver_config = types.GcsFuseCsiDriverConfig(enabled=True)
        spec.network_config = types.NetworkConfig(datapath_provider=_ADVANCED)
        spec.workload_identity_config = types.WorkloadIdentityConfig(workload_pool=self.site.workload_pool)
        spec.monitoring_config = _with_prometheus()
        spec.locations = [] if site.regional else [site.zone]
        spec.node_pools = [
            types.NodePool(
                name=DEFAULT_POOL,
                initial_node_count=site.cluster.default_pool.nodes,
                config=types.NodeConfig(
                    machine_type=site.cluster.default_pool.machine_type,
                    oauth_scopes=SCOPES,
                    workload_metadata_config=types.WorkloadMetadataConfig(mode=_GKE_METADATA),
                ),
            )
        ]
        return spec

    def _differences(self, cluster: types.Cluster) -> Iterator[Difference]:
        site = self.site
        if cluster.status == _Status.DEGRADED:
            yield Difference("status", f"DEGRADED: {_why(cluster)}".removesuffix(": "), "RUNNING")
        mode = "autopilot" if cluster.autopilot.enabled else "standard"
        if mode != site.cluster.mode:
            yield Difference("mode", mode, site.cluster.mode)
        if not cluster.autopilot.enabled and cluster.network_config.datapath_provider != _ADVANCED:
            yield Difference("Dataplane V2", "off", "on")
        if not cluster.ip_allocation_policy.use_ip_aliases:
            yield Difference("VPC-native", "no", "yes")
        yield from self._version_differences(cluster)
        if not cluster.addons_config.ray_operator_config.enabled:
            yield Difference(_RAY, "off", "on", in_place=True)
        if not cluster.autopilot.enabled:
            yield from self._standard_differences(cluster)
        yield from self._place_differences(cluster)
        if not self.existing:
            yield from self._own_differences(cluster)

    def _version_differences(self, cluster: types.Cluster) -> Iterator[Difference]:
        minimum = dranet.minimum_version(self.site)
        wish = self.site.cluster.version
        if not cluster.current_master_version:  # while it is being made
            return
        found = versions.parse(cluster.current_master_version)
        if minimum and found < minimum:
            yield Difference("version", str(found), f"{minimum} or newer")
        elif wish and found < versions.parse(wish):
            yield Difference("version", str(found), wish)

    def _standard_differences(self, cluster: types.Cluster) -> Iterator[Difference]:
        pool = cluster.workload_identity_config.workload_pool
        if pool != self.site.workload_pool:
            yield Difference(_WORKLOAD_POOL, pool or "none", self.site.workload_pool, in_place=True)
        if not cluster.addons_config.gcs_fuse_csi_driver_config.enabled:  # needs the workload pool, so it comes after
            yield Difference(_FUSE, "off", "on", in_place=True)
        if not cluster.monitoring_config.managed_prometheus_config.enabled:
            yield Difference(_PROMETHEUS, "off", "on", in_place=True)
        # The head and the system's pods run beside the slices, and the head needs the metadata server. To change a pool
        # that others use would make its nodes anew, so that is left to its owner.
        others = [one for one in cluster.node_pools if not one.config.machine_type.startswith(("ct", "tpu"))]
        if not any(one.config.workload_metadata_config.mode == _GKE_METADATA for one in others):
            yield Difference("pool without TPUs that has the GKE metadata server", "none", "one for the Ray head")

    def _place_differences(self, cluster: types.Cluster) -> Iterator[Difference]:
        """Of an existing cluster only what the site file says of it."""
        wish = self.site.cluster
        said = wish.model_fields_set if self.existing else set(type(wish).model_fields)
        for field, found, wanted in (
            ("network", cluster.network, wish.network),
            ("subnetwork", cluster.subnetwork, wish.subnetwork or cluster.subnetwork),
        ):
            if field in said and found.rpartition("/")[2] != wanted.rpartition("/")[2]:
                yield Difference(field, found, wanted)
        channel = cluster.release_channel.channel.name.lower()
        wanted_channel = wish.release_channel or "unspecified"
        if "release_channel" in said and channel != wanted_channel:
            yield Difference(_CHANNEL, channel, wanted_channel, in_place=not self.existing)

    def _own_differences(self, cluster: types.Cluster) -> Iterator[Difference]:
        wish = self.site.cluster
        for pool in cluster.node_pools:
            if pool.name == DEFAULT_POOL and not self.autopilot:
                machine = pool.config.machine_type
                if machine != wish.default_pool.machine_type:
                    yield Difference("machine type of the default pool", machine, wish.default_pool.machine_type)
                if pool.initial_node_count != wish.default_pool.nodes:
                    yield Difference(_NODES, str(pool.initial_node_count), str(wish.default_pool.nodes), in_place=True)

    def _change(self, cloud: Cloud, field: str) -> types.Operation:
        if field == _NODES:
            request = types.SetNodePoolSizeRequest(
                name=gke.node_pool_path(self.site, DEFAULT_POOL), node_count=self.site.cluster.default_pool.nodes
            )
            return cloud.clusters.set_node_pool_size(request=request)
        return cloud.clusters.update_cluster(name=gke.cluster_path(self.site), update=_UPDATES[field](self))

    def _mark_again(self, cloud: Cloud, waiting: Waiting) -> None:
        """With the hash of what it is now."""
        path = gke.cluster_path(self.site)
        cluster = cloud.clusters.get_cluster(name=path, retry=READS)
        if cluster.resource_labels.get(SPEC_MARK) == self.spec_hash:
            return
        request = types.SetLabelsRequest(
            name=path,
            resource_labels={**cluster.resource_labels, **self.labels},
            label_fingerprint=cluster.label_fingerprint,
        )
        operation = cloud.clusters.set_labels(request=request)
        gke.wait(cloud, self.site, operation, waiting, f"cluster {self.name}: labels")

    def _elsewhere(self, cloud: Cloud) -> Found | None:
        """An existing cluster of this name that is not where the site file says."""
        answer = cloud.clusters.list_clusters(parent=f"projects/{self.site.project}/locations/-", retry=READS)
        for cluster in answer.clusters:
            if cluster.name == self.name:
                return Found(ours=False, differences=(Difference("location", cluster.location, self.site.location),))
        return None


def _with_prometheus() -> types.MonitoringConfig:
    return types.MonitoringConfig(managed_prometheus_config=types.ManagedPrometheusConfig(enabled=True))


_UPDATES: Mapping[str, Callable[[Cluster], types.ClusterUpdate]] = {
    _RAY: lambda _: types.ClusterUpdate(
        desired_addons_config=types.AddonsConfig(ray_operator_config=types.RayOperatorConfig(enabled=True))
    ),
    _FUSE: lambda _: types.ClusterUpdate(
        desired_addons_config=types.AddonsConfig(gcs_fuse_csi_driver_config=types.GcsFuseCsiDriverConfig(enabled=True))
    ),
    _WORKLOAD_POOL: lambda cluster: types.ClusterUpdate(
        desired_workload_identity_config=types.WorkloadIdentityConfig(workload_pool=cluster.site.workload_pool)
    ),
    _PROMETHEUS: lambda _: types.ClusterUpdate(desired_monitoring_config=_with_prometheus()),
    _CHANNEL: lambda cluster: types.ClusterUpdate(
        desired_release_channel=types.ReleaseChannel(
            channel=(cluster.site.cluster.release_channel or "unspecified").upper()
        )
    ),
}


def _why(cluster: types.Cluster) -> str:
    return gke.why(cluster.status_message, cluster.conditions)


def _details(cluster: types.Cluster) -> dict[str, Any]:
    """endpoint: address of the Kubernetes API. ca: its certificate in base64, empty where the public ones hold.
    network: its own, as a path with a project where GKE gives one.
    ranges: the IPv4 ranges that the cluster uses, by their use."""
    dns = cluster.control_plane_endpoints_config.dns_endpoint_config
    by_name = not cluster.endpoint and dns.allow_external_traffic
    ranges = {
        "pods": cluster.cluster_ipv4_cidr,
        "services": cluster.services_ipv4_cidr,
        "control plane": cluster.private_cluster_config.master_ipv4_cidr_block,
    }
    return {
        "endpoint": dns.endpoint if by_name else cluster.endpoint,
        "ca": "" if by_name else cluster.master_auth.cluster_ca_certificate,
        "version": cluster.current_master_version,
        "network": cluster.network_config.network or cluster.network,
        "ranges": {use: text for use, text in ranges.items() if text},
    }
