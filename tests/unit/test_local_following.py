"""What is known of a local run while it is followed."""

import time
from types import SimpleNamespace
from typing import Any

import metrics
import pytest

from driver import resources
from driver.local import following
from driver.local.dashboard import JobState
from driver.local.following import Follower
from driver.local.hosts import State

POD: dict[str, Any] = {"containers": [{}]}


class Hosts:
    """One host, always ready."""

    head = SimpleNamespace(name="head", state=State.READY)

    def __getattr__(self, name: str) -> Any:
        answers = {"advance": [], "states": {0: State.READY}, "metrics_ports": [1], "present": [0], "add_slice": None}
        return lambda *_: answers[name]


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """Follows a run, and returns (second, phase, step) after each tick; `gauges` and `at` are by the second."""
    clock = SimpleNamespace(now=0.0)
    begun = time.time()
    monkeypatch.setattr(
        following,
        "time",
        SimpleNamespace(
            time=lambda: begun + clock.now,
            monotonic=lambda: 1000.0 + clock.now,
            sleep=lambda seconds: setattr(clock, "now", clock.now + seconds),
        ),
    )

    def session(start: int) -> None:
        record = {"kind": "session", "attempt": 1, "session": 1, "time": begun + clock.now, "slices": 1,
                  "hosts": 1, "chips": 4, "start_step": start}  # fmt: skip
        metrics.write(tmp_path / "demo" / "progress", [record], start, int(clock.now * 1000) + 1)

    def of(sessions: dict[float, int], gauges: Any, seconds: float) -> list[tuple[float, str, int]]:
        seen: list[tuple[float, str, int]] = []

        class Job:
            log = tmp_path / "job.log"

            def __init__(self, *_: Any) -> None: ...

            def state(self) -> JobState:
                if clock.now in sessions:
                    session(sessions[clock.now])
                return JobState("SUCCEEDED" if clock.now >= seconds else "RUNNING", "")

        monkeypatch.setattr(following, "Job", Job)
        run = {"name": "demo", "outputDirectory": str(tmp_path), "steps": 60, "slices": {"min": 1, "max": 1}}
        display = SimpleNamespace(
            tell=lambda text: None, show=lambda view: seen.append((clock.now, view.phase, view.step))
        )
        rendering = SimpleNamespace(run=run, worker_pod=POD)
        follower = Follower(Hosts(), rendering, resources.trainer_dir(), [], display)  # type: ignore[arg-type]
        follower._gauges = SimpleNamespace(read=lambda _: gauges(clock.now))  # type: ignore[assignment]
        follower.until_the_end()
        return seen

    return of


def phases(seen):
    return list(dict.fromkeys(phase for _, phase, _ in seen))


def test_a_run_that_goes_on_is_seen_to_train_whatever_its_restarts_gauge_began_with(follow):
    def gauges(now):
        return {"restarts": 3.0, **({"step": 21.0} if now >= 8 else {})} if now >= 2 else {}

    seen = follow({2.0: 20}, gauges, 12)
    assert phases(seen)[-3:] == ["Waiting for the workers", "Loading MaxText and compiling", "Training"]
    assert next(second for second, phase, _ in seen if phase == "Training") == 8
    assert next(step for second, _, step in seen if second == 4) == 19


def test_the_gauges_of_a_group_that_has_ended_are_not_those_of_the_next(follow):
    def gauges(now):
        if now < 12:  # the first group ended at 10
            return {"restarts": 0.0, "step": 30.0} if now >= 6 else {}
        return {"restarts": 1.0, **({"step": 21.0} if now >= 20 else {})}

    seen = follow({1.0: 0, 10.0: 20}, gauges, 24)
    told = {second: (phase, step) for second, phase, step in seen}
    assert told[9.0] == ("Training", 30)
    assert {told[second] for second in told if 10 <= second < 20} == {("Loading MaxText and compiling", 19)}
    assert told[20.0] == ("Training", 21)
