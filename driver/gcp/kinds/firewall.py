"""The firewall rule that lets the hosts of an extra network talk to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driver.gcp import operations
from driver.gcp.cloud import READS, Cloud, found_or_none
from driver.gcp.kinds.network import Network, description_filter
from driver.gcp.resource import Command, Difference, Found, Permissions, Resource
from driver.gcp.site import Site
from driver.gcp.waiting import Waiting

PROTOCOLS = ("icmp", "tcp", "udp")
"""As Google's own tools for multislice training allow them (xpk, cluster-toolkit). A network has no rule at first, and
what no rule allows is dropped: the slices would wait for each other."""

PRIORITY = 1000
"""Compute's default."""

OPEN = {
    "source_tags": "source tags",
    "source_service_accounts": "source service accounts",
    "target_tags": "target tags",
    "target_service_accounts": "target service accounts",
    "destination_ranges": "destination ranges",
    "denied": "denied protocols",
}
"""Fields that have to be empty, for the rule to hold for every host, and what users call them. Patching a rule cannot
empty them."""


class Firewall(Resource):
    """Allows everything from the subnet's own range, and nothing from elsewhere."""

    kind = "firewall rule"
    permissions = Permissions(
        describe=("compute.firewalls.get", "compute.firewalls.list"),
        create=(
            *("compute.firewalls.create", "compute.firewalls.get"),
            *("compute.networks.updatePolicy", "compute.globalOperations.get"),
        ),
        update=("compute.firewalls.update", "compute.networks.updatePolicy", "compute.globalOperations.get"),
        delete=("compute.firewalls.delete", "compute.networks.updatePolicy", "compute.globalOperations.get"),
    )

    def __init__(self, site: Site, name: str, *, network: Network, range: str) -> None:
        """range: where traffic may come from, as in 10.50.0.0/16."""
        super().__init__(site, name)
        self.network = network
        self.range = range

    def wanted(self) -> Mapping[str, Any]:
        return {"network": self.network.name, "direction": "INGRESS", "range": self.range, "allow": PROTOCOLS}

    def describe(self, cloud: Cloud) -> Found | None:
        there = found_or_none(lambda: cloud.firewalls.get(project=self.site.project, firewall=self.name, retry=READS))
        if there is None:
            return None
        return Found(ours=self.is_ours(there.description), differences=tuple(self._differences(there)))

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        request = {"project": self.site.project, "firewall_resource": self._body()}
        operation = cloud.firewalls.insert_unary(request=request)
        operations.finish(cloud, operation, waiting, f"creating {self.key}")

    def update(self, cloud: Cloud, found: Found, waiting: Waiting) -> None:
        request = {"project": self.site.project, "firewall": self.name, "firewall_resource": self._body()}
        operation = cloud.firewalls.patch_unary(request=request)
        operations.finish(cloud, operation, waiting, f"changing {self.key}")

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        operations.delete(
            cloud,
            lambda: cloud.firewalls.delete_unary(project=self.site.project, firewall=self.name),
            waiting,
            self.key,
        )

    def gcloud(self) -> Sequence[Command]:
        arguments = (
            *("gcloud", "compute", "firewall-rules", "create", self.name),
            f"--project={self.site.project}",
            f"--network={self.network.name}",
            "--direction=INGRESS",
            f"--allow={','.join(PROTOCOLS)}",
            f"--source-ranges={self.range}",
            f"--description={self.description}",
        )
        return [Command(arguments)]

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Firewall]:
        request = {"project": site.project, "filter": description_filter(site)}
        listed = [
            (cls(site, one.name, network=Network(site, operations.last(one.network)), range=""), one)
            for one in cloud.firewalls.list(request=request, retry=READS)
        ]
        return [firewall for firewall, one in listed if firewall.is_ours(one.description)]

    def _body(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "network": self.network.path,
            "direction": "INGRESS",
            "priority": PRIORITY,
            "disabled": False,
            "allowed": [{"I_p_protocol": protocol} for protocol in PROTOCOLS],
            "source_ranges": [self.range],
        }

    def _differences(self, there: Any) -> Iterable[Difference]:
        network = operations.last(there.network)
        if network != self.network.name:
            yield Difference("network", network, self.network.name)
        if there.direction != "INGRESS":
            yield Difference("direction", there.direction, "INGRESS")
        allowed = sorted(":".join(filter(None, [one.I_p_protocol, ",".join(one.ports)])) for one in there.allowed)
        if allowed not in (sorted(PROTOCOLS), ["all"]):
            yield Difference("allowed", ", ".join(allowed) or "nothing", ", ".join(PROTOCOLS), True)
        sources = list(there.source_ranges)
        if sources != [self.range]:
            yield Difference("source ranges", ", ".join(sources) or "any", self.range, True)
        if there.priority != PRIORITY:
            yield Difference("priority", str(there.priority), str(PRIORITY), True)
        if there.disabled:
            yield Difference("enforcement", "disabled", "enabled", True)
        for field, name in OPEN.items():
            if getattr(there, field):
                yield Difference(name, ", ".join(map(str, getattr(there, field))), "none")
