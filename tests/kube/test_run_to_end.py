"""A run that is followed with everything real but the API server, to an end that comes while it is watched."""

import io
import threading

from rich.console import Console

from driver.kube import run_to_end
from tests.kube import manifests

RUN = {"steps": 60, "maxtext": {}}


def put_job(api, **status):
    """It does not say how many steps it takes: that is known from the request."""
    job = manifests.ray_job(**status)
    del job["metadata"]["annotations"]["maxtext-multislice/steps"]
    api.put("rayjobs", job)


def followed(api, console):
    request = run_to_end.request("demo", manifests.JOB, RUN, namespace="team", start_timeout=600)
    return run_to_end.follow(api.connection(), request, console)


def test_the_end_is_seen_when_the_watch_rings(api):
    told = io.StringIO()
    put_job(api, jobStatus="RUNNING", jobDeploymentStatus="Running")

    def end():
        api.watches.await_begun(3)
        message = "run demo succeeded: last checkpoint at step 59, in /data/demo/checkpoints"
        put_job(api, jobStatus="SUCCEEDED", jobDeploymentStatus="Complete", message=message)

    threading.Thread(target=end).start()
    facts = followed(api, Console(file=told, width=100))
    assert (facts["succeeded"], facts["lastCheckpoint"], facts["run"], facts["steps"]) == (True, 59, "demo", 60)
    assert "The job has ended" in told.getvalue()


def test_a_failed_job_is_told_with_the_cause_that_kuberay_kept(api):
    message = "Job entrypoint command failed with exit code 1\nrun failed: worker 1: ValueError: no such tokenizer"
    put_job(api, jobStatus="FAILED", jobDeploymentStatus="Failed", reason="AppFailed", message=message)
    facts = followed(api, Console(file=io.StringIO()))
    assert not facts["succeeded"]
    assert facts["cause"]["found"] == "Worker 1: ValueError: no such tokenizer."
