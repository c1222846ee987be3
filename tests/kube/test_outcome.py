"""The verdict on a run, and what is printed of it."""

import io

from rich.console import Console

from driver.kube import outcome
from driver.kube.following import Follower, Request
from tests.kube.stage import Audience, Reason, Scene, Stage, job, pod, snapshot


def verdict(run, words="", reasons=(), **fields):
    return outcome.judge(Request("demo"), snapshot(run, **fields), words, reasons)


def test_the_checkpoint_comes_from_the_entry_points_words():
    words = "run demo is complete: last checkpoint at step 59, in /data. Raise job.steps to train further\n"
    assert verdict(job("SUCCEEDED", "Complete"), words).last_checkpoint == 59


def test_without_words_the_exit_code_stands_and_the_checkpoint_is_not_known():
    ended = verdict(job("SUCCEEDED", "Complete"))
    assert ended.succeeded
    assert ended.last_checkpoint is None


def test_kuberays_copy_of_the_jobs_message_does_where_the_submitter_is_gone():
    message = (
        "Job entrypoint command failed with exit code 1, last available logs:\nrun failed: worker 1: ValueError: x"
    )
    assert verdict(job("FAILED", "Failed", message=message)).cause.found == "Worker 1: ValueError: x."


def test_a_deadline_names_what_was_waited_for():
    ended = verdict(job("", "Failed", reason="DeadlineExceeded"), reasons=[Reason("No quota for v6e.", "ask for more")])
    assert "activeDeadlineSeconds" in ended.cause.found
    assert "No quota for v6e." in ended.cause.found
    assert ended.cause.fix == "ask for more"


def test_a_pod_that_ran_out_of_memory_is_named_where_the_job_says_nothing():
    ended = verdict(job("FAILED", "Failed"), head=pod("demo-head", role="head", status="OOMKilled", ready=False))
    assert ended.cause.found == "demo-head ran out of memory and was ended by the kernel."


def test_a_job_of_which_nothing_is_known_says_what_kuberay_says():
    ended = verdict(job("FAILED", "Failed", reason="SubmissionFailed", message="backoff limit"))
    assert ended.cause.found == "KubeRay says: SubmissionFailed backoff limit"


def test_facts_and_summary_of_a_failed_run():
    stage = Stage(
        Scene(0, snapshot(job("RUNNING", "Running")), {"step": 7.0, "loss": 5.5, "slices": 2.0, "restarts": 0.0}),
        Scene(
            10, snapshot(job("FAILED", "Failed")), words="run failed: another job has been training run demo for 600 s"
        ),
    )
    follower = Follower(Request("demo", steps=60), stage, Audience(), stage.clock)
    facts = outcome.facts(follower.until_the_end(), follower, 65.0)
    assert (facts["succeeded"], facts["lastStep"], facts["secondsToRunning"]) == (False, 7, 0.0)
    told = io.StringIO()
    console = Console(file=told, width=100)
    outcome.summary(facts, console, "driver install demo --rerun")
    said = told.getvalue()
    assert "Run demo failed: step 7 of 59" in said
    assert "Another job was still training run demo." in said
    assert "driver install demo --rerun" in said
