"""A preemption of a running release, and its measure: what is taken, when the run trains again, what was lost.

The pods are deleted (driver.kube.taking); their nodes stay. So Kubernetes may start the pods anew at once, where a real
preemption would have to wait for a machine. To keep a slice away its nodes have to be cordoned, which is a right on
nodes that no Role of a namespace gives: who has it does that, with the command that `cordon_commands` tells.
"""

from __future__ import annotations

import difflib
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driver.errors import USAGE, DriverError
from driver.kube.outcome import Outcome
from driver.local.progress import duration

if TYPE_CHECKING:
    from driver.kube.following import Follower
    from driver.kube.objects import Pod, Slice, Snapshot

RECOVERY_SECONDS = 1800.0


@dataclass(frozen=True)
class Target:
    """What is taken away. what: in words."""

    what: str
    pods: tuple[Pod, ...]

    def cordon_commands(self) -> str:
        """What keeps the hosts away, and gives them back; for those who may change nodes."""
        nodes = shlex.join(sorted({pod.node for pod in self.pods if pod.node}))
        return f"kubectl cordon {nodes}\nkubectl uncordon {nodes}"


@dataclass
class Recovery:
    """What came of it. Seconds are from the notice on; None for what did not happen.

    detected: when the workers had stopped training, to a second or two. steps_lost: trained before and trained
    again, at least: steps are seen once a second.
    """

    target: Target
    at_step: int
    slices_before: int
    detected: float | None = None
    restarted: float | None = None
    training_again: float | None = None
    given_back: float | None = None
    start_step: int | None = None
    steps_lost: int | None = None
    slices_now: int | None = None
    outcome: Outcome | None = None

    def as_data(self) -> dict[str, Any]:
        """For `--output json` (docs/running.md)."""
        return {
            "taken": self.target.what,
            "pods": [pod.name for pod in self.target.pods],
            "atStep": self.at_step,
            "detectedSeconds": _rounded(self.detected),
            "restartedSeconds": _rounded(self.restarted),
            "trainingAgainSeconds": _rounded(self.training_again),
            "givenBackSeconds": _rounded(self.given_back),
            "startStep": self.start_step,
            "stepsLost": self.steps_lost,
            "slicesBefore": self.slices_before,
            "slicesNow": self.slices_now,
            "ended": None if self.outcome is None else "succeeded" if self.outcome.succeeded else "failed",
        }


def with_a_run(snapshot: Snapshot) -> Snapshot:
    """The same. Raises a DriverError where the release has no run, before anybody waits for a step of it."""
    if snapshot.job is None:
        raise DriverError(
            f"{snapshot.release} has no run: it was stopped, or installed with job.enabled=false.",
            fix=f"driver install {snapshot.release} -n {snapshot.namespace} --rerun",
        )
    return snapshot


def choose(snapshot: Snapshot, number: int | None = None, pod: str = "") -> Target:
    """The slice of this number (by default the last one that is whole), or one host.

    Raises a DriverError where there is none, or it is on its way out already.
    """
    if pod:
        return _host(snapshot, pod)
    slices = {one.number: one for one in snapshot.slices}
    present = [one.number for one in snapshot.slices if _present(one)]
    if not present:
        raise DriverError(
            f"No slice of {snapshot.release} is there.",
            fix=f"driver status {snapshot.release} -n {snapshot.namespace} tells what it waits for",
        )
    chosen = present[-1] if number is None else number
    if chosen not in slices:
        raise DriverError(
            f"{snapshot.release} has no slice {chosen}.",
            rule=f"It has {', '.join(map(str, sorted(slices)))}.",
            fix=f"--slice {present[-1]}",
            exit_code=USAGE,
        )
    if chosen not in present:
        raise DriverError(
            f"Slice {chosen} is {slices[chosen].state.value}: there is nothing to take away.",
            fix=f"--slice {present[-1]}",
        )
    return Target(f"slice {chosen}", tuple(_present(slices[chosen])))


def _host(snapshot: Snapshot, name: str) -> Target:
    hosts = {host.name: host for host in snapshot.hosts}
    if name in hosts and not hosts[name].leaving:
        return Target(f"host {name}", (hosts[name],))
    if name in hosts:
        raise DriverError(f"Pod {name} is on its way out already.")
    others = {pod.name: pod.role for pod in snapshot.pods}
    if name in others:
        raise DriverError(
            f"Pod {name} is the {others[name]}, not a TPU host.",
            rule="A preemption takes TPU hosts; the head should not be on Spot machines.",
            fix="--slice N",
            exit_code=USAGE,
        )
    near = difflib.get_close_matches(name, hosts, n=1)
    raise DriverError(
        f"{snapshot.release} has no TPU host {name}.",
        rule=f"driver nodes {snapshot.release} lists them.",
        fix=f"--pod {near[0]}" if near else "--slice N",
        exit_code=USAGE,
    )


def _present(one: Slice) -> list[Pod]:
    return [host for host in one.hosts if not host.leaving and not host.ended]


def rehearse(
    follower: Follower,
    choose_target: Callable[[Snapshot], Target],
    take_away: Callable[[Target], None],
    *,
    give_back: bool,
    now: Callable[[], float] = time.monotonic,
    limit: float = RECOVERY_SECONDS,
) -> Recovery:
    """Waits until the run trains, takes the target away, and follows the recovery.

    give_back: waits until the run trains on as many slices as before. limit: seconds from the notice on.
    Raises a DriverError where the run does not train, and where it is not back in time; what was measured till then is
    in the message.
    """
    recovery: Recovery | None = None
    taken_at, sessions = 0.0, 0
    asked = now()
    for _ in follower.ticks():
        end = follower.end()
        training = follower.training
        if recovery is None:
            if end is not None:
                raise DriverError(
                    "The run has ended: there is nothing to recover.",
                    fix=follower.request.command("install", "--rerun"),
                )
            if follower.snapshot is not None and training.heard and training.step >= 0:
                target = choose_target(follower.snapshot)
                slices = int(training.known.get("slices", len(follower.snapshot.slices)))
                recovery = Recovery(target, training.step, slices)
                follower.tell(f"{target.what} is told to go at step {training.step}", "preemption")
                taken_at, sessions = now(), len(training.sessions)
                take_away(target)
            elif now() - asked > limit:
                raise DriverError(
                    f"The run has not trained a step within {duration(limit)}: {follower.view.phase}.",
                    rule="A recovery is measured from one step to the next.",
                    fix=follower.request.command("status"),
                )
            continue
        recovery.outcome = end
        _measure(recovery, follower, sessions, taken_at)
        if end is not None or _is_over(recovery, give_back=give_back):
            return recovery
        if now() - taken_at > limit:
            raise _too_late(recovery, follower, limit, give_back=give_back)
    raise AssertionError("ticks go on for ever")


def _measure(recovery: Recovery, follower: Follower, sessions: int, taken_at: float) -> None:
    training = follower.training
    session = training.session
    if "slices" in training.heard:
        recovery.slices_now = int(training.heard["slices"])
    if session is None or len(training.sessions) <= sessions:
        return
    first = training.sessions[sessions]
    if recovery.restarted is None:
        recovery.restarted = first.seen_at - taken_at
        recovery.detected = max(0.0, first.previous_heard_at - taken_at)
        recovery.start_step = first.start_step
        before = training.last_step if len(training.sessions) == sessions + 1 else recovery.at_step
        recovery.steps_lost = max(0, max(before, recovery.at_step) - first.start_step + 1)
    if recovery.training_again is None and session.first_step_at is not None:
        recovery.training_again = session.first_step_at - taken_at
        follower.tell(
            f"training again {duration(recovery.training_again)} after the notice, {recovery.steps_lost} steps lost",
            "preemption",
        )
    whole = (recovery.slices_now or 0) >= recovery.slices_before
    if recovery.given_back is None and session.first_step_at is not None and whole:
        recovery.given_back = session.first_step_at - taken_at


def _is_over(recovery: Recovery, *, give_back: bool) -> bool:
    return recovery.training_again is not None and (not give_back or recovery.given_back is not None)


def _too_late(recovery: Recovery, follower: Follower, limit: float, *, give_back: bool) -> DriverError:
    what = "trained again" if recovery.training_again is None else "grown back"
    waiting: Sequence[str] = follower.view.waiting
    return DriverError(
        f"The run has not {what} within {duration(limit)} after {recovery.target.what} was taken away"
        f"{f': {waiting[0]}' if waiting else '.'}",
        rule="It goes on by itself. A node that was cordoned takes no pods." if give_back else "It goes on by itself.",
        fix=f"{follower.request.come_back}; {recovery.target.cordon_commands().splitlines()[-1]}",
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
