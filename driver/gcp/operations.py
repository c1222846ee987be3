"""Waiting for what Google Cloud does in the background, in a way that can be followed and stopped.

Compute's own futures wait at Google's address whatever the endpoint is, and neither kind of future can be stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.api_core import exceptions
from google.api_core.operation import Operation as LongRunning

from driver.errors import DriverError
from driver.gcp import errors
from driver.gcp.cloud import READS, Cloud
from driver.gcp.waiting import Waiting

if TYPE_CHECKING:
    from google.cloud.compute_v1 import Operation

IN_USE_SECONDS = 15 * 60.0
"""How long a delete waits for what still uses the resource: GKE removes its firewall rules and routes some minutes
after the cluster."""


def finish(cloud: Cloud, operation: Operation, waiting: Waiting, what: str) -> None:
    """Returns when compute's operation, as from `insert_unary`, is done. Raises what it failed with, as the
    GoogleAPICallError of its HTTP status."""
    place: dict[str, str]
    if operation.zone:
        client: Any = cloud.zone_operations
        place = {"zone": last(operation.zone)}
    elif operation.region:
        client, place = cloud.region_operations, {"region": last(operation.region)}
    else:
        client, place = cloud.global_operations, {}
    latest = operation

    def done() -> bool:
        nonlocal latest
        if latest.status != latest.Status.DONE:
            latest = client.get(project=cloud.project, operation=operation.name, retry=READS, **place)
        return latest.status == latest.Status.DONE

    waiting.until(done, what)
    if latest.error.errors or latest.http_error_status_code:
        raise _failure(latest)


def finish_long_running(operation: LongRunning, waiting: Waiting, what: str) -> Any:
    """The result of an operation of the other APIs, when it is done. Raises what it failed with."""
    waiting.until(lambda: bool(operation.done(retry=READS)), what)
    return operation.result(timeout=60)


def delete(cloud: Cloud, begin: Callable[[], Operation], waiting: Waiting, what: str) -> None:
    """Deletes with compute, and waits while the resource is in use by what goes away by itself.

    begin: starts the delete. what: names the resource ("VPC network multislice-net-1").
    Gone already is no error. Raises a DriverError when it is in use for more than IN_USE_SECONDS.
    """
    deadline = time.monotonic() + IN_USE_SECONDS
    reason = ""

    def gone() -> bool:
        nonlocal reason
        try:
            finish(cloud, begin(), waiting, f"deleting {what}")
        except exceptions.NotFound:
            return True
        except exceptions.GoogleAPICallError as error:
            if not (errors.is_in_use(error) or errors.is_busy(error)):
                raise
            reason = errors.said(error)
            if time.monotonic() > deadline:
                raise _still_in_use(what, reason) from error
            waiting.tell(f"{what} is in use, waiting: {reason}")
            return False
        return True

    waiting.until(gone, f"waiting until {what} is no longer in use")


def last(url: str) -> str:
    """The name at the end of a resource's URL."""
    return url.rstrip("/").rpartition("/")[2]


def _failure(operation: Operation) -> exceptions.GoogleAPICallError:
    """What Google says, with its error codes, which say more than the HTTP status does."""
    parts: list[str] = []
    for one in operation.error.errors:
        localized = [detail.localized_message.message for detail in one.error_details]
        parts.append(" ".join([f"{one.code}: {one.message}", *filter(None, localized)]))
    text = "; ".join(parts) or operation.http_error_message
    status = operation.http_error_status_code or 500
    error: exceptions.GoogleAPICallError = exceptions.from_http_status(
        status, text, errors=list(operation.error.errors), response=operation
    )
    return error


def _still_in_use(what: str, reason: str) -> DriverError:
    return DriverError(
        f"{what} is still in use after {IN_USE_SECONDS / 60:.0f} minutes: {reason}",
        rule="GKE removes its firewall rules and routes within some minutes of the cluster. What others made in the "
        "network stays until they remove it.",
        fix="remove what is named above if it is yours, then run driver teardown again",
    )
