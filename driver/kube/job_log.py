"""What a run and all its workers have printed, in the order in which the head heard it: the submitter pods' logs.

Why there, and not in the workers' own: docs/watching.md. KubeRay's submitter follows the Ray job's log, so a submitter
that takes another one's place prints it all again; what was given out before is left out here.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from driver.errors import DriverError
from driver.kube import parsing, snapshot
from driver.kube.connection import UnreachableError
from driver.kube.lists import Listing, Object, collect
from driver.kube.objects import RayJob
from driver.kube.pod_log import NANO, SUBMITTER, Line, PodLog

if TYPE_CHECKING:
    from driver.kube.connection import Connection

_ENDED = ("Complete", "Failed", "ValidationFailed", "Suspended")
_LOOK_SECONDS = 2.0
# How long an upgrade may take that replaces a RayJob with a cluster of its own: the old one has ended before.
_SUCCESSOR_SECONDS = 60.0
_PATIENCE_SECONDS = 300.0
# So many lines in a row are taken for a place in the log, and so many before the end are looked through for it: the
# last ones may be a submitter's own, about a head that it could not reach.
_PLACE = 8
_KEPT = 512
_REPLAY_SECONDS = 60
# The first line of a Ray job's own log (Ray 2.60), with the time to the millisecond.
_BEGIN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\s+INFO job_manager\.py")


@dataclass(frozen=True, slots=True)
class _Submitter:
    """A pod of a RayJob's submitter. submission: the Ray job that it follows. begun: whether it has a log."""

    pod: str
    uid: str
    created: str
    submission: str
    container: str
    begun: bool


class JobLog:
    """Iterates over the lines of a release's newest run.

    since: those of so many seconds only. follow: goes on until the run has ended, over submitters and, after an
    upgrade or `--rerun`, over RayJobs. tell: hears what the user should know. stopped: ends it.
    """

    def __init__(
        self,
        connection: Connection,
        release: str,
        *,
        since: int | None = None,
        follow: bool = False,
        tell: Callable[[str], None] = lambda _: None,
        stopped: threading.Event | None = None,
    ) -> None:
        self._connection, self._release = connection, release
        self._since, self._follow, self._tell = since, follow, tell
        self._stopped = stopped or threading.Event()
        self._read: set[str] = set()
        self._submission, self._begin = "", ""
        self._tail: deque[int] = deque(maxlen=_KEPT)
        self._waited_for = ""
        self._seen_at = time.monotonic()

    def __iter__(self) -> Iterator[Line]:
        """Raises a DriverError where there is no run, or what it needs may not be read."""
        while not self._stopped.is_set():
            job = self._patiently(self._job)
            if job is None and not (self._follow and self._read):
                raise DriverError(
                    f"The release {self._release} has no run: it was stopped, or installed with job.enabled=false.",
                    fix=f"driver install {self._release} -n {self._connection.namespace} --rerun",
                )
            if job is not None:
                self._seen_at = time.monotonic()
            elif time.monotonic() - self._seen_at > _SUCCESSOR_SECONDS:
                self._tell(f"the run of {self._release} was removed")
                return
            submitters = self._next(job.name) if job else []
            for submitter in submitters:
                yield from self._of(submitter)
            if submitters:
                continue
            ended = job is not None and job.deployment in _ENDED
            if ended or not self._follow:
                if not self._read:
                    raise DriverError(f"The submitter of {self._release} has no log: its pod {_why(job, ended)}.")
                return
            self._wait_for(job)

    def _job(self) -> RayJob | None:
        """The newest RayJob, unless it is being removed."""
        job = snapshot.newest_job(self._connection, self._release)
        return job if job and not job.deleting else None

    def _next(self, job: str) -> list[_Submitter]:
        """The submitters that were not read yet and have begun, the oldest first."""
        found = self._patiently(lambda: _submitters(self._connection, job))
        return [submitter for submitter in found if submitter.uid not in self._read and submitter.begun]

    def _of(self, submitter: _Submitter) -> Iterator[Line]:
        again = submitter.submission == self._submission and bool(self._tail)
        if submitter.submission != self._submission:
            self._submission, self._begin = submitter.submission, ""
            self._tail.clear()
        self._read.add(submitter.uid)
        # A submitter that begins anew has printed all of it lately: its times say nothing about the lines.
        since = None if again else self._since
        lines = PodLog(
            self._connection,
            submitter.pod,
            submitter.container,
            since=since,
            follow=self._follow,
            tell=self._tell,
            stopped=self._stopped,
        )
        for line in self._new(iter(lines)) if again else lines:
            self._tail.append(hash(line.text))
            if _BEGIN.match(line.text):
                self._begin = line.text
            yield line

    def _new(self, lines: Iterator[Line]) -> Iterator[Line]:
        """The lines of another submitter of the same Ray job that the ones before it have not given out: those behind
        `_tail`. Where these do not come within a minute, or at all, the newest, and a word of how many are left out."""
        known = list(self._tail)
        places = {tuple(known[at : at + _PLACE]) for at in range(max(1, len(known) - _PLACE + 1))}
        window: deque[int] = deque(maxlen=min(_PLACE, len(known)))
        unplaced: deque[Line] = deque(maxlen=_KEPT)
        found, first, passed = False, 0, 0
        for line in lines:
            first = first or line.time
            window.append(hash(line.text))
            matches = tuple(window) in places
            found = found or matches
            if found and not matches:
                yield line
                break
            if not found:
                unplaced.append(line)
                passed += 1
                # On a head that was lost, Ray knows nothing of the job: it was submitted again, and its log is another.
                another = self._begin and _BEGIN.match(line.text) and line.text != self._begin
                if another or line.time - first > _REPLAY_SECONDS * NANO:
                    break
        if not found:
            if passed > len(unplaced):
                self._tell(
                    f"another submitter has taken over; {passed - len(unplaced)} lines of its are left out as known"
                )
            yield from unplaced
        yield from lines

    def _patiently[T](self, look: Callable[[], T]) -> T:
        """The answer, when following also of an API server that is away for some minutes."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return look()
            except UnreachableError as error:
                if not self._follow or time.monotonic() > deadline or self._stopped.wait(_LOOK_SECONDS):
                    raise
                if error.found != self._waited_for:
                    self._waited_for = error.found
                    self._tell(f"trying again: {error.found}")

    def _wait_for(self, job: RayJob | None) -> None:
        name = job.name if job else self._release
        if name != self._waited_for:
            self._waited_for = name
            self._tell(f"{name} is {_state(job)}: waiting for its submitter")
        self._stopped.wait(_LOOK_SECONDS)


def _submitters(connection: Connection, job: str) -> list[_Submitter]:
    """The submitter pods of a RayJob, the oldest first: its Job has the RayJob's name."""
    found = collect(connection, Listing("pods", f"batch.kubernetes.io/job-name={job}"), _submitter)
    return sorted(found, key=lambda submitter: submitter.created)


def _submitter(pod: Object) -> _Submitter:
    metadata = pod["metadata"]
    containers = [str(container["name"]) for container in pod["spec"]["containers"]]
    return _Submitter(
        pod=metadata["name"],
        uid=metadata["uid"],
        created=metadata["creationTimestamp"],
        submission=parsing.variable(pod, "RAY_JOB_SUBMISSION_ID"),
        container=SUBMITTER if SUBMITTER in containers else containers[0],
        begun=pod["status"].get("phase") != "Pending",
    )


def _why(job: RayJob | None, ended: bool) -> str:
    if ended:
        return f"is gone, or was never made (the RayJob is {_state(job)})"
    return f"has not started (the RayJob is {_state(job)}); --follow waits for it"


def _state(job: RayJob | None) -> str:
    return (job.deployment if job else "") or "not seen by KubeRay yet"
