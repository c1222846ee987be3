"""How a run ended, and why: the verdict, the facts for `--output json`, and the same for a person."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from driver.kube import causes
from driver.kube.causes import Cause
from driver.local.progress import duration

if TYPE_CHECKING:
    from driver.kube.following import Follower, Reason, Request
    from driver.kube.objects import RayJob, Snapshot

# The entry point's own words (trainer/train.py), which it says only after it has looked at the checkpoint.
_LAST_CHECKPOINT = re.compile(r"run \S+ (?:succeeded|is complete): last checkpoint at step (-?\d+)")
_FAILED_CHECKPOINT = re.compile(r"last whole checkpoint at step (-?\d+) of")


@dataclass(frozen=True)
class Outcome:
    """last_checkpoint: the newest whole one as the entry point says, -1 for none, None where its words are gone."""

    succeeded: bool
    job: str
    last_checkpoint: int | None = None
    cause: Cause | None = None


def judge(request: Request, snapshot: Snapshot, words: str, reasons: Sequence[Reason]) -> Outcome:
    """The verdict on a job that has ended.

    A run has succeeded when its RayJob has, which means that the entry point ended with 0, and it does so only when the
    last checkpoint is whole (trainer/train.py). Its words, where they are still to be had, must not say otherwise.
    """
    job = snapshot.job
    assert job is not None, "only a job that has ended is judged"
    last = last_checkpoint(job, words)
    if job.status != "SUCCEEDED":
        return Outcome(False, job.name, last, cause_of(job, snapshot, words, reasons))
    steps = request.steps or job.steps
    if request.checkpoints and steps and last is not None and last < steps - 1:
        return Outcome(
            False,
            job.name,
            last,
            Cause(
                f"The job ended well, but its last checkpoint is at step {last} of {steps - 1}.",
                rule="A run has succeeded when its last step is saved.",
                fix=f"{request.command('install', '--rerun')} takes it up from there",
            ),
        )
    return Outcome(True, job.name, last)


def last_checkpoint(job: RayJob, words: str) -> int | None:
    """The newest whole one when the job ended, as its entry point says; -1 for none, None where its words are gone."""
    pattern = _LAST_CHECKPOINT if job.status == "SUCCEEDED" else _FAILED_CHECKPOINT
    said = [int(step) for step in pattern.findall(f"{job.message}\n{words}")]
    return said[-1] if said else None


def cause_of(job: RayJob, snapshot: Snapshot, words: str, reasons: Sequence[Reason]) -> Cause:
    """Why a job has failed: from the worker's own words; where there are none, from what Kubernetes says."""
    if job.reason == "DeadlineExceeded":
        why = reasons[0] if reasons else None
        return Cause(
            "The run did not end within rayJob.activeDeadlineSeconds, which counts the waiting too"
            f"{f'. It waited: {why.means}' if why else '.'}",
            rule="KubeRay ends such a job, and names no cause.",
            fix=(why.fix if why else "") or "--set rayJob.activeDeadlineSeconds=N",
            said=job.message,
        )
    told = causes.find(words, job.message)
    if told is not None and told.said:
        return told
    killed = sorted(pod.name for pod in snapshot.pods if pod.status == "OOMKilled")
    if killed:
        return Cause(
            f"{', '.join(killed[:3])} ran out of memory and was ended by the kernel.",
            rule="A container may use what resources.limits.memory says, and no more.",
            fix="--set worker.resources.limits.memory=... or head.resources.limits.memory=...",
            said=job.message,
        )
    if told is not None:
        return told
    if job.status == "STOPPED":
        return Cause("The Ray job was stopped, by somebody with access to Ray.", said=job.message)
    if reasons:
        return Cause(reasons[0].means, fix=reasons[0].fix, said=job.message)
    what = " ".join(part for part in (job.reason, job.message) if part)
    return Cause(f"KubeRay says: {what}" if what else "Nothing tells why.", fix=f"driver logs {snapshot.release}")


def facts(outcome: Outcome, follower: Follower, seconds: float) -> dict[str, Any]:
    """For `--output json` (docs/running.md). seconds: of the command."""
    gauges, snapshot, training = follower.view.gauges, follower.snapshot, follower.training
    job = snapshot.job if snapshot else None
    return {
        "release": follower.request.release,
        "namespace": snapshot.namespace if snapshot else "",
        "run": job.run if job else "",
        "job": outcome.job,
        "attempt": job.attempt if job else None,
        "succeeded": outcome.succeeded,
        "cause": outcome.cause.as_data() if outcome.cause else None,
        "steps": follower.view.run["steps"] or None,
        "lastStep": training.step,
        "lastCheckpoint": outcome.last_checkpoint,
        "loss": gauges.get("loss"),
        "stepSeconds": gauges.get("step_seconds"),
        "tflopsPerChip": gauges.get("tflops_per_chip"),
        "tokensPerSecondPerChip": gauges.get("tokens_per_second_per_chip"),
        "slices": int(gauges["slices"]) if "slices" in gauges else None,
        "restarts": max(0, len(training.sessions) - 1),
        "wallSeconds": round(seconds, 1),
        "secondsToRunning": _since(follower.running_at, follower.begun),
        "secondsToFirstStep": _since(training.sessions[0].first_step_at if training.sessions else None, follower.begun),
        "events": list(follower.happened),
    }


def summary(facts: Mapping[str, Any], console: Console, again: str) -> None:
    """Prints the facts for a person. again: the command that takes a failed run up."""
    result = "[bold green]succeeded[/]" if facts["succeeded"] else "[bold red]failed[/]"
    last, steps = facts["lastStep"], facts["steps"]
    where = "" if last < 0 else f": step {last}{f' of {steps - 1}' if steps else ''}"
    console.print(f"\nRun [bold]{facts['run'] or facts['release']}[/] {result}{where}", soft_wrap=True)
    if cause := facts["cause"]:
        console.print(cause["found"], style="red", markup=False, soft_wrap=True)
        for text in (cause["rule"], f"Fix: {cause['fix']}" if cause["fix"] else ""):
            if text:
                console.print(text, markup=False, soft_wrap=True)
    rows: list[tuple[str, str]] = []
    if facts["lastCheckpoint"] is not None:
        rows.append(("checkpoint", f"step {facts['lastCheckpoint']}" if facts["lastCheckpoint"] >= 0 else "none"))
    if facts["loss"] is not None:
        rows.append(("loss", f"{facts['loss']:.3f} at the last step that was seen"))
    times = f"{duration(facts['wallSeconds'])} in all"
    for key, words in (("secondsToRunning", "until the job ran"), ("secondsToFirstStep", "to the first step")):
        if facts[key] is not None:
            times += f", {duration(facts[key])} {words}"
    rows.append(("time", times))
    if facts["tokensPerSecondPerChip"] is not None:
        rate = f"{facts['tokensPerSecondPerChip']:,.0f} tokens/s and {facts['tflopsPerChip'] or 0:.1f} TFLOP/s per chip"
        rows.append(("rate", rate))
    if facts["restarts"]:
        rows.append(("restarts", str(facts["restarts"])))
    if not facts["succeeded"]:
        rows.append(("again", again))
    for label, text in rows:
        # Lines are left to the terminal to wrap, so that commands can be copied.
        console.print(Text.assemble((f"{label:<12}", "dim"), text), soft_wrap=True)


def _since(at: float | None, begun: float) -> float | None:
    return None if at is None else round(at - begun, 1)
