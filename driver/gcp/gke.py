"""GKE's operations and paths. A cluster takes one change at a time: what runs already is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from google.api_core import exceptions
from google.cloud.container_v1.types import Operation

from driver.gcp.cloud import READS

if TYPE_CHECKING:
    from driver.gcp.cloud import Cloud
    from driver.gcp.site import Site
    from driver.gcp.waiting import Waiting


def location_path(site: Site) -> str:
    """Where the cluster is, as GKE names it."""
    return f"projects/{site.project}/locations/{site.location}"


def cluster_path(site: Site) -> str:
    return f"{location_path(site)}/clusters/{site.cluster.name}"


def node_pool_path(site: Site, name: str) -> str:
    return f"{cluster_path(site)}/nodePools/{name}"


def wait(cloud: Cloud, site: Site, operation: Operation, waiting: Waiting, what: str) -> None:
    """Returns when the operation is done.

    Raises the error that it ended with, as one of google.api_core.exceptions, and WaitStoppedError.
    """
    path = f"{location_path(site)}/operations/{operation.name}"
    latest = [operation]

    def done() -> bool:
        if latest[0].status != Operation.Status.DONE:
            latest[0] = cloud.clusters.get_operation(name=path, retry=READS)
        return bool(latest[0].status == Operation.Status.DONE)

    waiting.until(done, what)
    ended = latest[0]
    if ended.error.code:
        raise exceptions.from_grpc_status(ended.error.code, ended.error.message)
    if ended.status_message:  # what operations had before there was `error`
        raise exceptions.Unknown(ended.status_message)


def running(cloud: Cloud, site: Site) -> Sequence[Operation]:
    """The operations that go on at the cluster and its node pools."""
    answer = cloud.clusters.list_operations(parent=location_path(site), retry=READS)
    mark = f"/clusters/{site.cluster.name}"
    return [
        operation
        for operation in answer.operations
        if operation.status != Operation.Status.DONE and f"{mark}/" in f"{operation.target_link}/"
    ]


def await_idle(cloud: Cloud, site: Site, waiting: Waiting) -> None:
    """Returns when nothing goes on at the cluster. How that ended is not looked at: it was another's."""

    def idle() -> bool:
        going = running(cloud, site)
        if going:
            names = ", ".join(sorted(operation.operation_type.name.lower() for operation in going))
            waiting.tell(f"the cluster is busy: {names}")
        return not going

    waiting.until(idle, f"waiting until cluster {site.cluster.name} is idle")


def why(message: str, conditions: Sequence[Any]) -> str:
    """The reason of a status: GKE's conditions, or the message that it had before them."""
    said = "; ".join(
        dict.fromkeys(f"{one.code.name}: {one.message}" if one.code else one.message for one in conditions)
    )
    return said or message
