"""What breaks during a run: a container, the operator, the head."""

import pytest

from tests.cluster import faults
from tests.cluster.release import Release

PERIOD = 5
RUN = ("job.steps=40", f"job.maxtext.checkpoint_period={PERIOD}", "job.maxtext.max_target_length=64")
pytestmark = pytest.mark.own_nodes

# Workers go on for a minute without the head: long enough for them not to come to the end.
LONG = ("job.steps=120", *RUN[1:])
OWN = ("rayJob.ownCluster=true", *LONG)


@pytest.mark.full
def test_a_killed_worker_container_costs_no_more_than_a_checkpoint_period(demo: Release):
    demo.install(*RUN)
    demo.await_step(10, 700)
    faults.kill_container(demo.workers()[0])
    demo.await_success(700)
    assert demo.checkpoints()[-1] == 39
    assert max(demo.steps_lost()) <= PERIOD


@pytest.mark.full
def test_a_run_does_not_notice_that_the_operator_is_away(demo: Release):
    demo.install(*RUN)
    demo.await_step(5, 700)
    with faults.operator_stopped(demo.api):
        demo.await_records(lambda found: any(each["kind"] == "end" for each in found), 600)
    demo.await_success(300)
    assert len(demo.sessions()) == 1


@pytest.mark.full
def test_a_head_that_is_lost_under_a_cluster_of_its_own_is_retried_by_itself(demo: Release):
    demo.install(*OWN)
    demo.await_step(10, 700)
    faults.keep_head_away(demo, 70)
    demo.await_success(1200)
    assert demo.checkpoints()[-1] == 119
    assert max(demo.steps_lost()) <= PERIOD


@pytest.mark.full
def test_a_head_that_is_lost_under_a_shared_cluster_is_made_again_and_the_run_is_submitted_again(demo: Release):
    demo.install(*LONG)
    demo.await_step(10, 700)
    name = demo.job_name()
    faults.delete_head(demo)
    demo.await_success(900)
    assert demo.job_name() == name
    assert demo.checkpoints()[-1] == 119
    assert max(demo.steps_lost()) <= PERIOD
