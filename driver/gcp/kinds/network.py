"""A VPC network for one of a TPU host's extra network interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.gcp import operations
from driver.gcp.cloud import READS, Cloud, found_or_none
from driver.gcp.resource import MARK, Command, Difference, Found, Permissions, Resource
from driver.gcp.site import Site
from driver.gcp.waiting import Waiting

DEFAULT_MTU = 1460
"""Compute's, for networks that name none: https://cloud.google.com/vpc/docs/mtu"""


class Network(Resource):
    """Custom mode, and the site's MTU: the large one lets slices exchange gradients with fewer packets.

    Neither can be changed: compute changes the MTU only while no VM of the network runs.
    """

    kind = "VPC network"
    permissions = Permissions(
        describe=("compute.networks.get", "compute.networks.list"),
        create=("compute.networks.create", "compute.networks.get", "compute.globalOperations.get"),
        delete=("compute.networks.delete", "compute.globalOperations.get"),
    )

    @property
    def path(self) -> str:
        """As other resources name it."""
        return f"projects/{self.site.project}/global/networks/{self.name}"

    def wanted(self) -> Mapping[str, Any]:
        return {"subnetMode": "custom", "mtu": self.site.network.mtu}

    def describe(self, cloud: Cloud) -> Found | None:
        there = found_or_none(lambda: cloud.networks.get(project=self.site.project, network=self.name, retry=READS))
        if there is None:
            return None
        differences = []
        mode = "auto" if there.auto_create_subnetworks else "legacy" if there.I_pv4_range else "custom"
        # In a network of the user's own, the subnet is named as well, and any mode that has subnets serves.
        if mode == "legacy" or (mode == "auto" and not self.existing):
            differences.append(Difference("subnet mode", mode, "custom"))
        mtu = there.mtu or DEFAULT_MTU
        if mtu != self.site.network.mtu:
            differences.append(Difference("mtu", str(mtu), str(self.site.network.mtu)))
        return Found(ours=self.is_ours(there.description), differences=tuple(differences))

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        body = {
            "name": self.name,
            "description": self.description,
            "auto_create_subnetworks": False,
            "mtu": self.site.network.mtu,
        }
        operation = cloud.networks.insert_unary(request={"project": self.site.project, "network_resource": body})
        operations.finish(cloud, operation, waiting, f"creating {self.key}")

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        """Waits while GKE's own firewall rules and routes are still in it. Raises a DriverError when it takes long."""
        operations.delete(
            cloud,
            lambda: cloud.networks.delete_unary(project=self.site.project, network=self.name),
            waiting,
            self.key,
        )

    def gcloud(self) -> Sequence[Command]:
        arguments = (
            *("gcloud", "compute", "networks", "create", self.name),
            f"--project={self.site.project}",
            "--subnet-mode=custom",
            f"--mtu={self.site.network.mtu}",
            f"--description={self.description}",
        )
        return [Command(arguments)]

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Network]:
        request = {"project": site.project, "filter": description_filter(site)}
        listed = [(cls(site, one.name), one) for one in cloud.networks.list(request=request, retry=READS)]
        return [network for network, one in listed if network.is_ours(one.description)]


def description_filter(site: Site) -> str:
    """For compute's lists of what has no labels: a regular expression for the whole description."""
    return f'description eq ".*{MARK}={site.id} .*"'
