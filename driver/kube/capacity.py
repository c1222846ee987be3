"""Whether the slices of a run can be had: free TPU nodes of its shape, or something that makes more.

GKE's TPU webhook gives a slice a node pool of its own (required anti-affinity by cloud.google.com/gke-nodepool), so
what counts is whole pools: ready nodes with room for as many pods as a slice has hosts, in chips that nobody else uses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from driver.findings import Finding, ok, problem, warning
from driver.kube.connection import Connection, ForbiddenError, NotFoundError, explained
from driver.kube.lists import EVERYWHERE, Listing, Object, collect

if TYPE_CHECKING:
    from driver.kube.preconditions import Subject

CHIPS = "google.com/tpu"
_POOL = "cloud.google.com/gke-nodepool"
_COMPUTE_CLASS = "cloud.google.com/compute-class"
_TAINT = "ToBeDeletedByClusterAutoscaler"


@dataclass
class Pool:
    """A node pool of the run's shape. free: the hosts of a slice for which it has chips on ready nodes. room: the same,
    if nobody else used it. users: who does, in words, each with the command that ends it (empty where none is known).
    """

    name: str
    free: int = 0
    room: int = 0
    users: dict[str, str] = field(default_factory=dict)
    why_not: list[str] = field(default_factory=list)


def check(subject: Subject) -> Iterator[Finding]:
    """Raises ForbiddenError where nodes may not be looked at."""
    worker = subject.worker
    if not worker:
        return
    run = subject.rendering.run
    selector = {key: str(value) for key, value in (worker.get("nodeSelector") or {}).items()}
    hosts, least, most = int(run["tpu"]["hostsPerSlice"]), int(run["slices"]["min"]), int(run["slices"]["max"])
    shape = f"{run['tpu']['type']} {run['tpu']['topology']}"
    pools = look(subject.connection, selector, int(run["tpu"]["chipsPerHost"]), subject.release)
    whole = [one for one in pools if one.free >= hosts]
    seen = f"{len(whole)} of {len(pools)} node pools with {shape} have a whole slice free ({hosts} hosts)"
    if len(whole) >= most:
        yield ok(f"{seen}; the run wants {most}.")
        return
    because = "; ".join(f"{one.name}: {', '.join(one.why_not)}" for one in pools if one.why_not)
    needs = f"{least} to {most}" if most > least else str(least)
    found = f"{seen}, and the run needs {needs}{f' ({because})' if because else ''}."
    chosen = ", ".join(f"{key}={value}" for key, value in selector.items())
    rule = f"Each slice is a node pool of its own, selected by {chosen}."
    if _COMPUTE_CLASS in selector:
        yield ok(f"{seen}; GKE makes what is missing, by the ComputeClass {selector[_COMPUTE_CLASS]}.")
    elif len(whole) >= least:
        yield warning(found, rule, "the run starts on what there is, and grows when more comes")
    elif sum(one.room >= hosts for one in pools) >= least:
        yield warning(found, rule, f"the run waits until they are free; {_give_up(pools)}")
    elif _grows(subject.connection):
        yield warning(
            found, rule, "the run waits for node pools to grow, if one of this shape may; driver status tells"
        )
    else:
        yield problem(
            found,
            rule,
            "driver bootstrap makes the site's node pools; tpu.slices, tpu.topology and tpu.capacity say what to ask "
            "for",
        )


def _give_up(pools: list[Pool]) -> str:
    """What gives the slices back that others use."""
    users = {user: stop for one in pools for user, stop in one.users.items()}
    stops = [stop for stop in dict.fromkeys(users.values()) if stop]
    return f"wait for {', '.join(users)}{f', or end it: {"; ".join(stops)}' if stops else ''}"


def _kept(node: Object) -> tuple[str, Object]:
    """Of a node, by its name, what is looked at: the whole of one has some ten kilobytes."""
    status = node.get("status", {})
    return str(node["metadata"]["name"]), {
        "metadata": {"labels": node["metadata"].get("labels", {})},
        "spec": {name: node.get("spec", {}).get(name) for name in ("unschedulable", "taints")},
        "status": {name: status.get(name) or {} for name in ("conditions", "allocatable")},
    }


def look(connection: Connection, selector: Mapping[str, str], chips: int, release: str) -> list[Pool]:
    """The node pools that have nodes of the selector, by name. What this release uses itself counts as free.

    Without the right to list pods of all namespaces, what others use is not known and not counted.
    """
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    nodes = dict(collect(connection, Listing("nodes", labels), _kept))
    users = _users(connection, set(nodes), release)
    pools: dict[str, Pool] = defaultdict(lambda: Pool(""))
    for name, node in nodes.items():
        label = node["metadata"].get("labels", {}).get(_POOL, name)
        pool = pools[label]
        pool.name = label
        user, stop, taken = users.get(name, ("", "", 0))
        why = _unusable(node)
        hosts = 0 if why else (_chips(node) - taken) // chips
        pool.free += hosts
        pool.room += 0 if why else _chips(node) // chips
        if user and not why:
            pool.users[user] = stop
        why = why or (user and f"used by {user}") or f"a node has fewer than {chips} chips"
        if not hosts and why not in pool.why_not:
            pool.why_not.append(why)
    return [pools[name] for name in sorted(pools)]


def _chips(node: Mapping[str, Any]) -> int:
    return int(node.get("status", {}).get("allocatable", {}).get(CHIPS, 0))


def _unusable(node: Mapping[str, Any]) -> str:
    conditions = {one["type"]: one["status"] for one in node.get("status", {}).get("conditions") or []}
    if conditions.get("Ready") != "True":
        return "a node is not ready"
    if node.get("spec", {}).get("unschedulable"):
        return "a node is cordoned"
    if any(one.get("key") == _TAINT for one in node.get("spec", {}).get("taints") or []):
        return "a node is being removed"
    return ""


def _users(connection: Connection, nodes: set[str], release: str) -> dict[str, tuple[str, str, int]]:
    """By node: who else uses its chips, the command that ends it, and how many chips."""

    def use(pod: Object) -> tuple[str, str, str, int] | None:
        node = pod.get("spec", {}).get("nodeName")
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        instance, namespace = labels.get("app.kubernetes.io/instance"), metadata["namespace"]
        own = instance == release and namespace == connection.namespace
        ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        chips = _chips_asked_for(pod)
        if node not in nodes or own or ended or not chips:
            return None
        user = f"{namespace}/{labels.get('ray.io/cluster') or metadata['name']}"
        if instance:
            # A stop keeps the cluster, and with it the chips.
            return node, f"{user} (release {instance})", f"driver uninstall {instance} -n {namespace}", chips
        return node, user, "", chips

    used: dict[str, tuple[str, str, int]] = {}
    try:
        for node, user, stop, chips in collect(
            connection, Listing("pods", "ray.io/cluster", namespace=EVERYWHERE), use
        ):
            used[node] = user, stop, used.get(node, ("", "", 0))[2] + chips
    except ForbiddenError:
        return {}
    return used


def _chips_asked_for(pod: Mapping[str, Any]) -> int:
    containers = pod.get("spec", {}).get("containers") or []
    return sum(int((one.get("resources", {}).get("requests") or {}).get(CHIPS, 0)) for one in containers)


def _grows(connection: Connection) -> bool:
    """Whether the cluster has an autoscaler, which writes what it does into this config map."""
    path = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
    try:
        with explained("looking for the cluster autoscaler", "get", "configmaps"):
            connection.request("GET", path)
    except ForbiddenError:
        return True  # not known: the run may wait, and status tells why
    except NotFoundError:
        return False
    return True
