"""The subnet of one of the TPU hosts' extra networks, in the site's region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.gcp import operations
from driver.gcp.cloud import READS, Cloud, found_or_none
from driver.gcp.kinds.network import Network, description_filter
from driver.gcp.resource import Command, Difference, Found, Permissions, Resource
from driver.gcp.site import Site
from driver.gcp.waiting import Waiting


class Subnet(Resource):
    """One range and no secondary ranges: GKE would take the network for one that has pods in it.

    Private Google access stays as compute sets it, off: the hosts reach Google's APIs over their first interface.
    """

    kind = "VPC subnet"
    permissions = Permissions(
        describe=("compute.subnetworks.get", "compute.subnetworks.list"),
        create=(
            *("compute.subnetworks.create", "compute.subnetworks.get"),
            *("compute.networks.updatePolicy", "compute.regionOperations.get"),
        ),
        delete=("compute.subnetworks.delete", "compute.networks.updatePolicy", "compute.regionOperations.get"),
    )

    def __init__(
        self,
        site: Site,
        name: str,
        *,
        network: Network,
        range: str = "",
        existing: bool = False,
    ) -> None:
        """range: its addresses, as in 10.50.0.0/16; empty for an existing one, whose range is what it is."""
        super().__init__(site, name, existing=existing)
        self.network = network
        self.range = range

    def wanted(self) -> Mapping[str, Any]:
        return {"network": self.network.name, "region": self.site.region, "range": self.range}

    def describe(self, cloud: Cloud) -> Found | None:
        """details: `range`, the addresses that it has."""
        there = found_or_none(
            lambda: cloud.subnetworks.get(
                project=self.site.project, region=self.site.region, subnetwork=self.name, retry=READS
            )
        )
        if there is None:
            return None
        differences = []
        network = operations.last(there.network)
        if network != self.network.name:
            differences.append(Difference("network", network, self.network.name))
        if self.range and there.ip_cidr_range != self.range:
            differences.append(Difference("range", there.ip_cidr_range, self.range))
        if there.secondary_ip_ranges:
            secondary = ", ".join(one.ip_cidr_range for one in there.secondary_ip_ranges)
            differences.append(Difference("secondary ranges", secondary, "none"))
        return Found(
            ours=self.is_ours(there.description),
            differences=tuple(differences),
            details={"range": there.ip_cidr_range},
        )

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        body = {
            "name": self.name,
            "description": self.description,
            "network": self.network.path,
            "ip_cidr_range": self.range,
        }
        request = {"project": self.site.project, "region": self.site.region, "subnetwork_resource": body}
        operation = cloud.subnetworks.insert_unary(request=request)
        operations.finish(cloud, operation, waiting, f"creating {self.key}")

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        """Waits while VMs of a node pool that was deleted are still in it."""
        operations.delete(
            cloud,
            lambda: cloud.subnetworks.delete_unary(
                project=self.site.project, region=self.site.region, subnetwork=self.name
            ),
            waiting,
            self.key,
        )

    def gcloud(self) -> Sequence[Command]:
        arguments = (
            *("gcloud", "compute", "networks", "subnets", "create", self.name),
            f"--project={self.site.project}",
            f"--network={self.network.name}",
            f"--region={self.site.region}",
            f"--range={self.range}",
            f"--description={self.description}",
        )
        return [Command(arguments)]

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Subnet]:
        request = {"project": site.project, "region": site.region, "filter": description_filter(site)}
        listed = [
            (cls(site, one.name, network=Network(site, operations.last(one.network)), range=one.ip_cidr_range), one)
            for one in cloud.subnetworks.list(request=request, retry=READS)
        ]
        return [subnet for subnet, one in listed if subnet.is_ours(one.description)]
