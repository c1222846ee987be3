"""What a run's gauges tell over time: which group of workers trains, since when, from which step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_STALE_SECONDS = 2.5
"""Ray shows the gauges of a group of workers for two seconds after its end; the next one's first step takes longer."""


@dataclass
class Session:
    """A group of workers: from its start to its end. Times are the watcher's clock, seconds.

    start_step: the step after its checkpoint. slices: 0 where it was not told. first_step_at: None until its first
    step. previous_heard_at: when the group before it was heard last.
    """

    start_step: int
    slices: int
    seen_at: float
    previous_heard_at: float
    first_step_at: float | None = None


class Training:
    """Give it what was read, about once a second."""

    def __init__(self) -> None:
        self.known: Mapping[str, float] = {}
        """The newest value of each gauge: Ray exports one only while it is set, so what is missing is as it was."""
        self.heard: Mapping[str, float] = {}
        """What was read last: empty while no group of workers exports anything."""
        self.heard_at = 0.0
        self.sessions: list[Session] = []
        self.last_step = -1
        """The last step before the newest session began, -1 for none: against its start, what was lost."""

    @property
    def session(self) -> Session | None:
        return self.sessions[-1] if self.sessions else None

    @property
    def step(self) -> int:
        """The last step that was trained, -1 for none."""
        return int(self.known.get("step", -1))

    @property
    def stepping(self) -> bool:
        """Whether the newest group has trained a step."""
        return self.session is not None and self.session.first_step_at is not None

    def silent(self, now: float) -> bool:
        """Whether it is longer than a step takes that anything was heard."""
        return now - self.heard_at > max(10.0, 3 * self.known.get("step_seconds", 0.0))

    def see(self, gauges: Mapping[str, float], now: float) -> Session | None:
        """The session that these are the first words of, if they are. A new one is known by another count of restarts,
        or by a step that was there before: a job that is submitted again counts its restarts anew."""
        session = self.session
        changed = session is not None and self._of_another(gauges)
        if changed and session is not None and now - session.seen_at < _STALE_SECONDS:
            return None  # of the group that has ended
        self.heard = gauges
        if not gauges:
            return None
        begun = self._begin(gauges, now) if changed or session is None else None
        self.heard_at = now
        self.known = {**self.known, **gauges}
        if "step" in gauges and (latest := self.session) is not None and latest.first_step_at is None:
            latest.first_step_at = now
        return begun

    def _of_another(self, gauges: Mapping[str, float]) -> bool:
        restarts = gauges.get("restarts", self.known.get("restarts"))
        return restarts != self.known.get("restarts", restarts) or gauges.get("step", self.step) < self.step

    def _begin(self, gauges: Mapping[str, float], now: float) -> Session:
        start = int(gauges.get("last_checkpoint_step", self.known.get("last_checkpoint_step", -1))) + 1
        self.last_step = self.step
        self.sessions.append(Session(start, int(gauges.get("slices", 0)), now, self.heard_at))
        if len(self.sessions) > 1:
            self.known = {**self.known, "step": start - 1}
        return self.sessions[-1]
