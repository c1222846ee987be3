"""Watches, and the ways in which they end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping

from tests.kube.server.calls import Object, StatusError
from tests.kube.server.kinds import KINDS, Address
from tests.kube.server.lists import in_form
from tests.kube.server.objects import Event, Objects
from tests.kube.server.selectors import chosen

PATIENCE_SECONDS = 60.0
"""How long a test waits for what must come."""
_LONGEST_SECONDS = 60.0


class Watches:
    """begun: plural and version of each that was begun. errors: by plural, what the next watch is told in place of
    events, after which it ends (an ERROR).
    """

    def __init__(self, objects: Objects) -> None:
        self.begun: list[tuple[str, int]] = []
        self.errors: dict[str, Object] = {}
        self._objects = objects
        self._round = 0

    def end(self) -> None:
        """All that are open, as the server does after their time."""
        with self._objects.changed:
            self._round += 1
            self._objects.changed.notify_all()

    def await_begun(self, count: int) -> None:
        """Until so many were begun in all."""
        with self._objects.changed:
            assert self._objects.changed.wait_for(lambda: len(self.begun) >= count, PATIENCE_SECONDS), self.begun

    def begin(self, at: Address, query: Mapping[str, str], accept: str) -> Iterator[bytes]:
        """What happens after the version that the query names, a line of JSON each; without a version what is there
        comes first. Raises a StatusError where the version is forgotten."""
        since = int(query.get("resourceVersion") or 0)
        with self._objects.changed:
            if since < self._objects.compacted and since:
                raise StatusError(410, f"too old resource version: {since} ({self._objects.compacted})")
            first = [] if since else self._initial(at, query)
            since = since or self._objects.version
            self.begun.append((at.plural, since))
            self._objects.changed.notify_all()
            seconds = float(query.get("timeoutSeconds") or _LONGEST_SECONDS)
            events = self._events(at, query, since, self._round, time.monotonic() + seconds)
        return (_line(event, accept) for events in (first, events) for event in events)

    def _initial(self, at: Address, query: Mapping[str, str]) -> list[Object]:
        there = self._objects.all(at.plural, at.namespace)
        events = [{"type": "ADDED", "object": one} for one in there if chosen(one, query)]
        if query.get("sendInitialEvents") == "true":
            kind = KINDS[at.plural]
            end = {"resourceVersion": str(self._objects.version), "annotations": {"k8s.io/initial-events-end": "true"}}
            bookmark = {"apiVersion": kind.version, "kind": kind.name, "metadata": end}
            events.append({"type": "BOOKMARK", "object": bookmark})
        return events

    def _events(
        self, at: Address, query: Mapping[str, str], since: int, begun: int, deadline: float
    ) -> Iterator[Object]:
        if at.plural in self.errors:
            yield self.errors.pop(at.plural)
            return
        while True:
            with self._objects.changed:
                found = [one for one in self._objects.history if one.version > since and _concerns(one, at, query)]
                left = deadline - time.monotonic()
                if not found and (self._round != begun or left <= 0):
                    return
                if not found:
                    self._objects.changed.wait(left)
            for one in found:
                since = one.version
                yield {"type": one.type, "object": one.object}


def _concerns(event: Event, at: Address, query: Mapping[str, str]) -> bool:
    if event.plural != at.plural:
        return False
    if event.type == "BOOKMARK":
        return query.get("allowWatchBookmarks") in ("true", "True")
    return at.namespace in ("", event.object["metadata"].get("namespace", "")) and chosen(event.object, query)


def _line(event: Object, accept: str) -> bytes:
    whole = event if event["type"] in ("ERROR", "BOOKMARK") else event | {"object": in_form(event["object"], accept)}
    return json.dumps(whole).encode() + b"\n"
