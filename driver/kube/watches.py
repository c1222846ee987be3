"""One watch of the API server: what changes in a list from a version on, until the server ends it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kubernetes import client
from urllib3 import BaseHTTPResponse

if TYPE_CHECKING:
    from driver.kube.connection import Connection
    from driver.kube.lists import Listing, Object

SERVER_SECONDS = 240
"""After which the server ends a watch. Bookmarks come every minute, so that much silence means a dead connection."""
SILENT_SECONDS = 150.0

# Objects are large, and of a change mostly that it was is wanted.
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def events(
    connection: Connection,
    listing: Listing,
    version: str,
    *,
    seconds: int = SERVER_SECONDS,
    opened: Callable[[BaseHTTPResponse], None] = lambda _: None,
) -> Iterator[Object]:
    """The watch's events, bookmarks among them: `{"type": ..., "object": {"metadata": ...}}`.

    version: the resourceVersion after which to begin. seconds: after which the server ends it. opened: gets the
    response, whose shutdown() ends the watch from another thread.
    Raises ApiException for what the server says in place of an event (410: the version is too old), urllib3's errors
    and OSError for a connection that breaks, and ValueError for half a line of one.
    """
    query = {
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(seconds),
        "labelSelector": listing.labels,
        "fieldSelector": listing.fields,
    }
    given = {name: value for name, value in query.items() if value}
    answer = connection.send(
        "GET", listing.path(connection), given, accept=_METADATA_ONLY, read_seconds=min(SILENT_SECONDS, seconds + 10)
    )
    response: BaseHTTPResponse = answer.response
    try:
        if response.status != 200:
            raise client.ApiException(status=response.status, reason=response.reason)
        opened(response)
        for line in _lines(response):
            event: Object = json.loads(line)
            if event["type"] == "ERROR":
                said = event["object"]
                raise client.ApiException(status=said.get("code", 500), reason=said.get("message", ""))
            yield event
    finally:
        response.close()


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for part in response.stream(amt=None, decode_content=False):
        *lines, rest = (rest + part).split(b"\n")
        yield from (line for line in lines if line.strip())
