"""The GKE node pool that holds one TPU slice.

Whatever changes in a pool's specification, the pool has to be made again: GKE changes none of these fields in place, or
only by making the nodes anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from google.api_core.exceptions import NotFound
from google.cloud.container_v1 import types

from driver.gcp import dranet, gke, operations
from driver.gcp.cloud import READS, found_or_none
from driver.gcp.kinds import workload_policy
from driver.gcp.resource import MARK, Command, Difference, Found, Permissions, Resource, pairs

if TYPE_CHECKING:
    from driver.gcp.cloud import Cloud
    from driver.gcp.kinds.subnet import Subnet
    from driver.gcp.site import Site
    from driver.gcp.waiting import Waiting

DEFAULT_POOL = "default-pool"
"""As GKE and gcloud call the pool that a cluster is made with."""

# The trainer reaches Google's APIs through Workload Identity; the nodes' own agents use what their service account may.
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)

_RESERVATION_KEY = "compute.googleapis.com/reservation-name"

_Status = types.NodePool.Status
_UNFINISHED = {_Status.PROVISIONING, _Status.RECONCILING, _Status.STOPPING}
_BROKEN = {_Status.ERROR, _Status.RUNNING_WITH_ERROR}
_GKE_METADATA = types.WorkloadMetadataConfig.Mode.GKE_METADATA
_Affinity = types.ReservationAffinity.Type


class NodePool(Resource):
    """index: which slice of the site it is, from 0."""

    kind = "node pool"
    inside = "GKE cluster"
    permissions = Permissions(
        describe=("container.clusters.get", "container.operations.list"),
        create=("container.clusters.update", "container.operations.get", "iam.serviceAccounts.actAs"),
        delete=("container.clusters.update", "container.operations.get"),
    )

    def __init__(
        self,
        site: Site,
        index: int,
        subnets: Sequence[Subnet] = (),
        name: str = "",
    ) -> None:
        """name: empty for the one that follows from the site file."""
        super().__init__(site, name or f"{site.slice.pod_type}-{index}")
        self.subnets = tuple(subnets)

    @property
    def _path(self) -> str:
        return gke.node_pool_path(self.site, self.name)

    def wanted(self) -> Mapping[str, Any]:
        site, shape = self.site, self.site.slice
        return {
            "zone": site.zone,
            "machineType": shape.machine_type,
            "topology": self._topology,
            "placementPolicy": self._policy,
            "nodes": shape.hosts,
            "threadsPerCore": 1,
            "networks": [[subnet.network.name, subnet.name] for subnet in self.subnets],
            "networkProfile": self._profile,
            "dranet": dranet.supported(site),
            "scopes": list(SCOPES),
            "capacity": site.tpu.capacity,
            "reservation": self._reservation,
            "maxRunDurationSeconds": site.tpu.max_run_duration_seconds,
        }

    def describe(self, cloud: Cloud) -> Found | None:
        pool = found_or_none(lambda: cloud.clusters.get_node_pool(name=self._path, retry=READS))
        if pool is None:
            return None
        reason = gke.why(pool.status_message, pool.conditions)
        return Found(
            ours=self._is_our_pool(pool),
            differences=() if pool.status == _Status.STOPPING else tuple(self._differences(pool)),
            unfinished=pool.status.name if pool.status in _UNFINISHED else "",
            broken=f"{pool.status.name}: {reason}" if pool.status in _BROKEN else "",
            details={"version": pool.version, "nodes": pool.initial_node_count},
        )

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        operation = cloud.clusters.create_node_pool(parent=gke.cluster_path(self.site), node_pool=self._spec())
        gke.wait(cloud, self.site, operation, waiting, f"creating node pool {self.name}")

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        try:
            operation = cloud.clusters.delete_node_pool(name=self._path)
        except NotFound:
            return
        gke.wait(cloud, self.site, operation, waiting, f"deleting node pool {self.name}")

    def gcloud(self) -> Sequence[Command]:
        site, shape = self.site, self.site.slice
        words = ["gcloud", "container", "node-pools", "create", self.name]
        words += [f"--project={site.project}", f"--location={site.location}", f"--cluster={site.cluster.name}"]
        words += [f"--node-locations={site.zone}"] if site.regional else []
        words += [f"--machine-type={shape.machine_type}", "--threads-per-core=1"]
        words += ["--placement-type=COMPACT", f"--tpu-topology={self._topology}"] if self._topology else []
        words += [f"--placement-policy={self._policy}"] if self._policy else []
        words += [f"--num-nodes={0 if self._flex else shape.hosts}"]
        words += [
            f"--additional-node-network=network={subnet.network.name},subnetwork={subnet.name}"
            for subnet in self.subnets
        ]
        words += [f"--accelerator-network-profile={self._profile}"] if self._profile else []
        words += [f"--node-labels={pairs(self._node_labels)}", "--enable-gvnic", f"--scopes={','.join(SCOPES)}"]
        words += ["--workload-metadata=GKE_METADATA", *self._capacity_flags(), f"--labels={pairs(self.labels)}"]
        return (Command(tuple(words)),)

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Resource]:
        return tuple(one for one, ours in cls._listed(site, cloud) if ours)

    @classmethod
    def of_others(cls, site: Site, cloud: Cloud) -> Sequence[Resource]:
        """The cluster's pools that carry no mark of this site, but for the one that the cluster is made with."""
        return tuple(one for one, ours in cls._listed(site, cloud) if not ours and one.name != DEFAULT_POOL)

    @classmethod
    def _listed(cls, site: Site, cloud: Cloud) -> Iterator[tuple[NodePool, bool]]:
        answer = found_or_none(lambda: cloud.clusters.list_node_pools(parent=gke.cluster_path(site), retry=READS))
        for pool in answer.node_pools if answer else ():
            one = cls(site, 0, name=pool.name)
            yield one, one._is_our_pool(pool)

    @property
    def _topology(self) -> str:
        """GKE places the hosts of a slice by it. A slice of one host has nothing to place, and 7x has a policy."""
        return self.site.slice.topology if self.site.slice.hosts > 1 and not self._policy else ""

    @property
    def _policy(self) -> str:
        return workload_policy.name_of(self.site) if workload_policy.needed(self.site) else ""

    @property
    def _profile(self) -> str:
        return "auto" if self.site.network.profile == "auto" and dranet.supported(self.site) else ""

    @property
    def _flex(self) -> bool:
        return self.site.tpu.capacity == "flex-start"

    @property
    def _reservation(self) -> str:
        """As GKE names it: with its project where that is another."""
        tpu = self.site.tpu
        if tpu.reservation_project in ("", self.site.project):
            return tpu.reservation
        return f"projects/{tpu.reservation_project}/reservations/{tpu.reservation}"

    @property
    def _node_labels(self) -> dict[str, str]:
        """Of the Kubernetes nodes. The mark stands here too: nothing hands labels of this sort on to other pools."""
        driver = {dranet.NODE_LABEL: "true"} if dranet.supported(self.site) else {}
        return {**driver, MARK: self.site.id}

    def _is_our_pool(self, pool: types.NodePool) -> bool:
        return self.is_ours(dict(pool.config.resource_labels)) and self.is_ours(dict(pool.config.labels))

    def _spec(self) -> types.NodePool:
        site, shape = self.site, self.site.slice
        config = types.NodeConfig(
            machine_type=shape.machine_type,
            advanced_machine_features=types.AdvancedMachineFeatures(threads_per_core=1),
            labels=self._node_labels,
            resource_labels=self.labels,
            oauth_scopes=SCOPES,
            gvnic=types.VirtualNIC(enabled=True),
            workload_metadata_config=types.WorkloadMetadataConfig(mode=_GKE_METADATA),
            spot=site.tpu.capacity == "spot",
        )
        pool = types.NodePool(
            name=self.name,
            initial_node_count=shape.hosts,
            locations=[site.zone],
            config=config,
            network_config=types.NodeNetworkConfig(
                additional_node_network_configs=[
                    types.AdditionalNodeNetworkConfig(network=subnet.network.name, subnetwork=subnet.name)
                    for subnet in self.subnets
                ],
                accelerator_network_profile=self._profile,
            ),
            # A broken host is repaired, and with it its slice, which cannot go on without it. Clusters in a release
            # channel allow no pool without upgrades; a cluster without one is its owner's to upgrade, between runs.
            management=types.NodeManagement(
                auto_repair=not self._flex, auto_upgrade=site.cluster.release_channel is not None
            ),
        )
        if self._topology:
            pool.placement_policy = types.NodePool.PlacementPolicy(
                type_=types.NodePool.PlacementPolicy.Type.COMPACT, tpu_topology=self._topology
            )
        elif self._policy:
            pool.placement_policy = types.NodePool.PlacementPolicy(policy_name=self._policy)
        if self._reservation:
            pool.config.reservation_affinity = types.ReservationAffinity(
                consume_reservation_type=_Affinity.SPECIFIC_RESERVATION,
                key=_RESERVATION_KEY,
                values=[self._reservation],
            )
        if self._flex:
            self._make_flexible(pool)
        return pool

    def _make_flexible(self, pool: types.NodePool) -> None:
        """Begins without nodes: the autoscaler asks for all of them when pods wait, and GKE gives them together.
        https://docs.cloud.google.com/kubernetes-engine/docs/concepts/dws"""
        seconds = self.site.tpu.max_run_duration_seconds
        pool.initial_node_count = 0
        pool.autoscaling = types.NodePoolAutoscaling(
            enabled=True,
            max_node_count=self.site.slice.hosts,
            location_policy=types.NodePoolAutoscaling.LocationPolicy.ANY,
        )
        pool.config.flex_start = True
        pool.config.reservation_affinity = types.ReservationAffinity(consume_reservation_type=_Affinity.NO_RESERVATION)
        if seconds:
            pool.config.max_run_duration = timedelta(seconds=seconds)

    def _capacity_flags(self) -> list[str]:
        if self.site.tpu.capacity == "spot":
            return ["--spot"]
        if self._reservation:
            return ["--reservation-affinity=specific", f"--reservation={self._reservation}"]
        if not self._flex:
            return []
        seconds = self.site.tpu.max_run_duration_seconds
        return [
            "--flex-start",
            "--enable-autoscaling",
            "--min-nodes=0",
            f"--max-nodes={self.site.slice.hosts}",
            "--location-policy=ANY",
            "--reservation-affinity=none",
            "--no-enable-autorepair",
            *([f"--max-run-duration={seconds}s"] if seconds else []),
        ]

    def _differences(self, pool: types.NodePool) -> Iterator[Difference]:
        found, wanted = _facts(pool), _facts(self._spec())
        for field, value in wanted.items():
            if found[field] != value:
                yield Difference(field, found[field] or "none", value or "none")


def _facts(pool: types.NodePool) -> dict[str, str]:
    """What makes pools alike, as words."""
    config = pool.config
    networks = pool.network_config.additional_node_network_configs
    affinity = config.reservation_affinity
    return {
        "zone": ", ".join(sorted(pool.locations)),
        "machine type": config.machine_type,
        "topology": pool.placement_policy.tpu_topology,
        "placement policy": pool.placement_policy.policy_name,
        "nodes": _size(pool),
        "threads per core": str(config.advanced_machine_features.threads_per_core),
        "networks": ", ".join(f"{operations.last(one.network)}/{operations.last(one.subnetwork)}" for one in networks),
        "network profile": pool.network_config.accelerator_network_profile,
        dranet.NODE_LABEL: config.labels.get(dranet.NODE_LABEL, ""),
        "gVNIC": "on" if config.gvnic.enabled else "off",
        "scopes": ", ".join(sorted(config.oauth_scopes)),
        "metadata server": config.workload_metadata_config.mode.name,
        "capacity": _capacity(config),
        "reservation": ", ".join(affinity.values),
        "maximal run duration": f"{int(config.max_run_duration.total_seconds())} s" if config.max_run_duration else "",
    }


def _size(pool: types.NodePool) -> str:
    """Of a pool that scales, what it may have: GKE counts the nodes that there are now into initial_node_count."""
    if pool.autoscaling.enabled:
        return f"up to {pool.autoscaling.max_node_count or pool.autoscaling.total_max_node_count}"
    return str(pool.initial_node_count)


def _capacity(config: types.NodeConfig) -> str:
    if config.flex_start:
        return "flex-start"
    if config.reservation_affinity.consume_reservation_type == _Affinity.SPECIFIC_RESERVATION:
        return "reservation"
    return "spot" if config.spot else "on-demand"
