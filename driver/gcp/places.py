"""Preflight's checks of the place: the zone, its machines, the versions that GKE offers there, and the reservation."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from google.api_core.exceptions import Forbidden, NotFound

from driver.gcp import dranet, gke, versions
from driver.gcp.cloud import READS
from driver.gcp.errors import is_api_off
from driver.gcp.findings import Finding, Subject, ok, problem, warning
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.node_pool import NodePool

if TYPE_CHECKING:
    from google.cloud import compute_v1 as compute

    from driver.gcp.site import Site

_AVAILABILITY = "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus#availability"
_ZONES_TOLD = 12


def zone(subject: Subject) -> Iterator[Finding]:
    """That it exists and is up."""
    site = subject.site
    try:
        found = subject.cloud.zones.get(project=site.project, zone=site.zone, retry=READS)
    except NotFound:
        known = [one.name for one in subject.cloud.zones.list(project=site.project, retry=READS)]
        near = [one for one in known if one.startswith(f"{site.region}-")]
        near = near or difflib.get_close_matches(site.zone, known, n=4)
        yield problem(
            f"There is no zone {site.zone}.",
            f"Near it there {'is' if len(near) == 1 else 'are'} {', '.join(near)}." if near else "",
            f"zone: {near[0] if near else 'ZONE'} in the site file ({_AVAILABILITY})",
        )
        return
    if found.status == "DOWN":
        yield problem(f"Zone {site.zone} is down.", "", "wait (https://status.cloud.google.com), or another zone")
    else:
        yield ok(site.zone)


def tpu_machines(subject: Subject) -> Iterator[Finding]:
    """That the zone has the TPU type."""
    shape = subject.site.slice
    what = f"TPU {shape.type} {shape.topology}: {shape.hosts} x {shape.machine_type} per slice"
    yield _machine(subject, shape.machine_type, what, "zone: {zone} in the site file", _AVAILABILITY)


def default_pool(subject: Subject) -> Iterator[Finding]:
    """That the zone has the machines of the pool without TPUs."""
    site = subject.site
    if site.cluster.mode == "autopilot":
        yield ok("Autopilot chooses its machines itself.")
        return
    if site.cluster.existing:
        yield ok("The cluster is there, with its pools.")
        return
    name = site.cluster.default_pool.machine_type
    nearest = "another cluster.defaultPool.machineType, such as e2-standard-16"
    yield _machine(subject, name, f"{site.cluster.default_pool.nodes} x {name}", nearest, "")


def version(subject: Subject) -> Iterator[Finding]:
    """That GKE offers here what the site file asks for, and not less than DRANET needs."""
    site = subject.site
    cluster = next((one for one in subject.resources if isinstance(one, Cluster)), None)
    if cluster is not None and subject.is_there(cluster):
        yield ok("The cluster is there: its version is looked at with it.")
        return
    config = subject.cloud.clusters.get_server_config(name=gke.location_path(site), retry=READS)
    channel = site.cluster.release_channel
    minimum = dranet.minimum_version(site)
    chosen = versions.offer(config, channel).resolve(site.cluster.version, minimum)
    why = f" (DRANET needs {minimum})" if minimum else ""
    yield ok(f"{chosen} from the {channel} channel{why}" if channel else f"{chosen}, in no release channel{why}")


def reservation(subject: Subject) -> Iterator[Finding]:
    """That it has the machines, free, for the slices that are still to be made."""
    site = subject.site
    if site.tpu.capacity != "reservation":
        yield ok(f"None is used: capacity is {site.tpu.capacity}.")
        return
    name, project = site.tpu.reservation, site.tpu.reservation_project or site.project
    what = f"Reservation {name} in project {project}, zone {site.zone}"
    try:
        # The site may name a part of it, as NAME/reservationBlocks/BLOCK.
        found = subject.cloud.reservations.get(
            project=project, zone=site.zone, reservation=name.partition("/")[0], retry=READS
        )
    except NotFound:
        yield problem(
            f"{what}: there is none.",
            "A reservation holds machines of one zone.",
            "correct tpu.reservation, tpu.reservationProject or zone in the site file "
            f"(gcloud compute reservations list --project={project})",
        )
        return
    except Forbidden as error:
        if is_api_off(error):
            raise
        yield warning(
            f"{what}: it may not be looked at.",
            "compute.reservations.get in that project would tell whether it is large enough.",
            f"have it granted: roles/compute.viewer in {project}",
        )
        return
    yield from _reserved(subject, found, what)


def _reserved(subject: Subject, found: compute.Reservation, what: str) -> Iterator[Finding]:
    site = subject.site
    pools = [one for one in subject.resources if isinstance(one, NodePool)]
    slices = len(list(subject.missing(NodePool))) if pools else site.tpu.slices
    if found.status != "READY":
        yield problem(f"{what} is {found.status}.", "Its machines can be used when it is READY.", "wait, or see to it")
    if not found.specific_reservation_required:
        yield warning(
            f"{what} may be used up by any machine of its kind.",
            "GKE names it, and such a one is best kept for those that name it.",
            "make it anew with gcloud compute reservations create --require-specific-reservation",
        )
    if site.tpu.reservation_project and found.share_settings.share_type == "LOCAL":
        yield problem(
            f"{what} is not shared with project {site.project}.",
            "Another project's reservation must be shared with those that use it.",
            f"gcloud compute reservations update {found.name} --project={site.tpu.reservation_project} "
            f"--zone={site.zone} --add-share-with={site.project}",
        )
    sku = found.specific_reservation
    if not sku.count:  # one by the amount of chips, of which the API does not tell how many are free for a shape
        yield ok(f"{what} is there; how much of it is free is not told.")
        return
    machine = sku.instance_properties.machine_type
    if machine != site.slice.machine_type:
        yield problem(
            f"{what} holds {machine}.",
            f"The slices are built of {site.slice.machine_type}.",
            "another reservation, or the type, topology and chipsPerHost that it was made for",
        )
        return
    free, needed = sku.count - sku.in_use_count, slices * site.slice.hosts
    if free < needed:
        yield problem(
            f"{what}: {free} of its {sku.count} machines are free, {needed} are needed.",
            f"{slices} slices of {site.slice.hosts} hosts are still to be made.",
            "fewer tpu.slices, or enlarge the reservation",
        )
    else:
        yield ok(f"{what}: {free} of {sku.count} x {machine} are free, {needed} needed.")


def _machine(subject: Subject, name: str, what: str, fix: str, more: str) -> Finding:
    site = subject.site
    if subject.machine_type(name):
        return ok(what)
    zones = _zones_with(subject, site, name)
    if not zones:
        rule = f"No zone that this project sees has {name}."
        return problem(f"{what}: zone {site.zone} has no {name}.", rule, f"another machine or type {more}".strip())
    shown = ", ".join(zones[:_ZONES_TOLD]) + (f" and {len(zones) - _ZONES_TOLD} more" if zones[_ZONES_TOLD:] else "")
    return problem(f"{what}: zone {site.zone} has no {name}.", f"These have it: {shown}.", fix.format(zone=zones[0]))


def _zones_with(subject: Subject, site: Site, name: str) -> list[str]:
    """Those of the same region first."""
    request = {"project": site.project, "filter": f"name = {name}"}
    found = [
        place.removeprefix("zones/")
        for place, scoped in subject.cloud.machine_types.aggregated_list(request=request, retry=READS)
        if any(one.name == name for one in scoped.machine_types)
    ]
    return sorted(found, key=lambda one: (not one.startswith(site.region), one))
