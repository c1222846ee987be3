"""The log of one container, line by line, each line once, whatever breaks on the way."""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from kubernetes.client import ApiException
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError, ReadTimeoutError

from driver.errors import DriverError
from driver.kube.connection import UnreachableError, explained

if TYPE_CHECKING:
    from driver.kube.connection import Connection
    from driver.kube.objects import Pod

NANO = 10**9
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)$")
_LINE_BYTES = 1 << 16
# A stream that is silent for so long is asked for anew: a lost node or a proxy may have forgotten it.
_SILENT_SECONDS = 60.0
_RETRY_SECONDS = 1.0
_PATIENCE_SECONDS = 300.0
_END_SECONDS = 30.0
SUBMITTER = "ray-job-submitter"
"""KubeRay's name (1.5) of the container that follows the Ray job; a mesh may put others beside it."""
_LAST_LINES = 1000
"""Not so many bytes: that would cut the end off, which has the cause."""


@dataclass(frozen=True, slots=True)
class Line:
    """time: when the kubelet's runtime took the line, Unix nanoseconds. text: without the line's end."""

    time: int
    text: str


class PodLog:
    """Iterates over the lines of a container. Nothing is kept of what was given out but the time of the last line.

    since: the lines of so many seconds only. follow: goes on until the container has ended, through API servers and
    kubelets that are away for up to five minutes. tell: hears what the user should know. stopped: ends it.
    """

    def __init__(
        self,
        connection: Connection,
        pod: str,
        container: str,
        *,
        since: int | None = None,
        follow: bool = False,
        tell: Callable[[str], None] = lambda _: None,
        stopped: threading.Event | None = None,
    ) -> None:
        self._connection, self._pod, self._container = connection, pod, container
        self._since, self._follow, self._tell = since, follow, tell
        self._stopped = stopped or threading.Event()
        self._begun = time.monotonic()
        self._last, self._of_last = 0, 0

    def __iter__(self) -> Iterator[Line]:
        """Raises a DriverError where the caller may not read it, or the API does not answer for too long."""
        away_since: float | None = None
        while not self._stopped.is_set():
            try:
                # Asked before the stream: one that began after the container's end has all of its lines.
                ended = self._ended()
                for line in self._once(ended):
                    away_since = None
                    yield line
                away_since = None
                if ended or not self._follow:
                    return
            except _NotYetError:
                if not self._follow:
                    return
                away_since = None
            except ReadTimeoutError:
                away_since = None  # it only had nothing to say
            except (UnreachableError, HTTPError) as error:
                if away_since is None:
                    away_since = time.monotonic()
                    self._tell(f"the log of {self._pod} breaks off, trying again: {_short(error)}")
                elif time.monotonic() - away_since > _PATIENCE_SECONDS:
                    raise DriverError(
                        f"The log of {self._pod} could not be read for {_PATIENCE_SECONDS:.0f} s: {_short(error)}"
                    ) from None
            self._stopped.wait(_RETRY_SECONDS)

    def _ended(self) -> bool:
        """Whether the container's last line is written; also when the pod is gone."""
        with explained(f"reading pod {self._pod}", "get", "pods"):
            try:
                pod = self._connection.request("GET", _path(self._connection, self._pod))
            except ApiException as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return True
                raise
        return pod["status"].get("phase") in ("Succeeded", "Failed")

    def _once(self, ended: bool) -> Iterator[Line]:
        """One stream's lines, without those that were given out before.

        ended: whether the container is. Before, what stands behind the last line's end is the half of a line.
        """
        answer = self._rest()
        if answer is None:
            return
        skip = self._of_last
        try:
            for raw in _lines(answer, rest=ended or not self._follow):
                line = _parsed(raw, self._last)
                if line.time < self._last:
                    continue
                if line.time == self._last and skip:
                    skip -= 1
                    continue
                self._of_last = self._of_last + 1 if line.time == self._last else 1
                self._last = line.time
                yield line
        finally:
            answer.close()

    def _rest(self) -> BaseHTTPResponse | None:
        """The stream of what was not given out yet, as `_opened`."""
        query = {"container": self._container, "timestamps": "true"}
        since = None
        if self._last:  # the stamps are the node's own, so whose clock it is does not matter
            query["sinceTime"] = datetime.fromtimestamp(self._last // NANO, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        elif self._since is not None:
            since = self._since + int(time.monotonic() - self._begun)
        if self._follow:
            query["follow"] = "true"
        if since is not None:
            query["sinceSeconds"] = str(since)
        return _opened(self._connection, self._pod, query, _SILENT_SECONDS)


def last_words(connection: Connection, submitters: Iterable[Pod]) -> str:
    """The end of what the job printed, from the logs of its submitters, the newest last. One that is gone, that never
    began, or whose node does not answer has none. Raises a DriverError.
    """
    said = []
    for pod in sorted(submitters, key=lambda one: one.created):
        try:
            said.append(_last_lines(connection, pod.name))
        except UnreachableError:
            continue
    return "\n".join(said)


def _last_lines(connection: Connection, pod: str) -> str:
    """Of a submitter's own container; empty where the pod is gone, or it has not started."""
    with explained(f"reading the log of {pod}", "get", "pods/log"):
        try:
            query = {"container": SUBMITTER, "tailLines": str(_LAST_LINES)}
            answer = _opened(connection, pod, query, _END_SECONDS)
        except _NotYetError:
            return ""
        return answer.data.decode(errors="replace") if answer is not None else ""


class _NotYetError(Exception):
    """The container has not started."""


def _opened(
    connection: Connection, pod: str, query: Mapping[str, str], silent_seconds: float
) -> BaseHTTPResponse | None:
    """The stream of a log, None where the pod is gone. Raises _NotYetError before the container has started."""
    with explained(f"reading the log of {pod}", "get", "pods/log"):
        path = f"{_path(connection, pod)}/log"
        response: BaseHTTPResponse = connection.send("GET", path, query, read_seconds=silent_seconds).response
        if response.status == HTTPStatus.OK:
            return response
        refusal = ApiException(http_resp=response)  # which reads it to its end
        match response.status:
            case HTTPStatus.NOT_FOUND:
                return None
            case HTTPStatus.BAD_REQUEST:  # "container ... is waiting to start"
                raise _NotYetError
        raise refusal


def _path(connection: Connection, pod: str) -> str:
    return f"/api/v1/namespaces/{connection.namespace}/pods/{pod}"


def _lines(answer: BaseHTTPResponse, *, rest: bool) -> Iterator[bytes]:
    """A stream's lines; of one that is longer than 64 KiB the beginning. rest: also what has no end."""
    kept = bytearray()
    for chunk in answer.stream(_LINE_BYTES):
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            kept += chunk[start : min(end, start + _LINE_BYTES - len(kept))]
            yield bytes(kept)
            kept.clear()
            start = end + 1
        kept += chunk[start : start + _LINE_BYTES - len(kept)]
    if kept and rest:
        yield bytes(kept)


def _parsed(raw: bytes, before: int) -> Line:
    """A line that has no time (the kubelet's own words) has that of the line before it."""
    stamp, _, text = raw.decode(errors="replace").rstrip("\r").partition(" ")
    time_of_it = nanoseconds(stamp)
    return Line(time_of_it, text) if time_of_it is not None else Line(before, f"{stamp} {text}".rstrip())


def nanoseconds(stamp: str) -> int | None:
    """RFC 3339 as Unix nanoseconds; None where it is something else."""
    found = _STAMP.match(stamp)
    if not found:
        return None
    return _second(found[1], found[3]) + int((found[2] or "").ljust(9, "0"))


@functools.lru_cache(64)
def _second(text: str, zone: str) -> int:
    return int(datetime.fromisoformat(text + zone).timestamp()) * NANO


def _short(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
