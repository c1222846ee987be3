"""Follows a release's run from the install to its end, whatever goes away meanwhile: a watch, the API server, KubeRay's
operator, the head, the submitter.

What is shown comes from whole looks at the release (driver.kube.snapshot) and from the run's gauges; a watch only tells
when to look. So an end that came while nobody looked is seen at the next look, and none is seen that was not one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from driver.errors import DriverError
from driver.kube import causes, outcome, release_view
from driver.kube.outcome import Outcome
from driver.kube.release_view import ReleaseView
from driver.kube.training import Training
from driver.local.progress import TRAINING, Display, duration

if TYPE_CHECKING:
    from driver.kube.objects import RayJob, Snapshot

_TICK_SECONDS = 1.0
_LOOK_SECONDS = 30.0
"""Between looks when no watch tells of a change."""
_PENDING_LOOK_SECONDS = 5.0
"""The same while something is pending: events, which say why, are not watched."""
_SILENT_SECONDS = 900.0
"""How long the API server may be away: GKE's upgrades of a zonal control plane take some minutes."""
_ENDED = ("Complete", "Failed", "ValidationFailed")
_HELD = ("Suspended", "Suspending")
_UNDER_WAY = ("RUNNING", "SUCCEEDED", "FAILED", "STOPPED")


class GoneError(DriverError):
    """The release is not there, or not any more."""


class Reason(Protocol):
    """Why something is pending (driver.kube.reasons)."""

    @property
    def means(self) -> str: ...
    @property
    def fix(self) -> str: ...


class Source(Protocol):
    """Where what is followed comes from (driver.kube.source)."""

    def wait(self, seconds: float) -> bool:
        """Until something has changed, at most so long; whether it has.

        Raises a DriverError for what may not be read.
        """

    def snapshot(self) -> Snapshot | None:
        """The release now; None while the API server does not answer.

        Raises a GoneError where there is no such release, and a DriverError for all else.
        """

    def gauges(self, snapshot: Snapshot) -> Mapping[str, float]:
        """The run's gauges by name; empty where nobody exports any."""

    @property
    def trouble(self) -> str:
        """Why the gauges could not be read; empty where they could, or nobody is there to ask."""

    def reasons(self, snapshot: Snapshot) -> Sequence[Reason]:
        """Why what is pending does not start."""

    def words(self, snapshot: Snapshot) -> str:
        """The end of what the job printed; empty where it cannot be had."""


@dataclass(frozen=True)
class Request:
    """What is followed.

    job: the RayJob's name; empty for the newest. steps: 0 where it is not known.
    checkpoints: whether the run saves any. start_timeout: seconds until the first workers must be there; 0: no limit.
    """

    release: str
    job: str = ""
    steps: int = 0
    checkpoints: bool = True
    start_timeout: float = 0.0
    namespace: str = ""

    def command(self, name: str, *options: str) -> str:
        """One of the driver's, for this release."""
        return " ".join(["driver", name, self.release, *(["-n", self.namespace] if self.namespace else []), *options])

    @property
    def come_back(self) -> str:
        """The command that follows again."""
        return self.command("status", "--watch")


class Follower:
    """One run. display: an entered display. happened: `{"time", "kind", "text"}` in order, kind being "host", "job" or
    "restart"."""

    def __init__(
        self, request: Request, source: Source, display: Display, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.request = request
        self.happened: list[dict[str, Any]] = []
        self.view = ReleaseView({"name": request.release, "steps": request.steps}, "Looking at the cluster")
        self.snapshot: Snapshot | None = None
        self.training = Training()
        self.running_at: float | None = None
        self.begun = now()
        self._source, self._display, self._now = source, display, now
        self._looked_at, self._look_took, self._answered_at = -1e9, 0.0, self.begun
        self._looked_just_now = False
        self._held = 0.0
        self._seen_job = ""
        self._told: set[str] = set()

    def until_the_end(self) -> Outcome:
        """How the run ended.

        Raises a DriverError when it does not start in time (with the reason), when it is taken away, when nothing can
        be heard of the cluster any more, and for Ctrl-C: the run goes on then.
        """
        try:
            for _ in self.ticks():
                if (end := self.end()) is not None:
                    return end
                self._check_start()
        except KeyboardInterrupt:
            raise self._interrupted() from None
        raise AssertionError("ticks go on for ever")

    def ticks(self) -> Iterator[None]:
        """Looks, shows, and hands over, about once a second, for ever."""
        rang = True
        while True:
            self._look(rang)
            self._see_gauges()
            self.view.phase = self._phase()
            self._display.show(self.view)
            yield
            began = self._now()
            rang = self._source.wait(_TICK_SECONDS) or (rang and not self._looked_just_now)
            if self._is_held:
                self._held += self._now() - began
            if rang and (left := _TICK_SECONDS - (self._now() - began)) > 0:
                rang = self._source.wait(left) or rang  # a starting cluster rings many times a second

    def end(self) -> Outcome | None:
        """How the run ended; None as long as it goes on."""
        job = self._job
        if self.snapshot is None or job is None or job.deployment not in _ENDED:
            return None
        words = self._source.words(self.snapshot)
        reasons = [] if job.status == "SUCCEEDED" else list(self._source.reasons(self.snapshot))
        return outcome.judge(self.request, self.snapshot, words, reasons)

    def tell(self, text: str, kind: str) -> None:
        self.happened.append({"time": time.time(), "kind": kind, "text": text})
        self._display.tell(text)

    @property
    def _job(self) -> RayJob | None:
        """The run's job; not one that another upgrade has made."""
        job = self.snapshot.job if self.snapshot else None
        wanted = self.request.job or self._seen_job
        return job if job is not None and wanted in ("", job.name) else None

    def _look(self, rang: bool) -> None:
        pending = bool(self.view.waiting) or self.running_at is None
        pause = _PENDING_LOOK_SECONDS if pending else _LOOK_SECONDS
        if self._now() - self._looked_at < (2 * self._look_took if rang else pause):
            self._looked_just_now = False
            return
        self._looked_just_now = True
        began = self._now()
        try:
            snapshot = self._source.snapshot()
        except GoneError:
            if self._seen_job:
                self._taken_away(None)
            raise
        self._looked_at, self._look_took = self._now(), self._now() - began
        if snapshot is None:
            self._away()
            return
        if self.view.away:
            self._display.tell(f"the API server answers again, after {duration(self.view.away)}")
        self.view.away, self._answered_at = 0.0, self._looked_at
        before, self.snapshot = self.snapshot, snapshot
        for text in release_view.changes(before.slices if before else (), snapshot.slices):
            self.tell(text, "host")
        self.view.hosts = snapshot.slices
        self._see_job(before)
        self._see_reasons(snapshot)

    def _away(self) -> None:
        if not self.view.away:
            self._display.tell("the API server does not answer; the run does not need it")
        self.view.away = max(self._now() - self._answered_at, 1.0)
        if self.view.away > _SILENT_SECONDS:
            raise DriverError(
                f"The cluster's API server has not answered for {duration(self.view.away)}.",
                rule="The run does not need this command, nor the API server while nothing changes.",
                fix=self.request.come_back,
            )

    def _see_job(self, before: Snapshot | None) -> None:
        job, was = self._job, before.job if before else None
        if job is None:
            if self._seen_job and self.snapshot is not None:
                self._taken_away(self.snapshot.job)
            return
        if job.deleting and job.deployment not in _ENDED:
            self._taken_away(None)
        if not self._seen_job and job.steps:
            self.view.run = {**self.view.run, "steps": job.steps}
        self._seen_job = job.name
        if job.status in _UNDER_WAY and self.running_at is None:
            self.running_at = self._now()
        # KubeRay counts the last failure too, after which nothing begins again.
        if was is not None and was.name == job.name and job.retries > was.retries and job.deployment not in _ENDED:
            cause = causes.find(job.message)
            why = cause.found if cause else job.message  # which may be 20,000 letters of log
            self.tell(f"the job has failed, and KubeRay begins it again on another cluster: {why}", "job")

    def _taken_away(self, other: RayJob | None) -> None:
        name = self.request.job or self._seen_job
        if other is not None:
            raise DriverError(
                f"The run's job {name} was replaced by {other.name}.",
                rule="An install or upgrade of the release with other values starts another run.",
                fix=self.request.come_back,
            )
        raise DriverError(
            f"The run's job {name} was removed before it ended.",
            rule="Somebody stopped or uninstalled the release. What was saved is in the run's folder.",
            fix=f"{self.request.command('install', '--rerun')} resumes from the last checkpoint",
        )

    def _see_reasons(self, snapshot: Snapshot) -> None:
        pending = self.running_at is None or any(one.state.value != "ready" for one in snapshot.slices)
        reasons = self._source.reasons(snapshot) if pending else ()
        self.view.waiting = [one.means for one in reasons]
        for reason in reasons:
            if reason.means not in self._told:
                self._told.add(reason.means)
                self._display.tell(f"waiting: {reason.means}{f' Fix: {reason.fix}' if reason.fix else ''}")

    def _see_gauges(self) -> None:
        if self.snapshot is None or self.view.away:
            return
        gauges = self._source.gauges(self.snapshot)
        trouble = self._source.trouble
        if trouble and self.running_at is not None and trouble not in self._told:
            self._told.add(trouble)
            self._display.tell(f"the run's figures cannot be read now: {trouble}")
        session = self.training.see(gauges, self._now())
        if gauges and self.running_at is None:
            self.running_at = self._now()
        if session is not None and len(self.training.sessions) > 1:
            on = f" on {session.slices} {'slice' if session.slices == 1 else 'slices'}" if session.slices else ""
            self.tell(f"the workers start again{on} from step {session.start_step}", "restart")
        self.view.gauges = self.training.known
        self.view.restarts = int(self.training.known.get("restarts", 0))

    def _phase(self) -> str:
        job = self._job
        if self.snapshot is None:
            return "Looking at the cluster"
        if job is None:
            return "Waiting for the run's job to be made"
        if job.deployment in _ENDED:
            return "The job has ended"
        if self._is_held:
            return "Held back: suspended, or waiting for its queue"
        if job.deployment == "Retrying":
            return "KubeRay makes another cluster for the job"
        if job.status not in _UNDER_WAY and not self.training.stepping:
            here = len(release_view.joined(self.snapshot.slices))
            wanted = sum(one.size for one in self.snapshot.slices)
            if here < wanted:
                return "Slices are joining"
            return "The job is pending" if job.status else "Submitting the job"
        if not self.training.sessions:
            return "The job runs: waiting for the workers"
        if not self.training.stepping:
            return "Loading MaxText and compiling"
        if self.training.silent(self._now()):
            return "Waiting for the workers to start again"
        done = self.view.run["steps"] and self.view.step >= self.view.run["steps"] - 1
        return "Saving the last checkpoint" if done else TRAINING

    @property
    def _is_held(self) -> bool:
        job, cluster = self._job, self.snapshot.cluster if self.snapshot else None
        return (job is not None and job.deployment in _HELD) or (cluster is not None and cluster.suspended)

    def _check_start(self) -> None:
        """A job that Ray runs has not started yet: it may wait for workers, and for ever."""
        limit = self.request.start_timeout
        unheard = self.running_at is not None and bool(self._source.trouble)  # they may be there
        if not limit or self.training.sessions or unheard or self._now() - self.begun - self._held < limit:
            return
        reasons = list(self._source.reasons(self.snapshot)) if self.snapshot else []
        raise DriverError(
            f"The run has not started within {duration(limit)}"
            f"{f': {reasons[0].means}' if reasons else f'. {self.view.phase}.'}",
            rule="\n".join([*(one.means for one in reasons[1:4]), "It goes on waiting; nothing was removed."]),
            fix=next((one.fix for one in reasons if one.fix), "")
            or f"{self.request.come_back}; --start-timeout waits longer",
        )

    def _interrupted(self) -> DriverError:
        where = f"at step {self.view.step}" if self.view.step >= 0 else "before the first step"
        return DriverError(
            f"Stopped following, {where}. The run goes on.",
            fix=f"to come back: {self.request.come_back}; to end the run: {self.request.command('stop')}",
        )
