"""Preflight's check of address ranges: the further networks' against all that hosts reach over their first interface.

A host has an interface in each network; where two ranges overlap, it could not tell which one to send through, and
Google refuses such hosts. The ranges of the site file among themselves are checked where it is read.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from google.api_core.exceptions import Forbidden, NotFound
from google.cloud import compute_v1 as compute

from driver.gcp.cloud import READS
from driver.gcp.errors import is_api_off
from driver.gcp.findings import Finding, Subject, not_checked, ok, problem
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.subnet import Subnet
from driver.gcp.resource import Found

# https://cloud.google.com/vpc/docs/subnets#unusable-ip-addresses-in-every-subnet
_KEPT = 4


@dataclass(frozen=True)
class Range:
    """whose: for the message ("subnet default of network default")."""

    whose: str
    addresses: ipaddress.IPv4Network


def check(subject: Subject) -> Iterator[Finding]:
    """Overlaps with the cluster's own ranges, its network's subnets in the region, and the networks peered with it."""
    ours, findings = _further(subject)
    if not ours:
        yield from findings or [ok("There are no further networks.")]
        return
    theirs = [*_of_cluster(subject)]
    for source in (_of_network, _of_peers):
        found, said = source(subject)
        theirs += found
        findings += said
    overlaps = [(one, other) for one in ours for other in theirs if one.addresses.overlaps(other.addresses)]
    overlaps += [(one, other) for one, other in combinations(ours, 2) if one.addresses.overlaps(other.addresses)]
    free = _free(len(ours), [*theirs, *ours])
    for one, other in overlaps:
        findings.append(
            problem(
                f"{one.addresses} ({one.whose}) overlaps {other.addresses} ({other.whose}).",
                "All networks of a host need ranges of their own.",
                f"network.ranges: [{', '.join(free)}] in the site file" if free else "other network.ranges",
            )
        )
    findings += _too_small(subject, ours)
    if not overlaps:
        texts = ", ".join(str(one.addresses) for one in ours)
        findings.append(ok(f"{texts}: apart from each other and from {len(theirs)} more that the hosts reach."))
    yield from findings


def _too_small(subject: Subject, ours: list[Range]) -> Iterator[Finding]:
    hosts = subject.site.tpu.slices * subject.site.slice.hosts
    for one in ours:
        free = one.addresses.num_addresses - _KEPT
        if free < hosts:
            yield problem(
                f"{one.addresses} ({one.whose}) has {free} addresses for {hosts} TPU hosts.",
                f"Each host needs one, and Google keeps {_KEPT} of every subnet.",
                "a larger range in network.ranges, or fewer tpu.slices",
            )


def _further(subject: Subject) -> tuple[list[Range], list[Finding]]:
    """The ranges of the further networks: the site file's, and those of subnets that it names."""
    site = subject.site
    ranges: list[Range] = []
    findings: list[Finding] = []
    if site.network.profile == "auto":
        return [], [ok("GKE chooses the further networks' ranges itself.")]
    for subnet in subject.resources:
        if not isinstance(subnet, Subnet):
            continue
        if not subnet.existing:
            ranges.append(Range(subnet.key, ipaddress.IPv4Network(subnet.range)))
            continue
        try:
            found = subject.cloud.subnetworks.get(
                project=site.project, region=site.region, subnetwork=subnet.name, retry=READS
            )
        except NotFound:
            continue  # the check of resources says so
        ranges.append(Range(subnet.key, ipaddress.IPv4Network(found.ip_cidr_range)))
        if found.secondary_ip_ranges:
            findings.append(
                problem(
                    f"{subnet.key} has secondary ranges.",
                    "DRANET's subnets have none.",
                    "name a subnet without, or leave network.existing out and bootstrap makes them",
                )
            )
    return ranges, findings


def _of_cluster(subject: Subject) -> Iterator[Range]:
    for cluster in subject.resources:
        seen = subject.looks[cluster.key] if isinstance(cluster, Cluster) else None
        if isinstance(seen, Found):
            for use, text in seen.details.get("ranges", {}).items():
                yield Range(f"{use} of {cluster.key}", ipaddress.IPv4Network(text, strict=False))


def _of_network(subject: Subject) -> tuple[list[Range], list[Finding]]:
    """The subnets of the cluster's network in the region, with their secondary ranges."""
    site, (project, network) = subject.site, _network(subject)
    listed = subject.cloud.subnetworks.list(project=project, region=site.region, retry=READS)
    there = [one for one in listed if one.network.rpartition("/")[2] == network]
    ranges: list[Range] = []
    for one in there:
        whose = f"subnet {one.name} of the cluster's network {network}"
        ranges.append(Range(whose, ipaddress.IPv4Network(one.ip_cidr_range)))
        for secondary in one.secondary_ip_ranges:
            ranges.append(Range(f"{whose}, {secondary.range_name}", ipaddress.IPv4Network(secondary.ip_cidr_range)))
    wanted = site.cluster.subnetwork.rpartition("/")[2]
    if site.cluster.existing or (any(one.name == wanted for one in there) if wanted else there):
        return ranges, []
    return ranges, [_no_subnet(subject, wanted)]


def _no_subnet(subject: Subject, wanted: str) -> Finding:
    site, (project, network) = subject.site, _network(subject)
    try:
        subject.cloud.networks.get(project=project, network=network, retry=READS)
    except NotFound:
        found = f"There is no network {network} in project {project} for the cluster."
        fix = f"cluster.network in the site file, or: gcloud compute networks create {network} --project={project}"
    else:
        found = f"Network {network} has no subnet {wanted}".rstrip() + f" in {site.region} for the cluster's nodes."
        fix = (
            "cluster.network or cluster.subnetwork in the site file, or: gcloud compute networks subnets create "
            f"{wanted or network} --network={network} --region={site.region} --range=RANGE --project={project}"
        )
    return problem(found, "The cluster's own network is used as it is, never made.", fix)


def _of_peers(subject: Subject) -> tuple[list[Range], list[Finding]]:
    """What the networks peered with the cluster's one say that they reach."""
    (project, name), ranges, findings = _network(subject), list[Range](), list[Finding]()
    try:
        network = subject.cloud.networks.get(project=project, network=name, retry=READS)
    except NotFound:
        return [], []
    for peering in network.peerings:
        if peering.state != "ACTIVE":
            continue
        request = compute.ListPeeringRoutesNetworksRequest(
            project=project, network=name, peering_name=peering.name, region=subject.site.region, direction="INCOMING"
        )  # fmt: skip
        whose = f"peering {peering.name} of network {name}"
        try:
            routes = list(subject.cloud.networks.list_peering_routes(request=request, retry=READS))
        except Forbidden as error:
            if is_api_off(error):
                raise
            findings.append(
                not_checked(f"The ranges behind {whose}: compute.networks.listPeeringRoutes is not granted.")
            )
            continue
        ranges += [Range(whose, ipaddress.IPv4Network(one.dest_range)) for one in routes if ":" not in one.dest_range]
    return ranges, findings


def _network(subject: Subject) -> tuple[str, str]:
    """The cluster's own: its project, another one's where it is a shared VPC, and its name."""
    text = subject.site.cluster.network
    for cluster in subject.resources:
        seen = subject.looks[cluster.key] if isinstance(cluster, Cluster) else None
        if isinstance(seen, Found):
            text = seen.details.get("network") or text
    *path, name = text.split("/")
    return path[path.index("projects") + 1] if "projects" in path[:-1] else subject.site.project, name


def _free(count: int, taken: list[Range]) -> list[str]:
    """As many ranges of /16 that overlap nothing that is known."""
    candidates = ipaddress.IPv4Network("10.0.0.0/8").subnets(new_prefix=16)
    used = [one.addresses for one in taken]
    free = [str(one) for one in candidates if not any(one.overlaps(other) for other in used)]
    return free[-count:] if len(free) >= count else []
