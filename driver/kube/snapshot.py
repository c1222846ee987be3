"""A release as it is: everything that a screen shows, read in one pass.

The pods of a release are listed as `kubectl get` prints them, which is a quarter of what they are and has their state
in one word; whole are only those that do not run, whose conditions say why, and all of a small cluster. Events cannot
be selected by label: three lists hold those that matter. Claims for network devices are not read: what a pod waits for
the scheduler says itself, and there is one for each host. So the number of calls is that of the pages, 500 objects
each. Each list shows one moment, the lists follow one another within a second or two.
"""

import difflib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from driver.errors import USAGE, DriverError
from driver.kube import objects, parsing
from driver.kube.connection import Connection, ForbiddenError
from driver.kube.lists import METADATA, TABLE, Listing, Object, collect
from driver.kube.objects import Detail, Lost, Pod, RayCluster, RayJob, Sign, Slice, Snapshot

# A cluster up to this many hosts is read whole, some 20 KB each: only so are the numbers of its hosts known that run,
# unless KubeRay labels them. Of a larger one those of the first slice are.
_READ_WHOLE = 64
_EVENTS = (
    "type=Warning",
    # The autoscaler's, which are no warnings: why no node is made for a pod, and that one is being made.
    "reason=NotTriggerScaleUp",
    "reason=TriggeredScaleUp",
    # How a pod goes with its node.
    "reason=TaintManagerEviction",
)
# Reasons of events that tell of a pod's end by its node's.
_LOSSES = {
    "TaintManagerEviction": "its node was taken away",
    "NodeNotReady": "its node does not answer",
    "NodeShutdown": "its node was shut down",
    "Preempted": "a pod of higher priority took its place",
    "Evicted": "it was evicted",
}


def read(connection: Connection, release: str) -> Snapshot:
    """The release at this moment. Raises a DriverError, with the nearest release where there is none of this name."""
    taken = time.time()
    job = newest_job(connection, release)
    clusters = collect(connection, Listing("rayclusters", _of_chart(release)), parsing.ray_cluster)
    cluster = next((one for one in clusters if job and one.name == job.cluster), None) or objects.newest(clusters)
    if job is None and cluster is None:
        raise _not_found(connection, release, releases(connection))
    of_release = f"{objects.INSTANCE}={release}"
    pods = collect(connection, Listing("pods", of_release, form=TABLE), parsing.pod)
    details = _details(connection, of_release, cluster, pods)
    pods = [_numbered(one, details.get(one.name)) for one in pods if _belongs(one, cluster, job)]
    events = _events(connection, _Subjects(cluster, job, frozenset(one.name for one in pods)))
    pools, remarks = _node_pools(connection, pods)
    return Snapshot(
        release=release,
        namespace=connection.namespace,
        taken=taken,
        cluster=cluster,
        job=job,
        head=max((one for one in pods if one.role == "head"), key=_age, default=None),
        slices=_slices(cluster, [one for one in pods if one.role == "worker"]),
        submitters=tuple(one for one in pods if one.role == "submitter"),
        signs=(*(sign for one in pods if one.name in details for sign in details[one.name].signs), *events),
        lost=_lost(events, pods),
        pools=pools,
        remarks=remarks,
    )


def newest_job(connection: Connection, release: str) -> RayJob | None:
    """The release's RayJob, which may be on its way out: Helm makes a new one before it deletes the old one."""
    return objects.newest(collect(connection, Listing("rayjobs", _of_chart(release)), parsing.ray_job))


def releases(connection: Connection) -> list[str]:
    """The releases of the chart in the namespace, by the label of their RayClusters and RayJobs.

    One that is stopped and whose cluster belonged to the run has neither, and only `helm list` knows it.
    """
    found: set[str] = set()
    for resource in ("rayclusters", "rayjobs"):
        found.update(collect(connection, Listing(resource, objects.CHART, form=METADATA), _release))
    return sorted(found)


def existing_release(connection: Connection, name: str = "") -> str:
    """The release of this name, or the only one without a name. Raises a DriverError where there is none, or more."""
    if not name:
        return only_release(connection)
    known = releases(connection)
    if name not in known:
        raise _not_found(connection, name, known)
    return name


def only_release(connection: Connection) -> str:
    """The release that is meant where none is named. Raises a DriverError where there is none, or more than one."""
    found = releases(connection)
    if len(found) == 1:
        return found[0]
    where = f"namespace {connection.namespace}"
    if not found:
        raise DriverError(f"There is no release in {where}.", fix="driver runs -n NAMESPACE looks into another one")
    raise DriverError(f"{where} has the releases {', '.join(found)}.", fix="name one of them", exit_code=USAGE)


@dataclass(frozen=True)
class _Subjects:
    """What an event must be of to be the release's."""

    cluster: RayCluster | None
    job: RayJob | None
    pods: frozenset[str]

    def have(self, sign: Sign) -> bool:
        if sign.kind == "Pod":
            return sign.name in self.pods or self._was_a_pod(sign.name)
        named = {"RayCluster": self.cluster, "RayJob": self.job, "Job": self.job}.get(sign.kind)
        return named is not None and named.name == sign.name

    def _was_a_pod(self, name: str) -> bool:
        """KubeRay's names of workers (1.5, utils.PodName): CLUSTER-GROUP-worker-XXXXX, cut where they are too long."""
        if self.cluster is None:
            return False
        return re.fullmatch(rf"{re.escape(self.cluster.name)}-.*worker-\w{{5}}", name) is not None


def _of_chart(release: str) -> str:
    """Selects the release's RayClusters and RayJobs: another chart's release may have the same name."""
    return f"{objects.INSTANCE}={release},{objects.CHART}"


def _release(one: Object) -> str | None:
    return (one["metadata"].get("labels") or {}).get(objects.INSTANCE)


def _not_found(connection: Connection, release: str, known: Sequence[str]) -> DriverError:
    near = difflib.get_close_matches(release, known, n=1)
    return DriverError(
        f"There is no release {release} in namespace {connection.namespace} of {connection.context}"
        f"{f'. Did you mean {near[0]}?' if near else '.'}",
        rule=f"It has {', '.join(known)}." if known else "It has no release of this chart with a cluster or a run.",
        fix="" if near else "-n NAMESPACE looks elsewhere; `helm list -n NAMESPACE` shows stopped ones too",
    )


def _belongs(one: Pod, cluster: RayCluster | None, job: RayJob | None) -> bool:
    """Not the pods of the cluster that an upgrade replaces, nor others that happen to carry the label."""
    if one.role == "submitter":
        return job is not None and one.name.startswith(f"{job.name}-")
    return cluster is not None and one.cluster == cluster.name


def _details(
    connection: Connection, of_release: str, cluster: RayCluster | None, pods: Sequence[Pod]
) -> dict[str, Detail]:
    if cluster is None or cluster.most * cluster.hosts_per_slice <= _READ_WHOLE:
        listings = [Listing("pods", of_release)]
    else:
        listings = [Listing("pods", of_release, fields="status.phase!=Running")]
        # Process 0 of the training, which has the gauges, is on the first host of the first slice that trains.
        first = min((one.slice for one in pods if one.ready and one.slice is not None), default=None)
        if first is not None:
            labels = f"{of_release},{objects.SLICE_BY_WEBHOOK}={cluster.group}-{first}"
            listings.append(Listing("pods", labels))
    return {one.name: one for listing in listings for one in collect(connection, listing, parsing.detail)}


def _numbered(one: Pod, whole: Detail | None) -> Pod:
    return replace(one, host=whole.host) if whole and one.host is None else one


def _slices(cluster: RayCluster | None, workers: Sequence[Pod]) -> tuple[Slice, ...]:
    """By number; those that are asked for and have no pod yet are there with no hosts."""
    size = cluster.hosts_per_slice if cluster else 1
    by_number: dict[int, list[Pod]] = {}
    for number, one in enumerate(sorted(workers, key=_place)):
        # Without a webhook's label hosts are in the order of their names, and a slice is as many as it has hosts.
        by_number.setdefault(number // size if one.slice is None else one.slice, []).append(one)
    wanted = cluster.wanted if cluster and not cluster.suspended else 0
    missing = (number for number in range(wanted) if number not in by_number)
    while len(by_number) < wanted:
        by_number[next(missing)] = []
    return tuple(Slice(number, size, tuple(hosts)) for number, hosts in sorted(by_number.items()))


def _place(one: Pod) -> tuple[int, int, str]:
    return (one.slice or 0, -1 if one.host is None else one.host, one.name)


def _age(one: Pod) -> tuple[bool, str]:
    return (not one.leaving, one.created)


def _events(connection: Connection, subjects: _Subjects) -> list[Sign]:
    """The last one of each object and reason: a pod that waits for an hour has hundreds."""
    last: dict[tuple[str, str, str], Sign] = {}

    def keep(whole: Object) -> None:
        sign = parsing.event(whole)
        if subjects.have(sign):
            key = (sign.kind, sign.name, sign.source)
            last[key] = max(sign, last.get(key, sign), key=lambda one: one.at)

    for fields in _EVENTS:
        collect(connection, Listing("events", fields=fields), keep)
    return list(last.values())


def _lost(events: Iterable[Sign], pods: Iterable[Pod]) -> tuple[Lost, ...]:
    """Latest first."""
    alive = {one.name for one in pods if not one.leaving and not one.ended}
    lost = [
        Lost(sign.name, sign.at, _LOSSES[sign.source])
        for sign in events
        if sign.kind == "Pod" and sign.source in _LOSSES and sign.name not in alive
    ]
    return tuple(sorted(lost, key=lambda one: one.at, reverse=True))


def _node_pools(connection: Connection, pods: Iterable[Pod]) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Node to node pool, of the pods' nodes; and a remark where they may not be read, a right that no Role can give."""
    nodes = {one.node for one in pods if one.role == "worker" and one.node}
    if not nodes:
        return {}, ()
    pools: dict[str, str] = {}

    def keep(node: Object) -> None:
        metadata = node["metadata"]
        pool = (metadata.get("labels") or {}).get(objects.NODE_POOL)
        if pool and metadata["name"] in nodes:
            pools[metadata["name"]] = pool

    try:
        collect(connection, Listing("nodes", labels=objects.ACCELERATOR, form=METADATA), keep)
    except ForbiddenError as error:
        return {}, (f"Node pools are not shown: {error.found} That needs a ClusterRole.",)
    return pools, ()
