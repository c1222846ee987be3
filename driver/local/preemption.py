"""Rehearses preemptions: takes slices away from a training run and gives them back, at the steps that the user names.

KILL is a machine that vanishes. TERM is what the kubelet does to a pod on a preempted Spot VM: the preStop hook, then
SIGTERM to the container's first process, and SIGKILL to what is left after the grace period.
"""

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from driver.errors import USAGE, DriverError
from driver.local.hosts import Host, Hosts, State


@dataclass(frozen=True, order=True)
class Event:
    """A slice that goes (signal KILL or TERM) or comes back (signal is empty) once a step has been trained."""

    step: int
    slice: int
    signal: Literal["KILL", "TERM", ""] = ""

    def __str__(self) -> str:
        return f"{self.slice}@{self.step}" + (f":{self.signal}" if self.signal else "")


def parse_preemption(text: str) -> Event:
    """`SLICE@STEP[:SIGNAL]`, SIGNAL being KILL (the default) or TERM. Raises a ValueError for anything else."""
    match = re.fullmatch(r"(\d+)@(\d+)(?::(?:SIG)?(KILL|TERM))?", text, re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r} is not SLICE@STEP[:SIGNAL] with SIGNAL KILL or TERM, as in 1@20 or 1@20:TERM")
    name: Literal["KILL", "TERM"] = "TERM" if (match.group(3) or "").upper() == "TERM" else "KILL"
    return Event(int(match.group(2)), int(match.group(1)), name)


def parse_give_back(text: str) -> Event:
    """`SLICE@STEP`. Raises a ValueError for anything else."""
    match = re.fullmatch(r"(\d+)@(\d+)", text)
    if not match:
        raise ValueError(f"{text!r} is not SLICE@STEP, as in 1@40")
    return Event(int(match.group(2)), int(match.group(1)))


def check(events: Iterable[Event], run: Mapping[str, Any]) -> list[Event]:
    """The events in the order in which they happen. Raises a DriverError for those that the run cannot have."""
    planned = sorted(events)
    if planned and not run["elastic"]["enabled"]:
        raise DriverError(
            "--preempt and --give-back need an elastic run, and elastic.enabled is false.",
            rule="A run of a fixed size waits for its slice without taking a step.",
            fix="--set elastic.enabled=true",
            exit_code=USAGE,
        )
    least, most = run["slices"]["min"], run["slices"]["max"]
    away: set[int] = set()
    for event in planned:
        option = f"--preempt {event}" if event.signal else f"--give-back {event}"
        problem = ""
        if event.slice >= most:
            problem = f"the run has slices 0 to {most - 1}"
        elif event.step >= run["steps"] - 1:
            problem = f"the run's last step is {run['steps'] - 1}, and something should come after"
        elif bool(event.signal) == (event.slice in away):
            problem = f"slice {event.slice} is {'away' if event.signal else 'there'} at that step"
        elif event.signal and most - len(away) - 1 < least:
            problem = f"fewer than elastic.minSlices={least} slices would be left, and no step would be taken"
        if problem:
            raise DriverError(f"{option}: {problem}.", exit_code=USAGE)
        if event.signal:
            away.add(event.slice)
        else:
            away.remove(event.slice)
    return planned


class Rehearsal:
    """Carries out events on the hosts of a run. Call `advance` every second or so.

    pod: the rendered pod spec of a TPU host, of which the preStop hook and the grace period are used.
    tell: is called with a sentence for each thing that happens.
    """

    def __init__(
        self, events: Sequence[Event], hosts: Hosts, pod: Mapping[str, Any], tell: Callable[[str], None]
    ) -> None:
        self.pending = list(events)
        self._hosts, self._tell = hosts, tell
        self._grace_seconds = float(pod.get("terminationGracePeriodSeconds", 30))
        lifecycle = pod["containers"][0].get("lifecycle", {})
        self._pre_stop: Sequence[str] = lifecycle.get("preStop", {}).get("exec", {}).get("command", [])
        self._leaving: list[_Leaving] = []
        self._lost_in = -1  # restarts when a slice was last taken away

    def advance(self, step: int, restarts: int) -> None:
        """step: the last one trained, -1 for none. restarts: of the worker group, by the run's records."""
        while self.pending and step >= self.pending[0].step:
            event = self.pending[0]
            # Until the group has started again, the step is that of the group which has just lost the slice.
            if not event.signal and restarts <= self._lost_in:
                break
            self.pending.pop(0)
            if event.signal:
                self._lost_in = restarts
                self._take(event, step)
            else:
                self._tell(f"slice {event.slice} is given back at step {step}")
                self._hosts.add_slice(event.slice)
        for host in list(self._leaving):
            if host.gone():
                self._leaving.remove(host)
                self._tell(f"{host.host.name} is gone, {host.seconds:.0f} s after it was told")

    def _take(self, event: Event, step: int) -> None:
        how = "vanishes" if event.signal == "KILL" else f"is told to go within {self._grace_seconds:.0f} s"
        self._tell(f"slice {event.slice} {how} at step {step}")
        for host in self._hosts.slices[event.slice]:
            if event.signal == "KILL" or host.state is not State.READY:
                host.vanish()
                host.state = State.GONE
            else:
                host.state = State.LEAVING
                self._leaving.append(_Leaving(self._hosts, host, self._pre_stop, self._grace_seconds))


class _Leaving:
    """The end of one host in the kubelet's order."""

    def __init__(self, hosts: Hosts, host: Host, pre_stop: Sequence[str], grace_seconds: float) -> None:
        self.host = host
        self._hosts = hosts
        self._begun = time.monotonic()
        self._deadline = self._begun + grace_seconds
        self._hook: subprocess.Popen[bytes] | None = hosts.enter(host, pre_stop) if pre_stop else None
        self._told = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def gone(self) -> bool:
        """Goes on with the next thing that is due; whether no process of the host is left."""
        if not self._told and (self._hook is None or self._hook.poll() is not None):
            self._told = True
            # The kubelet gives a container 2 s for SIGTERM even if its hook took all the time.
            self._deadline = max(self._deadline, time.monotonic() + 2)
            self._hosts.signal(self.host, signal.SIGTERM)
        if not self.host.ended() and time.monotonic() < self._deadline:
            return False
        self.host.vanish()
        self.host.state = State.GONE
        return True
