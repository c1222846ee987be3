"""A slice that is taken away from a run, and the measure of the recovery."""

import pytest

from driver.errors import DriverError
from driver.kube import preemption
from driver.kube.following import Follower, Request
from tests.kube.stage import Audience, Reason, Scene, Stage, job, pod, snapshot

RUNNING = snapshot(job("RUNNING", "Running"))


def gauges(step=None, restarts=0.0, slices=2.0, last=20.0):
    return {"restarts": restarts, "slices": slices, "last_checkpoint_step": last} | ({"step": step} if step else {})


def rehearsed(*scenes, give_back=False, limit=1800.0):
    """The recovery, and what was taken."""
    stage = Stage(*scenes)
    taken: list[preemption.Target] = []
    follower = Follower(Request("demo"), stage, Audience(), stage.clock)
    recovery = preemption.rehearse(
        follower, preemption.choose, taken.append, give_back=give_back, now=stage.clock, limit=limit
    )
    return recovery, taken


SHRUNK = (
    Scene(0, RUNNING, gauges(28.0)),
    Scene(10, RUNNING, gauges(31.0)),
    Scene(16, snapshot(job("RUNNING", "Running"), ready=(2, 0))),
    Scene(70, RUNNING, gauges(restarts=1.0, slices=1.0)),
    Scene(80, RUNNING, gauges(21.0, restarts=1.0, slices=1.0)),
)


def test_the_last_slice_goes_by_default_all_hosts_of_it():
    target = preemption.choose(RUNNING)
    assert target.what == "slice 1"
    assert [one.name for one in target.pods] == ["demo-1-0", "demo-1-1"]


def test_one_host_can_go():
    assert preemption.choose(RUNNING, pod="demo-0-1").what == "host demo-0-1"


def test_the_commands_that_keep_it_away_name_its_nodes():
    assert preemption.choose(RUNNING).cordon_commands() == (
        "kubectl cordon node-1-0 node-1-1\nkubectl uncordon node-1-0 node-1-1"
    )


@pytest.mark.parametrize(
    ("arguments", "found", "fix"),
    [
        ({"number": 5}, "demo has no slice 5.", "--slice 1"),
        ({"pod": "demo-0-9"}, "demo has no TPU host demo-0-9.", "--pod demo-0-1"),
        ({"pod": "demo-head"}, "Pod demo-head is the head, not a TPU host.", "--slice N"),
    ],
)
def test_what_is_not_there_is_refused_with_the_nearest(arguments, found, fix):
    with pytest.raises(DriverError) as error:
        preemption.choose(RUNNING, **arguments)
    assert error.value.found == found
    assert error.value.fix == fix


def test_a_slice_on_its_way_out_is_not_taken_again():
    leaving = snapshot(job("RUNNING", "Running"))
    hosts = tuple(pod(f"demo-1-{host}", 1, host, leaving="2026-11-30T12:30:00Z") for host in range(2))
    slices = (leaving.slices[0], type(leaving.slices[1])(1, 2, hosts))
    with pytest.raises(DriverError, match="Slice 1 is leaving"):
        preemption.choose(snapshot(job("RUNNING", "Running"), slices=slices), 1)


def test_the_recovery_is_measured_from_the_notice():
    recovery, taken = rehearsed(*SHRUNK)
    assert [target.what for target in taken] == ["slice 1"]
    facts = recovery.as_data()
    assert facts["atStep"] == 28
    assert 14 <= facts["detectedSeconds"] <= 17
    assert 69 <= facts["restartedSeconds"] <= 72
    assert 79 <= facts["trainingAgainSeconds"] <= 82
    assert (facts["slicesBefore"], facts["slicesNow"]) == (2, 1)
    assert facts["givenBackSeconds"] is None


def test_the_steps_between_the_checkpoint_and_the_loss_are_lost():
    recovery, _ = rehearsed(*SHRUNK)
    assert (recovery.start_step, recovery.steps_lost) == (21, 11)


def test_give_back_waits_until_it_trains_on_all_slices_again():
    recovery, _ = rehearsed(
        *SHRUNK,
        Scene(200, RUNNING, gauges(restarts=2.0, slices=2.0, last=25.0)),
        Scene(210, RUNNING, gauges(26.0, restarts=2.0, slices=2.0, last=25.0)),
        give_back=True,
    )
    assert 209 <= recovery.given_back <= 212
    assert recovery.slices_now == 2


def test_a_run_that_does_not_come_back_ends_with_what_it_waits_for():
    lost = snapshot(job("RUNNING", "Running"), ready=(2, 0))
    scenes = (Scene(0, RUNNING, gauges(28.0)), Scene(10, lost, reasons=[Reason("No node has a free slice.")]))
    with pytest.raises(DriverError, match="has not trained again within 10:00 min .*: No node has a free slice."):
        rehearsed(*scenes, limit=600.0)


def test_a_run_that_fails_for_it_says_so():
    failed = snapshot(job("FAILED", "Failed"))
    recovery, _ = rehearsed(Scene(0, RUNNING, gauges(28.0)), Scene(10, failed, words="run failed: worker 1: gone"))
    assert recovery.as_data()["ended"] == "failed"
    assert recovery.training_again is None


def test_a_run_that_has_ended_has_nothing_to_recover():
    with pytest.raises(DriverError, match="The run has ended"):
        rehearsed(Scene(0, snapshot(job("SUCCEEDED", "Complete"))))


def test_a_run_that_does_not_train_yet_is_waited_for():
    recovery, _ = rehearsed(Scene(0, RUNNING), Scene(100, RUNNING, gauges(28.0)), *(
        Scene(scene.at + 200, scene.snapshot, scene.gauges) for scene in SHRUNK[1:]
    ))  # fmt: skip
    assert recovery.at_step == 28
