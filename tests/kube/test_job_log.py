"""A run's log, whatever happens to those who carry it.

The API server is tests/kube/server. That KubeRay's submitter prints what these tests say it prints:
tests/cluster/test_watching.py.
"""

import threading
import time

import pytest

from driver.errors import DriverError
from driver.kube import job_log, pod_log
from driver.kube.job_log import JobLog
from driver.kube.pod_log import NANO
from tests.kube import manifests
from tests.kube.server.api import Api

BEGIN = "2026-11-30 07:29:34,871\tINFO job_manager.py:581 -- Runtime env is setting up."
FIRST, SECOND = manifests.SUBMITTER, f"{manifests.JOB}-bbbbb"
NEXT_JOB = "demo-ffffff"
STEPS = [f"completed step: {number}" for number in range(40)]


class Reading:
    """A follower of the release's log in a thread."""

    def __init__(self, api: Api, **options) -> None:
        self.told: list[str] = []
        self.lines: list[str] = []
        self.error: Exception | None = None
        self._changed = threading.Condition()
        self._log = JobLog(api.connection(), "demo", tell=self._tell, **{"follow": True, **options})
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def await_lines(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.lines) >= count, 10), self.lines

    def await_told(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: any(text in each for each in self.told), 10), self.told

    def end(self) -> list[str]:
        self._thread.join(10)
        assert not self._thread.is_alive()
        if self.error:
            raise self.error
        return self.lines

    def _read(self) -> None:
        try:
            for line in self._log:
                with self._changed:
                    self.lines.append(line.text)
                    self._changed.notify_all()
        except DriverError as error:
            self.error = error

    def _tell(self, what: str) -> None:
        with self._changed:
            self.told.append(what)
            self._changed.notify_all()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(pod_log, "_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(job_log, "_LOOK_SECONDS", 0.02)


@pytest.fixture
def submitted(api):
    put_job(api)
    put_submitter(api)
    return api


def put_job(api: Api, status: str = "Running", **fields) -> None:
    api.put("rayjobs", manifests.ray_job(jobDeploymentStatus=status, **fields))


def put_submitter(api: Api, name: str = FIRST, **fields) -> None:
    api.put("pods", manifests.submitter(name, **fields))


def finish(api: Api, pod: str = FIRST) -> None:
    put_job(api, "Complete")
    api.logs.end(pod)


def read(api: Api, **options) -> list[str]:
    return [line.text for line in JobLog(api.connection(), "demo", **options)]


def test_without_following_it_is_what_was_said_so_far(submitted):
    submitted.logs.say(FIRST, BEGIN, *STEPS)
    assert read(submitted) == [BEGIN, *STEPS]


def test_following_goes_on_to_the_end_of_the_run(submitted):
    reading = Reading(submitted)
    submitted.logs.say(FIRST, *STEPS[:3])
    reading.await_lines(3)
    submitted.logs.say(FIRST, *STEPS[3:6])
    reading.await_lines(6)
    finish(submitted)
    assert reading.end() == STEPS[:6]


def test_a_stream_that_breaks_loses_and_repeats_no_line(submitted):
    reading = Reading(submitted)
    for at in range(0, 40, 10):
        submitted.logs.say(FIRST, *STEPS[at : at + 10])
        reading.await_lines(at + 10)
        submitted.cut_streams()
        submitted.logs.await_begun(2 + at // 10)
    finish(submitted)
    assert reading.end() == STEPS


def test_a_stream_that_breaks_in_what_was_said_long_ago_loses_no_line(submitted):
    """How long ago a line was read says nothing of when it was said."""
    reading, long_ago = Reading(submitted), time.time_ns() - 3600 * NANO
    submitted.logs.say(FIRST, *STEPS[:10], at=long_ago)
    reading.await_lines(10)
    submitted.cut_streams()
    submitted.logs.say(FIRST, *STEPS[10:20], at=long_ago + 60 * NANO)
    finish(submitted)
    assert reading.end() == STEPS[:20]


def test_an_api_server_that_is_away_is_waited_for(submitted):
    reading = Reading(submitted)
    submitted.logs.say(FIRST, *STEPS[:3])
    reading.await_lines(3)
    away = submitted.faults.refuse(503)
    submitted.cut_streams()
    reading.await_told("trying again")
    submitted.faults.hooks.remove(away)
    submitted.logs.say(FIRST, *STEPS[3:6])
    finish(submitted)
    assert reading.end() == STEPS[:6]


def test_who_may_not_read_logs_is_told_so_at_once(submitted):
    submitted.faults.denied.add(("get", "pods/log"))
    with pytest.raises(DriverError, match="pods/log"):
        Reading(submitted).end()


def test_a_submitter_that_is_not_there_yet_is_waited_for(api):
    put_job(api, "Initializing")
    reading = Reading(api)
    reading.await_told(f"{manifests.JOB} is Initializing: waiting for its submitter")
    put_submitter(api)
    api.logs.say(FIRST, *STEPS[:2])
    reading.await_lines(2)
    finish(api)
    assert reading.end() == STEPS[:2]


def test_a_submitter_that_takes_over_repeats_nothing(submitted):
    """It follows the same Ray job, whose log it prints from the beginning."""
    reading = Reading(submitted)
    submitted.logs.say(FIRST, "Job submitted", BEGIN, *STEPS[:20], "the submitter's own: connection lost")
    reading.await_lines(23)
    submitted.logs.end(FIRST, "Failed")
    put_submitter(submitted, SECOND, created="2026-11-30T15:10:00Z")
    submitted.logs.say(SECOND, "Job submission server address", BEGIN, *STEPS[:30])
    reading.await_lines(33)
    finish(submitted, SECOND)
    assert reading.end()[23:] == STEPS[20:30]


def test_on_a_new_head_the_job_is_another_and_all_of_it_is_new(submitted):
    reading = Reading(submitted)
    submitted.logs.say(FIRST, BEGIN, *STEPS[:10])
    reading.await_lines(11)
    submitted.logs.end(FIRST, "Failed")
    put_submitter(submitted, SECOND, created="2026-11-30T15:10:00Z")
    again = [BEGIN.replace("07:29", "07:45"), *STEPS[5:15]]
    submitted.logs.say(SECOND, *again)
    reading.await_lines(22)
    finish(submitted, SECOND)
    assert reading.end()[11:] == again


def test_a_submitter_that_only_failed_hides_nothing_of_the_one_before(submitted):
    submitted.logs.say(FIRST, BEGIN, *STEPS)
    submitted.logs.end(FIRST, "Failed")
    put_submitter(submitted, SECOND, created="2026-11-30T15:10:00Z")
    submitted.logs.say(SECOND, "cannot reach the head")
    submitted.logs.end(SECOND, "Failed")
    assert read(submitted) == [BEGIN, *STEPS, "cannot reach the head"]


def test_after_an_upgrade_the_new_run_is_followed(submitted):
    reading = Reading(submitted)
    submitted.logs.say(FIRST, *STEPS[:2])
    reading.await_lines(2)
    put_job(submitted, name=NEXT_JOB, created="2026-11-30T16:00:00Z")
    submitted.put("pods", manifests.submitter("demo-ffffff-ccccc", job=NEXT_JOB, submission="s2"))
    submitted.logs.say("demo-ffffff-ccccc", "another run")
    submitted.logs.end(FIRST)
    reading.await_lines(3)
    put_job(submitted, "Complete", name=NEXT_JOB, created="2026-11-30T16:00:00Z")
    submitted.logs.end("demo-ffffff-ccccc")
    assert reading.end() == [*STEPS[:2], "another run"]


def test_a_submitter_that_is_deleted_ends_its_log(submitted):
    reading = Reading(submitted)
    submitted.logs.say(FIRST, *STEPS[:2])
    reading.await_lines(2)
    submitted.remove("pods", FIRST)
    put_job(submitted, "Complete")
    submitted.cut_streams()
    assert reading.end() == STEPS[:2]


def test_since_leaves_out_what_is_older(submitted):
    submitted.logs.say(FIRST, *STEPS[:5], at=time.time_ns() - 3600 * 10**9)
    submitted.logs.say(FIRST, *STEPS[5:7])
    assert read(submitted, since=60) == STEPS[5:7]


def test_a_line_without_an_end_is_cut_and_not_kept(submitted):
    submitted.logs.say(FIRST, "x" * 300_000, "next")
    first, second = read(submitted)
    assert (set(first), second) == ({"x"}, "next")
    assert len(first) < 66_000


def test_a_release_without_a_run_says_how_to_start_one(api):
    api.put("rayclusters", manifests.ray_cluster())
    with pytest.raises(DriverError, match="has no run"):
        read(api)


def test_a_run_whose_submitter_is_gone_says_so(api):
    put_job(api, "Complete")
    with pytest.raises(DriverError, match="its pod is gone"):
        read(api)
