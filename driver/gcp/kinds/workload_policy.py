"""The workload policy that Ironwood (7x) slices of several hosts are placed by; older TPUs have a topology instead.

https://docs.cloud.google.com/kubernetes-engine/docs/concepts/tpu-ironwood
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.cloud import compute_v1 as compute

from driver.gcp import operations
from driver.gcp.cloud import READS, found_or_none
from driver.gcp.resource import Command, Difference, Found, Permissions, Resource

if TYPE_CHECKING:
    from driver.gcp.cloud import Cloud
    from driver.gcp.site import Site
    from driver.gcp.waiting import Waiting

_TYPE = "HIGH_THROUGHPUT"


class WorkloadPolicy(Resource):
    """One for all slices of the site."""

    kind = "workload policy"
    permissions = Permissions(
        describe=("compute.resourcePolicies.get", "compute.resourcePolicies.list"),
        create=("compute.resourcePolicies.create", "compute.regionOperations.get"),
        delete=("compute.resourcePolicies.delete", "compute.regionOperations.get"),
    )

    def __init__(self, site: Site, name: str = "") -> None:
        """name: empty for the one that follows from the site file."""
        super().__init__(site, name or name_of(site))

    def wanted(self) -> Mapping[str, Any]:
        return {"region": self.site.region, "type": _TYPE, "topology": self.site.tpu.topology}

    def describe(self, cloud: Cloud) -> Found | None:
        policy = found_or_none(lambda: cloud.resource_policies.get(**self._place, retry=READS))
        if policy is None:
            return None
        return Found(ours=self.is_ours(policy.description), differences=tuple(self._differences(policy)))

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        policy = compute.ResourcePolicy(
            name=self.name,
            description=self.description,
            workload_policy=compute.ResourcePolicyWorkloadPolicy(
                type_=_TYPE, accelerator_topology=self.site.tpu.topology
            ),
        )
        operation = cloud.resource_policies.insert_unary(
            project=self.site.project, region=self.site.region, resource_policy_resource=policy
        )
        operations.finish(cloud, operation, waiting, f"creating {self.key}")

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        operations.delete(cloud, lambda: cloud.resource_policies.delete_unary(**self._place), waiting, self.key)

    def gcloud(self) -> Sequence[Command]:
        words = ["gcloud", "compute", "resource-policies", "create", "workload-policy", self.name]
        words += [f"--project={self.site.project}", f"--region={self.site.region}", f"--type={_TYPE}"]
        words += [f"--accelerator-topology={self.site.tpu.topology}", f"--description={self.description}"]
        return (Command(tuple(words)),)

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Resource]:
        answer = cloud.resource_policies.list(project=site.project, region=site.region, retry=READS)
        found = [(cls(site, name=policy.name), policy) for policy in answer]
        return tuple(one for one, policy in found if one.is_ours(policy.description))

    @property
    def _place(self) -> dict[str, Any]:
        return {"project": self.site.project, "region": self.site.region, "resource_policy": self.name}

    def _differences(self, policy: compute.ResourcePolicy) -> Iterator[Difference]:
        found = policy.workload_policy
        for field, there, wanted in (
            ("type", found.type_, _TYPE),
            ("topology", found.accelerator_topology, self.site.tpu.topology),
        ):
            if there != wanted:
                yield Difference(field, there, wanted)


def needed(site: Site) -> bool:
    """Whether the site's node pools name one."""
    return site.tpu.type == "v7x" and site.slice.hosts > 1 and site.cluster.mode == "standard"


def name_of(site: Site) -> str:
    return f"{site.cluster.name}-{site.tpu.topology}"
