"""Tells when a release has changed, so that a look at it is made when it is worth its cost.

The watches are a doorbell and no more: what is shown comes from a whole look (driver.kube.snapshot), so that nothing is
lost or seen twice when a watch ends. And watches end: by the server's own timeout, by a version that is too old (410),
by a restart of the API server, by a network that drops a connection without a word. Each is taken up where it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kubernetes import client
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from driver.errors import DriverError
from driver.kube.lists import METADATA, Listing, version_of
from driver.kube.watches import events

if TYPE_CHECKING:
    from driver.kube.connection import Connection

_UNAUTHORIZED, _GONE = 401, 410
_REFUSALS = (400, _UNAUTHORIZED, 403, 404, 405)
_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 8.0


@dataclass(frozen=True)
class Refusal:
    """What the API server will refuse again: the resource, and the status that it answered."""

    resource: str
    error: client.ApiException


class Changes:
    """Watches RayClusters, RayJobs and pods with a label selector, in threads of their own. A context manager.

    explain: makes the DriverError of a refusal (a missing right, a cluster without KubeRay).
    """

    def __init__(self, connection: Connection, selector: str, explain: Callable[[Refusal], DriverError]) -> None:
        self._listings = [Listing(kind, selector, form=METADATA) for kind in ("rayclusters", "rayjobs", "pods")]
        self._connection, self._explain = connection, explain
        self._rang, self._stopped = threading.Event(), threading.Event()
        self._rang.set()  # nothing was looked at yet
        self._lock = threading.Lock()
        self._away: dict[str, float] = {}
        self._known: set[str] = set()
        self._refusal: Refusal | None = None
        self._defect: Exception | None = None
        self._open: dict[str, BaseHTTPResponse] = {}

    def __enter__(self) -> Self:
        for listing in self._listings:
            name = f"watch {listing.resource}"
            threading.Thread(target=self._run, args=[listing], name=name, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        with self._lock:
            for response in self._open.values():
                response.shutdown()

    @property
    def seconds_away(self) -> float:
        """How long the API server has not answered a watch; 0 while it answers."""
        with self._lock:
            return time.monotonic() - min(self._away.values()) if self._away else 0.0

    def wait(self, seconds: float) -> bool:
        """Until something has changed since the last call, at most so long; whether it has.

        Raises a DriverError when a watch is refused.
        """
        rang = self._rang.wait(seconds)
        self._rang.clear()
        if self._defect is not None:
            raise self._defect
        if self._refusal is not None:
            raise self._explain(self._refusal)
        return rang

    def _run(self, listing: Listing) -> None:
        try:
            self._watch(listing)
        except Exception as error:  # noqa: BLE001  # raised again for who waits
            self._defect = error
            self._rang.set()

    def _watch(self, listing: Listing) -> None:
        resource, version, pause = listing.resource, "", _FIRST_PAUSE_SECONDS
        while not self._stopped.is_set():
            try:
                if not version:
                    version = version_of(self._connection, listing)
                    self._known.add(resource)
                    self._rang.set()  # what has changed before that is not known
                began = time.monotonic()
                for event in events(self._connection, listing, version, opened=partial(self._opened, resource)):
                    pause = _FIRST_PAUSE_SECONDS
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._rang.set()
                self._answered(resource)
                if time.monotonic() - began > 1.0:
                    continue  # the server's own end of it; a proxy's comes at once, and again and again
            except client.ApiException as error:
                # A login that has lasted so far is renewed by the client, a moment later.
                if error.status in _REFUSALS and not (error.status == _UNAUTHORIZED and resource in self._known):
                    self._refusal = Refusal(resource, error)
                    self._rang.set()
                    return
                if error.status == _GONE:
                    version = ""
                self._not_answered(resource)
            except (HTTPError, OSError, ValueError):  # ValueError: half a line, of a connection that was cut
                self._not_answered(resource)
            finally:
                with self._lock:
                    self._open.pop(resource, None)
            self._stopped.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _opened(self, resource: str, response: BaseHTTPResponse) -> None:
        with self._lock:
            self._open[resource] = response
        self._answered(resource)

    def _answered(self, resource: str) -> None:
        with self._lock:
            was_away = self._away.pop(resource, None)
        if was_away is not None:
            self._rang.set()

    def _not_answered(self, resource: str) -> None:
        if self._stopped.is_set():
            return
        with self._lock:
            self._away.setdefault(resource, time.monotonic())
        self._rang.set()
