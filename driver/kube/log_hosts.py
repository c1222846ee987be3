"""Which hosts a run's log lines come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from driver.kube import objects, parsing
from driver.kube.lists import Listing, Object, collect

if TYPE_CHECKING:
    from driver.kube.connection import Connection


@dataclass(frozen=True, slots=True)
class Host:
    """The pod that has, or had last, an address. slice, host: its numbers, -1 where nothing tells them."""

    slice: int
    host: int
    pod: str
    ip: str


def hosts(connection: Connection, release: str) -> list[Host]:
    """The release's worker pods that have an address, also those of a cluster that is being replaced; of two with one
    address the newer one last. Raises a DriverError."""
    workers = Listing("pods", f"{objects.INSTANCE}={release},{objects.ROLE}=worker")
    found = collect(connection, workers, _host)
    return [host for _, host in sorted(found, key=lambda each: each[0])]


def _host(pod: Object) -> tuple[str, Host] | None:
    address = pod["status"].get("podIP")
    if not address:
        return None
    number, host = parsing.place(pod)
    metadata = pod["metadata"]
    place = (-1 if number is None else number, -1 if host is None else host)
    return str(metadata["creationTimestamp"]), Host(*place, metadata["name"], address)
