"""Lists from the API server, page by page, in the smallest form that says enough.

A page is parsed, what is kept of it is small, and the page is dropped before the next one is asked for: memory is that
of one page and of what is kept, however many objects there are. All pages of a list show one moment, which is how the
API server's continue tokens work.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kubernetes import client

from driver.kube.connection import Connection, explained

PAGE = 500

# https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
"""What `kubectl get` prints: for a pod a quarter of the object, with its status in one word."""
FULL = "application/json"

EVERYWHERE = "*"
"""In place of a namespace: all of them."""

_CORE, _RAY = "/api/v1", "/apis/ray.io/v1"
_NAMESPACED = {"pods": _CORE, "events": _CORE, "services": _CORE, "rayclusters": _RAY, "rayjobs": _RAY}
_CLUSTER_WIDE = {"nodes": _CORE}
_TRIES = 3
_GONE = 410

Object = dict[str, Any]


@dataclass(frozen=True)
class Listing:
    """What to ask for. labels, fields: selectors in Kubernetes' own notation. form: METADATA, TABLE or FULL.

    namespace: empty for the connection's.
    """

    resource: str
    labels: str = ""
    fields: str = ""
    form: str = FULL
    namespace: str = ""

    def path(self, connection: Connection) -> str:
        if self.resource in _CLUSTER_WIDE:
            return f"{_CLUSTER_WIDE[self.resource]}/{self.resource}"
        group = _NAMESPACED[self.resource]
        if self.namespace == EVERYWHERE:
            return f"{group}/{self.resource}"
        return f"{group}/namespaces/{self.namespace or connection.namespace}/{self.resource}"


def collect[T](connection: Connection, listing: Listing, keep: Callable[[Object], T | None]) -> list[T]:
    """What `keep` makes of each object, without its Nones.

    keep: gets an object (for METADATA, its metadata alone; for TABLE, a row: {"cells": {column: value}, "object":
    {"metadata": ...}}) and returns something small. Raises a DriverError.
    """
    return collect_versioned(connection, listing, keep)[0]


def collect_versioned[T](
    connection: Connection, listing: Listing, keep: Callable[[Object], T | None]
) -> tuple[list[T], str]:
    """The same, and the resourceVersion of the list: a watch from it tells all that changes afterwards."""
    version = ""

    def pages() -> Iterator[Object]:
        nonlocal version
        for page in _pages(connection, listing):
            version = str(page.get("metadata", {}).get("resourceVersion") or "")
            yield page

    with explained(f"reading {listing.resource}", "list", listing.resource):
        for left in reversed(range(_TRIES)):
            try:
                kept = (keep(one) for page in pages() for one in _objects(page))
                return [one for one in kept if one is not None], version
            except client.ApiException as error:
                # The moment that the first page showed is compacted away: the list begins anew, so as to show one.
                if error.status != _GONE or not left:
                    raise
    raise AssertionError("the last try returns or raises")


def version_of(connection: Connection, listing: Listing) -> str:
    """The resourceVersion of the whole list as it is now, which a page of one object tells.

    Raises ApiException and urllib3's errors, as Connection.request does: who watches tells them apart.
    """
    return str(_ask(connection, listing, limit=1)["metadata"]["resourceVersion"])


def _pages(connection: Connection, listing: Listing) -> Iterator[Object]:
    token = ""
    while True:
        page = _ask(connection, listing, token)
        token = page.get("metadata", {}).get("continue") or ""
        yield page
        if not token:
            return
        page.clear()  # before the next one is there


def _ask(connection: Connection, listing: Listing, token: str = "", limit: int = PAGE) -> Object:
    """One page. The client's own methods would make an object of each field, which takes ten times as long."""
    query = {
        "limit": str(limit),
        "labelSelector": listing.labels,
        "fieldSelector": listing.fields,
        "continue": token,
    }
    given = {name: value for name, value in query.items() if value}
    page: Object = connection.request("GET", listing.path(connection), given, accept=listing.form)
    return page


def _objects(page: Object) -> Iterator[Object]:
    if page.get("kind") == "Table":
        columns = [column["name"] for column in page.get("columnDefinitions") or []]
        for row in page.get("rows") or []:
            yield {"cells": dict(zip(columns, row["cells"], strict=True)), "object": row.get("object") or {}}
    else:
        yield from page.get("items") or []
