"""The logs of pods, which go on until their container has ended."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.kube.server.calls import StatusError
from tests.kube.server.objects import Objects
from tests.kube.server.watches import PATIENCE_SECONDS

_NANO = 10**9


@dataclass
class Log:
    """A container's log: (Unix nanoseconds, text). ended: no line will follow."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    ended: bool = False


class Logs:
    """By pod, of the namespace `team`. begun: how often one was asked for."""

    def __init__(self, objects: Objects) -> None:
        self.begun = 0
        self._logs: dict[str, Log] = {}
        self._objects = objects
        self._round = 0

    def say(self, pod: str, *texts: str, at: int | None = None) -> None:
        """Lines, a microsecond apart, now or at a time in Unix nanoseconds."""
        begin = time.time_ns() if at is None else at
        with self._objects.changed:
            self._of(pod).lines += [(begin + 1000 * number, text) for number, text in enumerate(texts)]
            self._objects.changed.notify_all()

    def end(self, pod: str, phase: str = "Succeeded") -> None:
        """The container has ended, and its pod is in this phase."""
        with self._objects.changed:
            self._of(pod).ended = True
            self._objects.get("pods", pod)["status"]["phase"] = phase
            self._objects.changed.notify_all()

    def await_begun(self, count: int) -> None:
        """Until so many were asked for in all."""
        with self._objects.changed:
            assert self._objects.changed.wait_for(lambda: self.begun >= count, PATIENCE_SECONDS), self.begun

    def stop(self) -> None:
        """Nobody follows one any more."""
        with self._objects.changed:
            self._round += 1
            self._objects.changed.notify_all()

    def read(self, pod: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """Line by line. Raises a StatusError where there is no pod, or its container has not begun."""
        if self._objects.get("pods", pod).get("status", {}).get("phase") == "Pending":
            raise StatusError(400, f'container in pod "{pod}" is waiting to start: ContainerCreating')
        with self._objects.changed:
            self.begun += 1
            self._objects.changed.notify_all()
            return self._lines(self._of(pod), query, self._round)

    def _lines(self, log: Log, query: Mapping[str, str], begun: int) -> Iterator[bytes]:
        follow, stamped = query.get("follow") == "true", query.get("timestamps") == "true"
        since = time.time_ns() - int(query["sinceSeconds"]) * _NANO if "sinceSeconds" in query else 0
        if "sinceTime" in query:
            since = int(datetime.fromisoformat(query["sinceTime"]).timestamp()) * _NANO
        sent = max(0, len(log.lines) - int(query["tailLines"])) if "tailLines" in query else 0
        while True:
            with self._objects.changed:
                if follow:
                    self._objects.changed.wait_for(functools.partial(self._goes_on, log, sent, begun))
                fresh, sent = log.lines[sent:], len(log.lines)
                ended = log.ended or self._round != begun
            for at, text in fresh:
                if at >= since:
                    yield f"{_stamp(at)} {text}\n".encode() if stamped else f"{text}\n".encode()
            if ended or not follow:
                return

    def _goes_on(self, log: Log, sent: int, begun: int) -> bool:
        return len(log.lines) > sent or log.ended or self._round != begun

    def _of(self, pod: str) -> Log:
        return self._logs.setdefault(pod, Log())


def _stamp(at: int) -> str:
    return f"{datetime.fromtimestamp(at // _NANO, UTC):%Y-%m-%dT%H:%M:%S}.{at % _NANO:09d}Z"
