"""A run that is followed to its end."""

import pytest

from driver.errors import DriverError
from driver.kube.following import Follower, GoneError, Request
from tests.kube.stage import Audience, Reason, Scene, Stage, cluster, job, snapshot

STARTING = snapshot(job(), ready=(1, 0))
PENDING = snapshot(job("PENDING", "Running"))
RUNNING = snapshot(job("RUNNING", "Running"))
SUCCEEDED = snapshot(job("SUCCEEDED", "Complete"))
FAILED = snapshot(job("FAILED", "Failed", reason="AppFailed"))
DONE = "run demo succeeded: last checkpoint at step 59, in /data/demo/checkpoints\n"
NO_NODE = Reason("No node has a free slice of v6e 2x4.", "driver bootstrap with more tpu.slices")


def gauges(**values):
    return {"slices": 2.0, "restarts": 0.0, "last_checkpoint_step": -1.0} | values


def followed(*scenes, **request):
    """The follower, what was shown, and the outcome."""
    stage, audience = Stage(*scenes), Audience()
    follower = Follower(Request("demo", **request), stage, audience, stage.clock)
    return follower, audience, follower.until_the_end


def test_a_run_goes_through_its_phases():
    _, audience, end = followed(
        Scene(0, snapshot(None)),
        Scene(5, STARTING),
        Scene(20, PENDING),
        Scene(30, RUNNING),
        Scene(60, RUNNING, gauges()),
        Scene(90, RUNNING, gauges(step=0.0, loss=6.0)),
        Scene(100, RUNNING, gauges(step=59.0, loss=3.0)),
        Scene(110, SUCCEEDED, words=DONE),
    )
    assert end().succeeded
    assert audience.phases == [
        "Waiting for the run's job to be made",
        "Slices are joining",
        "The job is pending",
        "The job runs: waiting for the workers",
        "Loading MaxText and compiling",
        "Training",
        "Saving the last checkpoint",
        "The job has ended",
    ]


def test_hosts_are_told_as_they_join():
    _, audience, end = followed(
        Scene(0, snapshot(job(), ready=(1, 0))),
        Scene(5, snapshot(job(), ready=(2, 1))),
        Scene(9, SUCCEEDED, words=DONE),
    )
    end()
    assert audience.told[:3] == [
        "1 of 4 hosts are there",
        "slice 0, host 1, has joined on node-0-1: 3 of 4 are there",
        "slice 1, host 0, has joined on node-1-0: 3 of 4 are there",
    ]


def test_many_hosts_at_once_are_one_line():
    whole = snapshot(job(), ready=[16] * 256, size=16)
    _, audience, end = followed(Scene(0, whole), Scene(5, SUCCEEDED, words=DONE))
    end()
    assert audience.told[0] == "4,096 of 4,096 hosts are there"


def test_a_run_that_was_over_before_anybody_looked_is_judged():
    _, _, end = followed(Scene(0, SUCCEEDED, words=DONE))
    assert end().succeeded


def test_success_needs_the_last_checkpoint():
    words = "run demo succeeded: last checkpoint at step 40, in /data\n"
    _, _, end = followed(Scene(0, SUCCEEDED, words=words), steps=60)
    ended = end()
    assert not ended.succeeded
    assert "its last checkpoint is at step 40 of 59" in ended.cause.found


def test_a_run_that_saves_nothing_succeeds_by_its_entry_points_word():
    words = "run demo succeeded: last checkpoint at step -1, in /data\n"
    _, _, end = followed(Scene(0, SUCCEEDED, words=words), steps=60, checkpoints=False)
    assert end().succeeded


def test_a_failed_run_names_its_cause():
    words = "run failed: worker 0: OSError: [Errno 30] Read-only file system: '/data/demo'"
    _, _, end = followed(Scene(0, RUNNING), Scene(5, FAILED, words=words))
    ended = end()
    assert not ended.succeeded
    assert ended.cause.found == "/data/demo cannot be written: read-only file system."


def test_a_run_that_waits_too_long_to_start_ends_with_the_reason_and_its_fix():
    follower, _, end = followed(Scene(0, STARTING, reasons=[NO_NODE]), start_timeout=600)
    with pytest.raises(DriverError) as error:
        end()
    assert error.value.found == "The run has not started within 10:00 min: No node has a free slice of v6e 2x4."
    assert "nothing was removed" in error.value.rule
    assert error.value.fix == "driver bootstrap with more tpu.slices"
    assert follower.view.waiting == [NO_NODE.means]


def test_a_reason_is_told_once():
    _, audience, end = followed(Scene(0, STARTING, reasons=[NO_NODE]), Scene(300, SUCCEEDED, words=DONE))
    end()
    assert [text for text in audience.told if text.startswith("waiting")] == [
        f"waiting: {NO_NODE.means} Fix: {NO_NODE.fix}"
    ]


def test_a_job_that_runs_without_workers_has_not_started():
    _, _, end = followed(Scene(0, RUNNING), Scene(4000, SUCCEEDED, words=DONE), start_timeout=600)
    with pytest.raises(DriverError, match="has not started within 10:00 min. The job runs: waiting for the workers."):
        end()


def test_a_run_with_workers_has_no_time_limit():
    begun = Scene(0, RUNNING, gauges={"last_checkpoint_step": -1.0})
    _, _, end = followed(begun, Scene(4000, SUCCEEDED, words=DONE), start_timeout=600)
    assert end().succeeded


def test_workers_that_cannot_be_asked_are_taken_to_be_there():
    unheard = Scene(0, RUNNING, trouble="demo-0-0 does not answer")
    _, _, end = followed(unheard, Scene(4000, SUCCEEDED, words=DONE), start_timeout=600)
    assert end().succeeded


def test_the_time_in_a_queue_does_not_count():
    held = snapshot(job(), cluster=cluster(suspended=True))
    _, audience, end = followed(
        Scene(0, held), Scene(4000, RUNNING), Scene(4100, SUCCEEDED, words=DONE), start_timeout=600
    )
    assert end().succeeded
    assert audience.phases[0].startswith("Held back")


def test_the_api_server_may_be_away_for_minutes():
    follower, audience, end = followed(
        Scene(0, RUNNING, gauges(step=3.0)), Scene(10, None), Scene(300, SUCCEEDED, words=DONE)
    )
    assert end().succeeded
    assert follower.view.away == 0
    assert any(text.startswith("the API server answers again, after 4:") for text in audience.told)


def test_it_gives_up_on_an_api_server_that_stays_away():
    _, _, end = followed(Scene(0, RUNNING), Scene(10, None))
    with pytest.raises(DriverError, match="has not answered for 15:"):
        end()


def test_an_operator_that_is_away_delays_the_end_and_changes_nothing():
    _, _, end = followed(
        Scene(0, RUNNING, gauges(step=58.0)),
        Scene(10, RUNNING, gauges(step=59.0, last_checkpoint_step=59.0)),
        Scene(20, RUNNING),
        Scene(400, SUCCEEDED, words=DONE),
    )
    assert end().succeeded


def test_a_restart_of_the_workers_is_told_with_its_slices_and_step():
    follower, audience, end = followed(
        Scene(0, RUNNING, gauges(step=31.0, last_checkpoint_step=20.0)),
        Scene(20, RUNNING),
        Scene(60, RUNNING, gauges(restarts=1.0, slices=1.0, last_checkpoint_step=20.0)),
        Scene(70, RUNNING, gauges(restarts=1.0, slices=1.0, last_checkpoint_step=20.0, step=21.0)),
        Scene(90, SUCCEEDED, words=DONE),
    )
    end()
    assert "the workers start again on 1 slice from step 21" in audience.told
    assert "Waiting for the workers to start again" in audience.phases
    assert follower.happened[-1]["kind"] == "restart"


def test_a_job_that_the_submitter_sends_again_after_a_lost_head_goes_on():
    _, audience, end = followed(
        Scene(0, RUNNING, gauges(step=31.0, last_checkpoint_step=20.0)),
        Scene(20, snapshot(job("RUNNING", "Running"), ready=(0, 0))),
        Scene(120, RUNNING, gauges(step=21.0, last_checkpoint_step=20.0)),
        Scene(140, SUCCEEDED, words=DONE),
    )
    assert end().succeeded
    assert "the workers start again on 2 slices from step 21" in audience.told


def test_a_retry_on_another_cluster_is_told():
    again = snapshot(job("", "Retrying", retries=1, message="head lost"))
    _, audience, end = followed(Scene(0, RUNNING), Scene(10, again), Scene(50, SUCCEEDED, words=DONE))
    assert end().succeeded
    assert "the job has failed, and KubeRay begins it again on another cluster: head lost" in audience.told


def test_the_last_failure_is_no_retry_although_kuberay_counts_it():
    failed = snapshot(job("FAILED", "Failed", retries=1, message="worker log"))
    _, audience, end = followed(Scene(0, RUNNING), Scene(10, failed, words="run failed: worker 0: boom"))
    assert not end().succeeded
    assert not any("begins it again" in each for each in audience.told)


def test_a_retry_is_told_by_its_cause_and_not_by_the_whole_log():
    log = "Traceback\n  File x\nrun failed: worker 0: boom\n"
    again = snapshot(job("", "Retrying", retries=1, message=log))
    _, audience, end = followed(Scene(0, RUNNING), Scene(10, again), Scene(50, SUCCEEDED, words=DONE))
    assert end().succeeded
    assert "the job has failed, and KubeRay begins it again on another cluster: Worker 0: boom." in audience.told


def test_a_run_that_is_replaced_by_an_upgrade_is_not_followed_into_the_next():
    other = snapshot(job("RUNNING", "Running", name="demo-b"))
    _, _, end = followed(Scene(0, RUNNING), Scene(10, other), job="demo-a")
    with pytest.raises(DriverError, match="demo-a was replaced by demo-b"):
        end()


@pytest.mark.parametrize("gone", [snapshot(None), GoneError("There is no release demo.")], ids=["stop", "uninstall"])
def test_a_run_that_is_taken_away_ends_it(gone):
    _, _, end = followed(Scene(0, RUNNING), Scene(10, gone))
    with pytest.raises(DriverError, match="was removed before it ended"):
        end()


def test_ctrl_c_leaves_the_run_and_says_how_to_come_back():
    _, _, end = followed(Scene(0, RUNNING, gauges(step=12.0)), Scene(10, RUNNING, interrupt=True))
    with pytest.raises(DriverError) as error:
        end()
    assert error.value.found == "Stopped following, at step 12. The run goes on."
    assert "driver status demo --watch" in error.value.fix
    assert error.value.exit_code == 1


def test_looks_are_rare_while_nothing_changes():
    stage = Stage(Scene(0, RUNNING, gauges(step=1.0)), Scene(3000, SUCCEEDED, words=DONE))
    Follower(Request("demo"), stage, Audience(), stage.clock).until_the_end()
    assert stage.looks < 120
