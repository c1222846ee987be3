"""`driver install` follows a run to its end, over all that goes away meanwhile, and names the cause of a failure."""

from pathlib import Path

import pytest

from tests.cluster import cluster, driver_command, faults
from tests.cluster.release import Release

PERIOD = 5
SHORT = ("job.steps=20", f"job.maxtext.checkpoint_period={PERIOD}", "job.maxtext.max_target_length=64")
LONG = ("job.steps=120", *SHORT[1:])

pytestmark = pytest.mark.own_nodes


@pytest.mark.full
def test_an_argument_that_maxtext_does_not_know_is_named(demo: Release):
    code, facts = driver_command.install(demo, *SHORT, "job.maxFailures=0", "job.maxtext.base_emb_dmi=64").facts(900)
    assert (code, facts["succeeded"]) == (1, False)
    assert facts["cause"]["found"] == "MaxText has no argument base_emb_dmi."
    assert "base_emb_dim" in facts["cause"]["fix"]


@pytest.mark.full
def test_a_run_folder_that_is_read_only_is_named(demo: Release):
    code, facts = driver_command.install(demo, *SHORT, "job.maxFailures=0", "storage.mountOptions.ro=true").facts(900)
    assert code == 1
    assert "cannot be written" in facts["cause"]["found"]


@pytest.mark.full
def test_a_host_that_runs_out_of_memory_is_named(demo: Release):
    code, facts = driver_command.install(
        demo,
        *SHORT,
        "job.maxFailures=0",
        "worker.resources.requests.memory=600Mi",
        "worker.resources.limits.memory=700Mi",
    ).facts(900)
    assert code == 1
    assert "out of memory" in facts["cause"]["found"]


@pytest.mark.full
def test_a_run_that_cannot_start_ends_the_following_with_the_reason_and_goes_on(demo: Release):
    running = driver_command.install(demo, "image.uri=localhost/none:1", options=("--start-timeout", "60"))
    code, _ = running.facts(300)
    assert code == 1
    assert "has not started within" in "".join(running.said)
    assert "localhost/none:1" in "".join(running.said)
    assert demo.objects("RayJob")


@pytest.mark.full
@pytest.mark.parametrize("loss", ["head", "worker", "submitter"])
def test_a_pod_that_is_lost_does_not_end_the_following(demo: Release, loss: str):
    running = driver_command.install(demo, *LONG)
    demo.await_step(10, 900)
    match loss:
        case "head":
            faults.delete_head(demo)
        case "worker":
            faults.kill_container(demo.workers()[0])
        case _:
            faults.delete_submitter(demo)
    code, facts = running.facts(1200)
    assert (code, facts["lastCheckpoint"]) == (0, 119)


@pytest.mark.full
def test_an_operator_that_is_away_at_the_end_does_not_end_the_following(demo: Release):
    running = driver_command.install(demo, *SHORT)
    demo.await_step(5, 900)
    with faults.operator_stopped(demo.api):
        demo.await_records(lambda found: any(each["kind"] == "end" for each in found), 600)
        assert running.process.poll() is None
    assert running.facts(300)[0] == 0


@pytest.mark.full
def test_a_restart_of_the_api_server_does_not_end_the_following(demo: Release, test_cluster: cluster.Cluster):
    running = driver_command.install(demo, *LONG)
    demo.await_step(5, 900)
    faults.restart_api_server(test_cluster)
    code, facts = running.facts(900)
    assert (code, facts["lastCheckpoint"]) == (0, 119)


@pytest.mark.full
def test_a_release_that_is_uninstalled_meanwhile_ends_the_following(demo: Release):
    running = driver_command.install(demo, *LONG)
    running.await_words("Slices are joining", 120)
    demo.uninstall()
    assert running.facts(120)[0] == 1
    assert "was removed before it ended" in "".join(running.said)


@pytest.mark.full
def test_a_preempted_slice_is_reported_with_its_recovery(demo: Release):
    elastic = ("elastic.enabled=true", "job.steps=200", "job.maxtext.checkpoint_period=10")
    demo.install(*elastic, *SHORT[2:])
    demo.await_session(slices=2, seconds=900)
    code, facts = driver_command.start(demo, "preempt", demo.name, "--slice", "1", "--give-back").facts(1200)
    assert code == 0
    assert facts["taken"] == "slice 1"
    assert facts["stepsLost"] <= 10
    assert facts["slicesNow"] == 2
    assert 0 <= facts["detectedSeconds"] <= facts["restartedSeconds"] <= facts["trainingAgainSeconds"]


@pytest.mark.full
def test_who_may_only_look_is_told_which_right_a_preemption_needs(demo: Release, tmp_path: Path):
    demo.install(*LONG, "operators.subjects.looker=ServiceAccount")
    looker = driver_command.as_service_account(demo, "looker", tmp_path)
    running = driver_command.start(looker, "preempt", demo.name)
    assert running.facts(60)[0] == 1
    assert "--verb=delete --resource=pods" in "".join(running.said)
