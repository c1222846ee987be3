"""The list of what a site needs in Google Cloud, and the only place that knows the order.

Dry run, parallel making, `--print-gcloud`, preflight and teardown all come from it. A new kind is a class in
driver/gcp/kinds/, a line in NEEDS and one in `prerequisites`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driver.gcp import dranet
from driver.gcp.kinds import workload_policy
from driver.gcp.kinds.bucket import Bucket
from driver.gcp.kinds.bucket_access import BucketAccess
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.firewall import Firewall
from driver.gcp.kinds.namespace import Namespace
from driver.gcp.kinds.network import Network
from driver.gcp.kinds.node_pool import NodePool
from driver.gcp.kinds.repository import Repository
from driver.gcp.kinds.services import Services
from driver.gcp.kinds.subnet import Subnet
from driver.gcp.kinds.workload_policy import WorkloadPolicy
from driver.gcp.resource import Resource
from driver.gcp.site import Site

NEEDS: Mapping[type[Resource], tuple[type[Resource], ...]] = {
    Services: (),
    Network: (Services,),
    Subnet: (Network,),
    Firewall: (Network,),
    Cluster: (Services,),
    WorkloadPolicy: (Services,),
    NodePool: (Cluster, Subnet, WorkloadPolicy),
    Namespace: (Cluster,),
    Bucket: (Services,),
    # Its member belongs to the workload identity pool, which a project has from its first cluster on.
    BucketAccess: (Bucket, Cluster),
    Repository: (Services,),
}
"""Kind to the kinds that must be there before it, and can only be deleted after it."""


def prerequisites(site: Site) -> tuple[Resource, ...]:
    """What the site needs, in an order in which one after the other could be made."""
    networks, subnets, firewalls = _networks(site)
    cluster = Cluster(site)
    policies = [WorkloadPolicy(site)] if workload_policy.needed(site) else []
    bucket = Bucket(site)
    pools = [
        NodePool(site, index, subnets=subnets)
        for index in range(site.tpu.slices if site.cluster.mode == "standard" else 0)
    ]
    return (
        Services(site),
        *networks,
        *subnets,
        *firewalls,
        cluster,
        *policies,
        *pools,
        Namespace(site, cluster=cluster),
        bucket,
        BucketAccess(site, bucket=bucket),
    )


def _networks(site: Site) -> tuple[list[Network], list[Subnet], list[Firewall]]:
    if not dranet.own_networks(site):
        return [], [], []
    if site.network.existing:
        named = site.network.existing
        networks = [Network(site, one.network, existing=True) for one in named]
        subnets = [
            Subnet(site, one.subnetwork, network=network, range="", existing=True)
            for one, network in zip(named, networks, strict=True)
        ]
        return networks, subnets, []
    stem = site.cluster.name
    networks, subnets, firewalls = [], [], []
    for number, text in enumerate(site.network.ranges, 1):
        network = Network(site, f"{stem}-net-{number}")
        networks.append(network)
        subnets.append(Subnet(site, f"{stem}-tpu-subnet-{number}", network=network, range=text))
        firewalls.append(Firewall(site, f"{stem}-net-{number}-internal", network=network, range=text))
    return networks, subnets, firewalls


def needed_by(resource: Resource, others: Sequence[Resource]) -> list[Resource]:
    """Those of the others that need the resource's kind: what is deleted before it."""
    return [other for other in others if isinstance(resource, NEEDS[type(other)])]


def needed_for(resource: Resource, others: Sequence[Resource]) -> list[Resource]:
    """Those of the others that the resource's kind needs: what is made before it."""
    return [other for other in others if isinstance(other, NEEDS[type(resource)])]
