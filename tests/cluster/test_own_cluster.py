"""A RayJob that makes its own cluster, and removes it."""

import pytest

from tests.cluster.release import Release, deployment_status, job_status

OWN = (
    "rayJob.ownCluster=true",
    "rayJob.ttlSecondsAfterFinished=5",
    "job.steps=12",
    "job.maxtext.checkpoint_period=5",
    "job.maxtext.max_target_length=64",
)


@pytest.mark.full
def test_a_run_with_a_cluster_of_its_own_succeeds_and_the_cluster_goes(demo: Release):
    demo.install(*OWN)
    demo.await_success(700)
    assert demo.checkpoints()[-1] == 11
    demo.await_none("RayCluster", 120)


@pytest.mark.full
def test_a_suspended_run_has_no_cluster_and_goes_on_from_its_checkpoints(demo: Release):
    demo.install(*OWN, "rayJob.suspend=true", "job.steps=60")
    name = demo.job_name()
    demo.await_object("RayJob", name, lambda each: deployment_status(each) == "Suspended", 60)
    assert demo.objects("RayCluster") == []
    demo.install(*OWN, "rayJob.suspend=false", "job.steps=60")
    assert demo.job_name() == name
    demo.await_step(10, 700)
    demo.install(*OWN, "rayJob.suspend=true", "job.steps=60")
    demo.await_object("RayJob", name, lambda each: deployment_status(each) == "Suspended", 120)
    demo.await_none("RayCluster", 120)
    demo.install(*OWN, "rayJob.suspend=false", "job.steps=60")
    demo.await_object("RayJob", name, lambda each: job_status(each) == "SUCCEEDED", 700)
    starts = [session["start_step"] for session in demo.sessions()]
    assert starts[0] == 0
    assert starts[-1] >= 6
    assert demo.checkpoints()[-1] == 59
