"""Preflight's check of what is there under our names: whose it is, whether it fits, and whether the names do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from google.api_core.exceptions import Forbidden

from driver.gcp import plan
from driver.gcp.errors import explain, is_api_off
from driver.gcp.findings import Finding, Subject, not_checked, of_error, ok, problem, warning
from driver.gcp.kinds.bucket import Bucket
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.firewall import Firewall
from driver.gcp.kinds.network import Network
from driver.gcp.kinds.node_pool import NodePool
from driver.gcp.kinds.subnet import Subnet
from driver.gcp.plan import Action
from driver.gcp.resource import Found, Resource

# https://cloud.google.com/compute/docs/naming-resources and GKE's API reference (40 for clusters and node pools).
_LONGEST: Mapping[type[Resource], int] = {Network: 63, Subnet: 63, Firewall: 63, Cluster: 40, NodePool: 40}

_WORDS = {
    Action.KEEP: "there as wanted",
    Action.USE: "there to be used",
    Action.WAIT: "being made",
    Action.CREATE: "to be made",
    Action.UPDATE: "to be changed",
    Action.REPLACE: "to be made again",
    Action.REFUSE: "in the way",
}


def check(subject: Subject) -> Iterator[Finding]:
    """What is in the way of the plan, and how many resources are there and to be made."""
    counted: Counter[Action] = Counter()
    hidden: list[str] = []
    for resource in subject.resources:
        yield from _name(resource)
        seen = subject.looks[resource.key]
        if isinstance(seen, Forbidden) and not is_api_off(seen):
            hidden.append(resource.key)
        elif isinstance(seen, Exception):
            yield _unseen(subject, resource, seen)
        else:
            step = plan.compare(resource, seen)
            counted[step.action] += 1
            yield from [of_error(step.problem)] if step.problem else _flat(subject, resource, seen)
    if hidden:
        yield problem(
            f"{', '.join(hidden)}: not to be seen with these credentials.",
            "What is there already decides what is made.",
            "the commands of the check of permissions",
        )
    if counted:
        yield ok(", ".join(f"{counted[action]} {words}" for action, words in _WORDS.items() if counted[action]) + ".")


def _name(resource: Resource) -> Iterator[Finding]:
    longest = next((most for kind, most in _LONGEST.items() if isinstance(resource, kind)), None)
    if longest and len(resource.name) > longest:
        yield problem(
            f"{resource.key} would have a name of {len(resource.name)} characters.",
            f"Google takes {longest}; we add to the cluster's name.",
            f"a cluster.name that is {len(resource.name) - longest} characters shorter",
        )


def _unseen(subject: Subject, resource: Resource, error: Exception) -> Finding:
    if is_api_off(error):
        return not_checked(f"{resource.key}: its API is off.")
    return of_error(explain(error, f"looking for {resource.key}", subject.site))


def _flat(subject: Subject, resource: Resource, seen: Found | None) -> Iterator[Finding]:
    """A flat bucket works: the chart then mounts it with a limit for renames."""
    wanted = subject.site.bucket.hierarchical_namespace
    if isinstance(resource, Bucket) and not (seen.details["hierarchicalNamespace"] if seen else wanted):
        yield warning(
            f"{resource.key} {'has' if seen else 'would have'} no hierarchical namespace.",
            "A checkpoint is committed by renaming a folder. In a flat bucket that copies object by object: slow, and "
            "not all at once.",
            "another bucket.name, and bucket.hierarchicalNamespace left out of the site file",
        )
