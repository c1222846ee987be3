"""A release and its run in one mapping: what `driver status` shows, and its JSON (docs/status.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from driver import tpu
from driver.kube import outcome, reasons
from driver.kube.causes import Cause
from driver.kube.objects import Pod, RayCluster, RayJob, Slice, Snapshot, State

ENDED = ("succeeded", "failed", "stopped")
"""Phases that end by themselves no more."""

UNDER_WAY = ("waiting", "starting", "training", "running", "retrying")
"""Phases in which there may be gauges."""

WITH_WORDS = ("succeeded", "failed")
"""Phases in which the job's own last words say how it ended."""

# KubeRay's jobDeploymentStatus (1.5, rayjob_types.go) to our phase, where it alone decides.
_PHASES = {
    "Complete": "succeeded",
    "Failed": "failed",
    "ValidationFailed": "failed",
    "Retrying": "retrying",
    "Suspending": "suspended",
    "Suspended": "suspended",
}


@dataclass(frozen=True)
class End:
    """What is known of a run that has ended: its last whole checkpoint (-1 for none, None where nothing tells), and why
    it has failed."""

    last_checkpoint: int | None = None
    cause: Cause | None = None


def end(snapshot: Snapshot, words: str) -> End:
    """words: the end of what the job printed."""
    job, how = snapshot.job, phase(snapshot, {})
    if job is None or how not in WITH_WORDS:
        return End()
    cause = outcome.cause_of(job, snapshot, words, reasons.explain(snapshot)) if how == "failed" else None
    return End(outcome.last_checkpoint(job, words), cause)


def facts(
    snapshot: Snapshot, gauges: Mapping[str, float], ended: End | None = None, *, figures_known: bool = True
) -> dict[str, Any]:
    """The keys that docs/status.md lists, all of them always; what is not known is None.

    gauges: the run's (docs/progress.md) without their prefix; empty while nothing trains. ended: of `end`.
    figures_known: whether the gauges could be read at all.
    """
    shape = _shape(snapshot.cluster)
    return {
        "release": snapshot.release,
        "namespace": snapshot.namespace,
        "time": round(snapshot.taken, 3),
        "phase": phase(snapshot, gauges, figures_known=figures_known),
        "message": _message(snapshot),
        "cause": ended.cause.as_data() if ended and ended.cause else None,
        "run": _run(snapshot, gauges, shape, ended.last_checkpoint if ended else None),
        "tpu": shape,
        "cluster": _cluster(snapshot),
        "slices": [_slice(one, snapshot) for one in snapshot.slices],
        "pending": [reason.as_data() for reason in reasons.explain(snapshot)],
        "lost": [{"pod": one.pod, "time": _unix(one.at), "why": one.why} for one in snapshot.lost],
        "remarks": list(snapshot.remarks),
    }


def phase(snapshot: Snapshot, gauges: Mapping[str, float], *, figures_known: bool = True) -> str:
    """One of: stopped, suspended, waiting, starting, training, running, retrying, succeeded, failed."""
    job = snapshot.job
    if job is None or job.deleting:
        return "stopped"
    if job.deployment == "Complete" and job.status not in ("SUCCEEDED", ""):
        return "failed"
    if job.deployment in _PHASES:
        return _PHASES[job.deployment]
    if snapshot.cluster and snapshot.cluster.suspended:
        return "suspended"
    if job.status != "RUNNING":
        return "waiting"
    if gauges.get("step", -1) >= 0:
        return "training"
    return "starting" if figures_known else "running"


def _message(snapshot: Snapshot) -> str:
    """KubeRay's and Ray's words where the run has failed, or the cluster cannot be made."""
    job, cluster = snapshot.job, snapshot.cluster
    if job and (job.deployment in ("Failed", "ValidationFailed") or job.status in ("FAILED", "STOPPED")):
        return ": ".join(part for part in (job.reason, job.message) if part)
    return cluster.reason if cluster and cluster.state == "failed" else ""


def _run(
    snapshot: Snapshot, gauges: Mapping[str, float], shape: Mapping[str, Any], last_checkpoint: int | None
) -> dict[str, Any] | None:
    job = snapshot.job
    if job is None:
        return None
    step, checkpoint = _whole(gauges.get("step")), _whole(gauges.get("last_checkpoint_step", last_checkpoint))
    tflops = gauges.get("tflops_per_chip")
    return {
        "name": job.run,
        "attempt": job.attempt,
        "rayJob": job.name,
        "submissionId": job.submission_id or None,
        "steps": job.steps or None,
        "step": step,
        "secondsLeft": _seconds_left(job, step, gauges.get("step_seconds")),
        "loss": gauges.get("loss"),
        "stepSeconds": gauges.get("step_seconds"),
        "tflopsPerChip": tflops,
        "tokensPerSecondPerChip": gauges.get("tokens_per_second_per_chip"),
        "mfu": tflops / shape["peakTflopsPerChip"] if tflops is not None and shape["peakTflopsPerChip"] else None,
        "slicesTraining": _whole(gauges.get("slices")),
        "restarts": _whole(gauges.get("restarts")),
        "retries": job.retries,
        "lastCheckpoint": checkpoint,
        "stepsAtRisk": None if step is None or checkpoint is None else max(0, step - checkpoint),
        "started": _unix(job.started),
        "ended": _unix(job.ended),
    }


def _seconds_left(job: RayJob, step: int | None, step_seconds: float | None) -> float | None:
    """What the remaining steps take if they take as long as the last one."""
    if not job.steps or step is None or step_seconds is None:
        return None
    return round(max(0, job.steps - 1 - step) * step_seconds, 1)


def _shape(cluster: RayCluster | None) -> dict[str, Any]:
    name = tpu.type_of(cluster.accelerator) if cluster else ""
    chips = tpu.chips_in(cluster.topology) if cluster and cluster.topology else None
    hosts = cluster.hosts_per_slice if cluster else None
    return {
        "type": name or None,
        "topology": (cluster.topology or None) if cluster else None,
        "chips": chips,
        "hostsPerSlice": hosts,
        "chipsPerHost": chips // hosts if chips and hosts else None,
        "peakTflopsPerChip": tpu.table()[name]["peakTflopsPerChip"] if name else None,
    }


def _cluster(snapshot: Snapshot) -> dict[str, Any] | None:
    cluster = snapshot.cluster
    if cluster is None:
        return None
    return {
        "name": cluster.name,
        "state": cluster.state or None,
        "slicesMin": cluster.least,
        "slicesMax": cluster.most,
        "slicesWanted": 0 if cluster.suspended else cluster.wanted,
        "slicesReady": sum(one.state is State.READY for one in snapshot.slices),
        "head": _pod(snapshot.head, snapshot) if snapshot.head else None,
    }


def _slice(one: Slice, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "slice": one.number,
        "state": one.state.value,
        "hostsReady": sum(host.state is State.READY for host in one.hosts),
        "hosts": [{"host": host.host, **_pod(host, snapshot)} for host in one.hosts],
    }


def _pod(pod: Pod, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "pod": pod.name,
        "state": pod.state.value,
        "status": pod.status,
        "rayAlive": pod.ready,
        "node": pod.node or None,
        "nodePool": snapshot.pools.get(pod.node),
        "restarts": pod.restarts,
        "leavingAt": _unix(pod.leaving),
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _unix(text: str) -> float | None:
    """Unix seconds of Kubernetes' time; None for none."""
    return datetime.fromisoformat(text).astimezone(UTC).timestamp() if text else None
