"""Ends a release's run, and waits until what belonged to it is gone.

Helm does not wait for what it did not make: the pods of a RayCluster, or the cluster of a RayJob. KubeRay has a
finalizer on a RayJob and tells Ray to stop the job before it lets the object go.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from driver.errors import DriverError
from driver.kube.connection import Connection, ForbiddenError, NotFoundError, explained
from driver.kube.lists import METADATA, Listing, collect_versioned
from driver.kube.watches import SERVER_SECONDS, events
from driver.resources import CHART_NAME

GONE_SECONDS = 600.0
"""For KubeRay to end a job, and for pods to end: their grace period, and the saving of a checkpoint in it."""

OURS = f"app.kubernetes.io/managed-by=Helm,app.kubernetes.io/name={CHART_NAME}"

_NAMED_BY_CONTENT = {
    "rayclusters": "/apis/ray.io/v1",
    "configmaps": "/api/v1",
    "resourceclaimtemplates": "/apis/resource.k8s.io/v1",
}
_NOT_FOUND = 404
_TOO_OLD = 410


def selector(release: str) -> str:
    """Of what Helm made for the release."""
    return f"{OURS},app.kubernetes.io/instance={release}"


def jobs(connection: Connection, release: str) -> list[str]:
    """Names of the release's RayJobs. None where the cluster has no KubeRay."""
    return sorted(_names(connection, Listing("rayjobs", selector(release), form=METADATA))[0])


def clusters(connection: Connection, release: str) -> list[str]:
    """Names of the release's RayClusters, and of those that its RayJobs made: KubeRay copies a job's labels."""
    return sorted(_names(connection, Listing("rayclusters", selector(release), form=METADATA))[0])


def remove_leftovers(connection: Connection, release: str) -> list[str]:
    """Deletes the release's objects whose names change with their content, and of which one may be in no revision any
    more; without waiting. The answer: what may not be looked for, a sentence each."""
    unseen = []
    for kind, api in _NAMED_BY_CONTENT.items():
        collection = f"{api}/namespaces/{connection.namespace}/{kind}"
        try:
            with explained(f"looking for {kind} that are left of {release}", "list", kind):
                query = {"labelSelector": selector(release)}
                found = connection.request("GET", collection, query, accept=METADATA)
        except ForbiddenError as error:
            unseen.append(error.found)
            continue
        except NotFoundError:  # the cluster does not have the kind
            continue
        for one in found.get("items") or []:  # null for none
            _delete(connection, kind, f"{collection}/{one['metadata']['name']}")
    return unseen


def of_job(name: str) -> str:
    """The labels of a cluster that a RayJob has made (KubeRay 1.5)."""
    return f"ray.io/originated-from-cr-name={name}"


def clusters_of_job(connection: Connection, name: str) -> list[str]:
    """Names of the RayClusters that a RayJob has made."""
    return sorted(_names(connection, Listing("rayclusters", of_job(name), form=METADATA))[0])


def remove_jobs(connection: Connection, names: list[str], tell: Callable[[str], None]) -> None:
    """Deletes RayJobs, and returns when they are gone: their runs have ended then.

    Raises a DriverError where one is still there after GONE_SECONDS.
    """
    for name in names:
        _delete(connection, "rayjobs", f"{Listing('rayjobs').path(connection)}/{name}")
    for name in names:
        tell(f"waiting until RayJob {name} has ended")
        await_gone(connection, "rayjobs", fields=f"metadata.name={name}")


def await_release_gone(connection: Connection, release: str, clusters: list[str], tell: Callable[[str], None]) -> None:
    """Until neither Ray objects of the release nor pods of its clusters are left. Raises a DriverError."""
    for kind in ("rayjobs", "rayclusters"):
        tell(f"waiting for the {kind} of {release}")
        await_gone(connection, kind, labels=selector(release))
    for cluster in clusters:
        tell(f"waiting for the pods of {cluster}")
        await_gone(connection, "pods", labels=f"ray.io/cluster={cluster}")


def await_gone(connection: Connection, kind: str, *, labels: str = "", fields: str = "") -> None:
    """Until no object is left that the selectors choose, by a watch. Raises a DriverError after GONE_SECONDS."""
    deadline = time.monotonic() + GONE_SECONDS
    listing = Listing(kind, labels, fields, METADATA)
    while True:
        left, version = _names(connection, listing)
        if not left:
            return
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise _still_there(kind, left)
        begun = time.monotonic()
        _watch(connection, listing, version, left, math.ceil(min(seconds, SERVER_SECONDS)))
        if left:  # watches that end at once must not become a storm of lists
            time.sleep(max(0.0, 1.0 - (time.monotonic() - begun)))


def _watch(connection: Connection, listing: Listing, version: str, left: set[str], seconds: int) -> None:
    """Takes out of `left` what goes, until nothing is left or the watch ends: the next list tells what is left then."""
    with explained(f"watching {listing.resource}", "watch", listing.resource):
        try:
            for event in events(connection, listing, version, seconds=seconds):
                name = event["object"]["metadata"].get("name")  # a bookmark has none
                if event["type"] == "DELETED":
                    left.discard(name)
                elif event["type"] == "ADDED":
                    left.add(name)
                if not left:
                    return
        except ApiException as error:
            if error.status != _TOO_OLD:
                raise
        except (HTTPError, OSError, ValueError):
            return


def _delete(connection: Connection, kind: str, path: str) -> None:
    """Gone already is no error."""
    with explained(f"deleting {path.rpartition('/')[2]}", "delete", kind):
        try:
            connection.request("DELETE", path)
        except ApiException as error:
            if error.status != _NOT_FOUND:
                raise


def _names(connection: Connection, listing: Listing) -> tuple[set[str], str]:
    """Names, and the version of the list. None where the kind is not known to the cluster."""
    try:
        names, version = collect_versioned(connection, listing, lambda one: str(one["metadata"]["name"]))
    except NotFoundError:
        return set(), ""
    return set(names), version


def _still_there(kind: str, names: set[str]) -> DriverError:
    some = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
    if kind == "pods":
        fix = "kubectl describe pod tells what holds it; a node that is gone holds its pods until it is deleted"
    else:
        fix = "see that the operator runs: kubectl get pods -A -l app.kubernetes.io/component=kuberay-operator"
    return DriverError(
        f"{some}: {kind} that should be gone are still there after {GONE_SECONDS:.0f} seconds.",
        rule="KubeRay's operator ends a job on Ray, and its pods, before it lets the object go.",
        fix=fix,
    )
