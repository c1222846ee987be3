"""driver install, stop and uninstall on the real KubeRay: what an API without controllers cannot show."""

import json

import pytest

from tests.cluster.driver_command import run, values
from tests.cluster.release import Release, deployment_status

_START_SECONDS = 600


def test_the_same_values_change_nothing_and_the_diff_says_so(demo: Release):
    run(demo, "install", demo.name, *values(demo), "--set", "job.enabled=false", "--detach")
    demo.settle()
    before = demo.identities()
    told = run(demo, "install", demo.name, *values(demo), "--set", "job.enabled=false", "--diff", "--output", "json")
    assert json.loads(told)["changes"] == []
    run(demo, "install", demo.name, *values(demo), "--set", "job.enabled=false", "--detach")
    assert demo.identities() == before


def test_an_uninstall_during_the_start_leaves_nothing(demo: Release):
    run(demo, "install", demo.name, *values(demo), "--detach")
    run(demo, "uninstall", demo.name)
    demo.await_empty(60)


@pytest.mark.full
def test_an_uninstall_while_training_leaves_nothing_but_the_checkpoints(demo: Release):
    run(demo, "install", demo.name, *values(demo), "--set", "job.steps=400", "--detach")
    demo.await_step(20, _START_SECONDS)
    run(demo, "uninstall", demo.name)
    demo.await_empty(60)
    assert demo.checkpoints()


@pytest.mark.full
def test_a_run_with_its_own_cluster_is_suspended_and_goes_on(demo: Release):
    own = ("--set", "rayJob.ownCluster=true")
    run(demo, "install", demo.name, *values(demo), *own, "--set", "job.steps=400", "--detach")
    demo.await_step(20, _START_SECONDS)
    run(demo, "stop", demo.name)
    demo.await_object("RayJob", demo.job_name(), lambda each: deployment_status(each) == "Suspended", 120)
    assert demo.workers() == []
    run(demo, "install", demo.name, "--rerun", "--detach")
    demo.await_session(2, _START_SECONDS, after=1)


@pytest.mark.full
def test_another_run_with_its_own_cluster_begins_when_the_old_one_has_ended(demo: Release):
    own = ("--set", "rayJob.ownCluster=true")
    run(demo, "install", demo.name, *values(demo), *own, "--set", "job.steps=400", "--detach")
    demo.await_step(20, _START_SECONDS)
    run(demo, "install", demo.name, *values(demo), *own, "--set", "job.steps=30", "--detach")
    demo.await_success(_START_SECONDS)


def test_a_values_error_leaves_the_cluster_as_it_was(demo: Release):
    told = run(demo, "install", demo.name, *values(demo), "--set", "job.stepz=3", "--detach", code=2)
    assert "Did you mean job.steps?" in told
    demo.await_empty(1)
