"""Quotas: Compute Engine's own lists, Cloud Quotas' view of them, and what a new node pool would need of them.

Compute Engine's TPU quotas are in Cloud Quotas only. Their ids were seen in public projects in 2026, but for those of
v4 and of 7x on spot, which are formed like the others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.gcp import machines
from tests.gcp.errors import GoogleError
from tests.gcp.routing import Call, Routes

if TYPE_CHECKING:
    from tests.gcp.google import Google

ROUTES = Routes("cloudquotas.googleapis.com", "Cloud Quotas API", "/v1/projects/{project}/locations/global")
CPUS = "CPUS-per-project-region"
FAMILY = "TPUS-PER-TPU-FAMILY-per-project-region"
# Of each family. v4, v5e and v5p have quotas of their own; v6e and 7x share one that has the family as a dimension,
# where the older ones are listed without a value.
ON_DEMAND = {
    "CT4P": "TPU-PODSLICE-V4-per-project-region",
    "CT5LP": "TPU-LITE-PODSLICE-V5-per-project-region",
    "CT5P": "TPU-V5P-per-project-region",
    "CT6E": FAMILY,
    "TPU7X": FAMILY,
}
SPOT = {
    "CT4P": "PREEMPTIBLE-TPU-PODSLICE-V4-per-project-region",
    "CT5LP": "PREEMPTIBLE-TPU-LITE-PODSLICE-V5-per-project-region",
    "CT5P": "PREEMPTIBLE-TPU-V5P-per-project-region",
    "CT6E": "PREEMPTIBLE-TPU-V6E-per-project-region",
    "TPU7X": "PREEMPTIBLE-TPU7X-per-project-region",
}
IDS = list(dict.fromkeys([FAMILY, *ON_DEMAND.values(), *SPOT.values(), CPUS]))
COMPUTE = "/services/compute.googleapis.com/quotaInfos"


@ROUTES.on("GET", COMPUTE, "cloudquotas.quotas.get")
def list_infos(call: Call) -> dict[str, Any]:
    return {"quotaInfos": [_info(call.google, call.project, quota) for quota in IDS]}


@ROUTES.on("GET", f"{COMPUTE}/{{quota}}", "cloudquotas.quotas.get")
def get_info(call: Call) -> dict[str, Any]:
    quota = call.parts["quota"]
    if quota not in IDS:
        raise GoogleError("NOT_FOUND", f"Quota info {quota} was not found.")
    return _info(call.google, call.project, quota)


def regional(google: Google, project: str, region: str) -> list[dict[str, Any]]:
    """As regions.get has them."""
    usage = {
        "CPUS": cpus_used(google, project, region),
        "IN_USE_ADDRESSES": sum(pool["initialNodeCount"] for pool in _pools(google, project, region)),
    }
    return [_told(google, metric, used, region) for metric, used in usage.items()]


def of_project(google: Google, project: str) -> list[dict[str, Any]]:
    """As projects.get has them."""
    usage = {
        "NETWORKS": len(_named(google, f"projects/{project}/global/networks/")),
        "SUBNETWORKS": sum("/subnetworks/" in name for name in _named(google, f"projects/{project}/regions/")),
        "FIREWALLS": len(_named(google, f"projects/{project}/global/firewalls/")),
        "CPUS_ALL_REGIONS": sum(cpus_used(google, project, region) for region in machines.REGIONS),
    }
    return [_told(google, metric, used) for metric, used in usage.items()]


def _told(google: Google, metric: str, used: int, region: str = "") -> dict[str, Any]:
    return {"metric": metric, "limit": google.quota(metric, machines.QUOTAS[metric], region), "usage": float(used)}


def shortage(google: Google, project: str, region: str, pool: dict[str, Any]) -> GoogleError | None:
    """What the pool's machines would exceed: CPUs at once (raised), TPU chips when they are made (returned)."""
    vcpus, _, chips, family = machines.MACHINES[pool["config"]["machineType"]]
    count = pool["initialNodeCount"] * len(pool["locations"])
    if not chips:
        limit = google.quota("CPUS", machines.QUOTAS["CPUS"], region)
        left = limit - cpus_used(google, project, region)
        if count * vcpus > left:
            raise GoogleError(
                "PERMISSION_DENIED",
                f'Insufficient regional quota to satisfy request: resource "CPUS": request requires '
                f"'{count * vcpus:.1f}' and is short '{count * vcpus - left:.1f}'. project has a quota of "
                f"'{limit:.1f}' with '{left:.1f}' available. View and manage quotas at "
                f"https://console.cloud.google.com/iam-admin/quotas?usage=USED&project={project}.",
            )
        return None
    spot = _is_spot(pool["config"])
    limit = tpu_limit(google, family, region, spot)
    if "reservationAffinity" in pool["config"] and pool["config"]["reservationAffinity"].get("values"):
        return None
    if chips_used(google, project, region, family, spot) + count * chips <= limit:
        return None
    metric = _metric((SPOT if spot else ON_DEMAND)[family]).upper()
    return GoogleError(
        "RESOURCE_EXHAUSTED",
        f"Google Compute Engine: Quota '{metric}' exceeded.  Limit: {limit:.1f} in region {region}.",
        reason="GCE_QUOTA_EXCEEDED",
        domain="container.googleapis.com",
    )


def tpu_limit(google: Google, family: str, region: str, spot: bool) -> float:
    return google.quota(f"{family} spot" if spot else family, machines.TPU_CHIPS, region)


def chips_used(google: Google, project: str, region: str, family: str, spot: bool) -> int:
    """By the node pools that are there."""
    return sum(
        machines.MACHINES[pool["config"]["machineType"]][2] * pool["initialNodeCount"]
        for pool in _pools(google, project, region)
        if machines.MACHINES[pool["config"]["machineType"]][3] == family and _is_spot(pool["config"]) == spot
    )


def cpus_used(google: Google, project: str, region: str) -> int:
    return sum(
        machines.MACHINES[pool["config"]["machineType"]][0] * pool["initialNodeCount"] * len(pool["locations"])
        for pool in _pools(google, project, region)
        if not machines.MACHINES[pool["config"]["machineType"]][2]
    )


def _is_spot(config: dict[str, Any]) -> bool:
    """Flex-start machines count against the preemptible quota as well."""
    return bool(config.get("spot") or config.get("flexStart"))


def _pools(google: Google, project: str, region: str) -> list[dict[str, Any]]:
    names = [name for name in google.resources if name.startswith(f"projects/{project}/locations/{region}")]
    return [
        google.resources[name]
        for name in names
        if "/nodePools/" in name and google.resources[name].get("status") != "ERROR"
    ]


def _named(google: Google, start: str) -> list[str]:
    return [name for name in google.resources if name.startswith(start)]


def _info(google: Google, project: str, quota: str) -> dict[str, Any]:
    number = google.projects[project]
    return {
        "name": f"projects/{number}/locations/global/services/compute.googleapis.com/quotaInfos/{quota}",
        "quotaId": quota,
        "metric": f"compute.googleapis.com/{_metric(quota)}",
        "service": "compute.googleapis.com",
        "isPrecise": True,
        "containerType": "PROJECT",
        "dimensions": ["region", "tpu_family"] if quota == FAMILY else ["region"],
        "quotaDisplayName": quota,
        "metricUnit": "1",
        "dimensionsInfos": _dimensions(google, quota),
    }


def _metric(quota: str) -> str:
    return quota.removesuffix("-per-project-region").replace("-", "_").lower()


def _dimensions(google: Google, quota: str) -> list[dict[str, Any]]:
    """For each family: the value that most regions have, once, and the others each for itself."""
    infos = []
    for family in ON_DEMAND if quota == FAMILY else [""]:
        tpu_family = {"tpu_family": family} if family else {}
        limits = {region: _limit(google, quota, family, region) for region in machines.REGIONS}
        usual = Counter(limits.values()).most_common(1)[0][0]
        most = [region for region, limit in limits.items() if limit == usual]
        infos.append({"dimensions": tpu_family, "details": _details(usual), "applicableLocations": most})
        for region in limits.keys() - most:
            dimensions = {"region": region} | tpu_family
            infos.append(
                {"dimensions": dimensions, "details": _details(limits[region]), "applicableLocations": [region]}
            )
    return infos


def _details(limit: float | None) -> dict[str, str]:
    return {} if limit is None else {"value": str(int(limit))}


def _limit(google: Google, quota: str, family: str, region: str) -> float | None:
    if quota == CPUS:
        return google.quota("CPUS", machines.QUOTAS["CPUS"], region)
    for table, spot in ((ON_DEMAND, False), (SPOT, True)):
        for one, name in table.items():
            if name == quota and family in ("", one):
                return tpu_limit(google, one, region, spot)
    return None
