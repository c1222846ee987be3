"""A run's log as it is shown: read in one thread, folded and given out in the caller's."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from driver.kube import log_hosts
from driver.kube.job_log import JobLog
from driver.kube.log_lines import Folding, Said, Speakers
from driver.kube.pod_log import Line

if TYPE_CHECKING:
    from driver.kube.connection import Connection

# Lines that wait to be shown. A reader that is ahead of a slow terminal waits too, and with it the API server's stream.
_WAITING = 1000
_TICK_SECONDS = 0.5


def raw(
    connection: Connection, release: str, *, since: int | None, follow: bool, tell: Callable[[str], None]
) -> Iterator[str]:
    """Each line as Ray has written it. Raises a DriverError."""

    def log(stopped: threading.Event) -> JobLog:
        return JobLog(connection, release, since=since, follow=follow, tell=tell, stopped=stopped)

    for line in _fed(log):
        if line is not None:
            yield line.text


def shown(
    connection: Connection,
    release: str,
    *,
    slice_number: int | None = None,
    host: int | None = None,
    since: int | None = None,
    follow: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Said]:
    """Who said what, repetitions folded; of a slice or of the hosts of a number only where one is given.

    Raises a DriverError.
    """
    speakers = Speakers(lambda: log_hosts.hosts(connection, release))
    folding = Folding()
    unknown: set[str] = set()
    newest, heard_at = 0, time.monotonic()
    chosen = slice_number is not None or host is not None

    def wanted(said: Said) -> bool:
        if chosen and said.slice < 0 and said.ip and said.ip not in unknown and len(unknown) < _WAITING:
            unknown.add(said.ip)
            tell(f"{said.ip} is no host of the cluster any more: its lines are shown without --slice and --host only")
        return slice_number in (None, said.slice) and host in (None, said.host) and (not chosen or said.slice >= 0)

    def log(stopped: threading.Event) -> JobLog:
        return JobLog(connection, release, since=since, follow=follow, tell=tell, stopped=stopped)

    for line in _fed(log):
        if line is None:
            # Nothing new: time goes on all the same, and with it what was repeated is due.
            yield from folding.due(newest + int((time.monotonic() - heard_at) * 1e9))
            continue
        newest, heard_at = line.time, time.monotonic()
        said = speakers.said(line)
        if wanted(said):
            yield from folding.add(said)
    yield from folding.due()


def _fed(log: Callable[[threading.Event], Iterable[Line]]) -> Iterator[Line | None]:
    """The lines of a log that a thread reads, and None for each half second without one."""
    stopped = threading.Event()
    waiting: queue.Queue[Line | BaseException | None] = queue.Queue(_WAITING)

    def put(each: Line | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                waiting.put(each, timeout=_TICK_SECONDS)
                return
            except queue.Full:
                continue

    def read() -> None:
        end: BaseException | None = None
        try:
            for line in log(stopped):
                put(line)
        except BaseException as error:  # noqa: BLE001, it is raised in the caller's thread
            end = error
        put(end)

    threading.Thread(target=read, name="log", daemon=True).start()
    try:
        while True:
            try:
                each = waiting.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                yield None
                continue
            if isinstance(each, BaseException):
                raise each
            if each is None:
                return
            yield each
    finally:
        stopped.set()
