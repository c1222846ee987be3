"""The runs in a namespace: what its RayJobs tell, and what Helm remembers of a release's earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from driver.kube.connection import Connection, NotFoundError
from driver.kube.ending import OURS
from driver.kube.lists import Listing, Object, collect
from driver.kube.release import Releases

_RUN, _ATTEMPT, _STEPS = "maxtext-multislice/run", "maxtext-multislice/attempt", "maxtext-multislice/steps"

# KubeRay's jobDeploymentStatus, where the job's own status says nothing yet or no more.
_DEPLOYMENT = {
    "": "waiting",
    "Initializing": "waiting for its slices",
    "Waiting": "waiting",
    "Retrying": "starting again",
    "Suspending": "being stopped",
    "Suspended": "stopped",
    "Failed": "failed",
}
_JOB = {"PENDING": "pending", "RUNNING": "running", "SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "stopped"}


@dataclass(frozen=True)
class Run:
    """One run of a release. steps: those to train; None where the RayJob is of a chart that did not tell.
    began, ended: of the RayJob. message: KubeRay's, of a failure."""

    release: str
    name: str
    job: str
    attempt: int
    result: str
    steps: int | None
    began: datetime | None
    ended: datetime | None
    message: str = ""

    def seconds(self, now: datetime) -> float | None:
        """How long it took, or has taken; None before it began."""
        return ((self.ended or now) - self.began).total_seconds() if self.began else None

    def as_data(self, now: datetime) -> dict[str, Any]:
        """For `--output json`; times in Unix seconds."""
        seconds = self.seconds(now)
        return {
            "release": self.release,
            "run": self.name,
            "job": self.job,
            "attempt": self.attempt,
            "result": self.result,
            "steps": self.steps,
            "began": self.began.timestamp() if self.began else None,
            "ended": self.ended.timestamp() if self.ended else None,
            "seconds": None if seconds is None else round(seconds),
            "message": self.message,
        }


def live(connection: Connection, release: str = "") -> list[Run]:
    """Of the RayJobs that are there, and of the releases whose cluster has none; the latest first."""
    found = [_of_job(one) for one in _list(connection, "rayjobs", release)]
    with_job = {one.release for one in found}
    for cluster in _list(connection, "rayclusters", release):
        name = cluster["metadata"]["labels"]["app.kubernetes.io/instance"]
        if name not in with_job and not cluster["metadata"].get("ownerReferences"):
            with_job.add(name)
            found.append(Run(name, "", "", 0, "no run", None, None, None))
    never = datetime.min.replace(tzinfo=UTC)
    return sorted(found, key=lambda one: one.began or never, reverse=True)


def earlier(connection: Connection, release: str, alive: Sequence[Run]) -> list[Run]:
    """Of a release's revisions that Helm keeps: the runs that are not among those alive, the latest first.

    A run is a row of revisions with one RayJob, since an install with the same values adds a revision and no run. What
    became of it is in its folder in the bucket; here it is known only that another took its place (replaced), that a
    revision took it away (stopped), or neither (gone).
    Raises a DriverError where neither Helm nor the cluster knows a release of this name.
    """
    releases = Releases(connection)
    history = releases.history(release)
    if not history and not alive:
        raise releases.not_found(release)
    found: list[Run] = []
    going: Run | None = None
    let_go = False  # a job that Kueue admits begins suspended; that is no stop
    for past in reversed(history):
        revision = releases.revision(release, past.number)
        if revision is None:
            continue
        job = revision.one("RayJob")
        name = str(job["metadata"]["name"]) if job else ""
        held = bool(job and job["spec"].get("suspend"))
        if going is not None and (name != going.job or (held and let_go)):
            result = "stopped" if name in ("", going.job) else "replaced"
            found.append(replace(going, result=result, ended=past.updated))
            going, let_go = None, False
        if going is None and job and not (held and found and found[-1].job == name):
            going = replace(_of_job({**job, "status": {}}), result="gone", began=past.updated)
        let_go = let_go or (going is not None and not held)
    if going is not None:
        found.append(going)
    there = {one.job for one in alive}
    last = {one.job: one for one in found}  # the one that is alive, if any
    return [one for one in reversed(found) if one.job not in there or last[one.job] is not one]


def _of_job(job: Mapping[str, Any]) -> Run:
    metadata, status = job["metadata"], job.get("status") or {}
    annotations = metadata.get("annotations") or {}
    state, phase = str(status.get("jobStatus", "")), str(status.get("jobDeploymentStatus", ""))
    # A suspended or failed RayJob keeps the last state of its job.
    of_the_object = phase in ("Failed", "Suspending", "Suspended", "Retrying") or not state
    result = _DEPLOYMENT.get(phase, "waiting") if of_the_object else _JOB.get(state, "waiting")
    steps = annotations.get(_STEPS)
    return Run(
        str(metadata["labels"]["app.kubernetes.io/instance"]),
        str(annotations.get(_RUN, "")),
        str(metadata["name"]),
        int(annotations.get(_ATTEMPT, 1)),
        result,
        int(steps) if steps else None,
        _time(status.get("startTime") or metadata.get("creationTimestamp")),
        _time(status.get("endTime")),
        " ".join(str(status.get("message", "")).split()),
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _list(connection: Connection, kind: str, release: str) -> list[Object]:
    labels = f"{OURS},app.kubernetes.io/instance={release}" if release else OURS
    try:
        return collect(connection, Listing(kind, labels), lambda one: one)
    except NotFoundError:  # no KubeRay, no runs
        return []
