"""Preflight's checks of quota: TPU chips of the family in the region, and what else the plan takes from the project.

Quota allows machines, it does not keep them free: what is enough here may still meet a stock-out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.api_core.exceptions import GoogleAPICallError, NotFound

from driver.gcp.cloud import READS
from driver.gcp.errors import is_api_off
from driver.gcp.findings import Finding, Subject, not_checked, ok, problem, warning
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.firewall import Firewall
from driver.gcp.kinds.network import Network
from driver.gcp.kinds.node_pool import NodePool
from driver.gcp.kinds.subnet import Subnet

if TYPE_CHECKING:
    from google.cloud import compute_v1 as compute
    from google.cloud.cloudquotas_v1 import QuotaInfo

    from driver.gcp.site import Site

# GKE takes its TPUs from Compute Engine's quotas, not from the Cloud TPU API's. v4, v5e and v5p have on-demand ones of
# their own, the newer share one by family. Spot and flex-start take from the preemptible one of the generation, and
# flex-start from the on-demand one when that is too small. Reserved TPUs take from none.
# https://docs.cloud.google.com/kubernetes-engine/docs/troubleshooting/tpus
# https://docs.cloud.google.com/compute/docs/instances/provisioning-models
_FAMILY = "TPUS-PER-TPU-FAMILY"
_ON_DEMAND: Mapping[str, tuple[str, ...]] = {
    "CT4P": ("TPU-PODSLICE-V4", _FAMILY),
    "CT5LP": ("TPU-LITE-PODSLICE-V5", _FAMILY),
    "CT5P": ("TPU-V5P", _FAMILY),
    "CT6E": (_FAMILY,),
    "TPU7X": (_FAMILY,),
}
_PREEMPTIBLE: Mapping[str, tuple[str, ...]] = {
    "CT4P": ("PREEMPTIBLE-TPU-PODSLICE-V4",),
    "CT5LP": ("PREEMPTIBLE-TPU-LITE-PODSLICE-V5",),
    "CT5P": ("PREEMPTIBLE-TPU-V5P",),
    "CT6E": ("PREEMPTIBLE-TPU-V6E",),
    "TPU7X": ("PREEMPTIBLE-TPU7X",),
}
_TAKES = {"on-demand": (_ON_DEMAND,), "spot": (_PREEMPTIBLE,), "flex-start": (_PREEMPTIBLE, _ON_DEMAND)}

# Their vCPUs count as CPUS; those of other machines have a quota of their family. https://cloud.google.com/compute/quotas
_SHARED_CPUS = ("e2", "f1", "g1", "n1")
_ZONES_OF_A_REGIONAL_CLUSTER = 3


@dataclass(frozen=True)
class Quota:
    """usage: None where Google does not tell it. dimensions: what the limit holds for."""

    id: str
    limit: float
    usage: float | None = None
    dimensions: Mapping[str, str] = field(default_factory=dict)

    def taken(self, known: float = 0) -> float:
        """What is in use. known: what we know of that, where Google does not tell."""
        return known if self.usage is None else self.usage

    def room(self, known: float = 0) -> float:
        """What is left."""
        return float("inf") if self.limit < 0 else self.limit - self.taken(known)

    def __str__(self) -> str:
        limit = "without limit" if self.limit < 0 else f"at most {self.limit:g}"
        used = "how many are in use is not told" if self.usage is None else f"{self.usage:g} in use"
        return f"{self.id} {limit}, {used}"


def tpu(subject: Subject) -> Iterator[Finding]:
    """Chips of the slices that are still to be made."""
    site = subject.site
    pools = [one for one in subject.resources if isinstance(one, NodePool)]
    to_make = len(list(subject.missing(NodePool))) if pools else site.tpu.slices
    wanted, there = to_make * site.slice.chips, (len(pools) - to_make) * site.slice.chips if pools else 0
    if not to_make:
        yield ok("All slices are there.")
        return
    if site.tpu.capacity == "reservation":
        yield ok("Reserved TPUs take no quota.")
        return
    chips = f"{wanted} {site.tpu.type} chips ({site.tpu.capacity}) in {site.region}"
    try:
        quotas = list(_tpu_quotas(subject))
    except GoogleAPICallError as error:
        if not is_api_off(error):
            raise
        yield warning(
            f"Whether there is quota for {chips} is not known: the Cloud Quotas API is off.",
            "Google tells TPU quotas through it alone.",
            shlex.join(["gcloud", "services", "enable", "cloudquotas.googleapis.com", f"--project={site.project}"]),
        )
        return
    if not quotas:
        yield warning(
            f"Google names no quota for {chips}.",
            "Then there is mostly none, and the slices meet an error when they are made.",
            f"see for {_family(site)} or {site.tpu.type} at {_console(site)}",
        )
    elif any(quota.room(there) >= wanted for quota in quotas):
        yield ok(f"{chips}: {'; '.join(map(str, quotas))}.")
    else:
        yield problem(
            f"{chips} are needed: {'; '.join(map(str, quotas))}.",
            f"{site.tpu.slices} slices of {site.slice.chips} chips count against this quota of Compute Engine's.",
            f"{_ask_for(site, quotas[0], quotas[0].taken(there) + wanted)}\n"
            "or another zone, another tpu.capacity or fewer slices in the site file",
        )


def others(subject: Subject) -> Iterator[Finding]:
    """vCPUs of the default pool, external addresses of the nodes, and networks with what belongs to them."""
    good: list[str] = []
    for metric, needed, quotas, place in _needed(subject):
        found = next((one for one in quotas if one.metric == metric), None)
        if found is None:
            yield not_checked(f"{metric} ({needed} needed): Google does not tell this quota here.")
            continue
        quota = Quota(_id(metric, place), found.limit, found.usage, {"region": place} if place else {})
        left = max(0.0, quota.room())
        if left >= needed:
            good.append(f"{metric} {needed} of {left:g}")
        else:
            yield problem(
                f"{metric}{f' in {place}' if place else ''}: {needed} more are needed, and {left:g} are left "
                f"({quota.usage:g} of {quota.limit:g} in use).",
                _WHY.get(metric, "The vCPUs of the default pool's machines count against it."),
                _ask_for(subject.site, quota, needed + found.usage),
            )
    if good:
        yield ok(f"Needed of what is left: {', '.join(good)}.")


_WHY = {
    "NETWORKS": "Each further network of the slices counts against it.",
    "SUBNETWORKS": "Each further network of the slices has a subnet.",
    "FIREWALLS": "Each further network of the slices has a firewall rule.",
    "IN_USE_ADDRESSES": "Each node has an external address, unless the cluster's nodes are private.",
}


def _needed(subject: Subject) -> Iterator[tuple[str, int, Iterable[compute.Quota], str]]:
    """Metric, how many of it, the quotas to look in, and their region (empty for the whole project)."""
    site, region, project = subject.site, subject.region, subject.compute_project
    for metric, kind in (("NETWORKS", Network), ("SUBNETWORKS", Subnet), ("FIREWALLS", Firewall)):
        count = len(list(subject.missing(kind)))
        if count:
            yield metric, count, project.quotas, ""
    if site.cluster.mode == "autopilot":
        return
    nodes = len(list(subject.missing(NodePool))) * site.slice.hosts
    if any(subject.missing(Cluster)):
        zones = min(_ZONES_OF_A_REGIONAL_CLUSTER, len(region.zones)) if site.regional else 1
        pool = site.cluster.default_pool
        nodes += pool.nodes * zones
        machine = subject.machine_type(pool.machine_type)
        if machine:
            cpus = machine.guest_cpus * pool.nodes * zones
            family = pool.machine_type.partition("-")[0]
            yield "CPUS" if family in _SHARED_CPUS else f"{family.upper()}_CPUS", cpus, region.quotas, site.region
            yield "CPUS_ALL_REGIONS", cpus, project.quotas, ""
    if nodes and not site.cluster.existing:
        yield "IN_USE_ADDRESSES", nodes, region.quotas, site.region


def _tpu_quotas(subject: Subject) -> Iterator[Quota]:
    """Those that the capacity takes from, in the order in which it does."""
    site = subject.site
    for table in _TAKES[site.tpu.capacity]:
        for name in table[_family(site)]:
            quota = _regional(subject, name) or _limited(subject, name)
            if quota:
                yield quota
                break


def _regional(subject: Subject, name: str) -> Quota | None:
    """From the region itself, which tells the usage as well, but knows only the older TPUs."""
    metric = name.replace("-", "_")
    for one in subject.region.quotas:
        if one.metric == metric:
            region = subject.site.region
            return Quota(_id(metric, region), one.limit, one.usage, {"region": region})
    return None


def _limited(subject: Subject, name: str) -> Quota | None:
    """From Cloud Quotas, which tells limits and no usage."""
    site = subject.site
    service = f"projects/{site.project}/locations/global/services/compute.googleapis.com"
    quota_id = _id(name, site.region)
    try:
        info = subject.cloud.quotas.get_quota_info(name=f"{service}/quotaInfos/{quota_id}", retry=READS)
    except NotFound:
        return None
    here = {"region": site.region, "tpu_family": _family(site)}
    limit = _limit(info, here)
    known = {key: value for key, value in here.items() if key in info.dimensions}
    return None if limit is None else Quota(quota_id, limit, None, known or {"region": site.region})


def _limit(info: QuotaInfo, here: Mapping[str, str]) -> float | None:
    """Of the entries that hold here, the most specific one's limit; -1 for none. None where no entry holds."""
    fitting = [
        one
        for one in info.dimensions_infos
        if all(here.get(key) == value for key, value in one.dimensions.items())
        and (not one.applicable_locations or here["region"] in one.applicable_locations)
    ]
    return max(fitting, key=lambda one: len(one.dimensions)).details.value if fitting else None


def _family(site: Site) -> str:
    return site.slice.quota_family


def _id(metric: str, region: str) -> str:
    """As Cloud Quotas calls it."""
    return f"{metric.replace('_', '-')}-per-project{'-region' if region else ''}"


def _ask_for(site: Site, quota: Quota, total: float) -> str:
    words = ["gcloud", "quotas", "preferences", "create", f"--project={site.project}", f"--quota-id={quota.id}"]
    words += ["--service=compute.googleapis.com", f"--preferred-value={total:g}"]
    if quota.dimensions:
        words.append(f"--dimensions={','.join(f'{key}={value}' for key, value in quota.dimensions.items())}")
    return f"{shlex.join(words)}\nor in the console: {_console(site)}"


def _console(site: Site) -> str:
    return f"https://console.cloud.google.com/iam-admin/quotas?project={site.project}"
