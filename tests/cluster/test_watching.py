"""A run is watched through the real API server: its log, its gauges, Ray's dashboard, while its pods come and go."""

import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from driver.kube import connection, ray_api
from driver.kube.connection import Connection
from driver.kube.forwarding import Forward
from driver.kube.job_log import JobLog
from tests.cluster import faults
from tests.cluster.release import Release

PERIOD = 5
RUN = ("job.steps=60", f"job.maxtext.checkpoint_period={PERIOD}", "job.maxtext.max_target_length=64")


@contextlib.contextmanager
def following(demo: Release) -> Iterator[list[str]]:
    """The lines of the run's log as they come."""
    lines: list[str] = []
    log = JobLog(connected(demo), demo.name, follow=True)
    thread = threading.Thread(target=lambda: lines.extend(each.text for each in log), daemon=True)
    thread.start()
    yield lines
    thread.join(120)
    assert not thread.is_alive()


def connected(demo: Release) -> Connection:
    return connection.connect(str(demo.kubeconfig), "", demo.namespace)


@pytest.mark.full
@pytest.mark.own_nodes
def test_a_submitter_that_is_killed_costs_no_line_and_repeats_none(demo: Release):
    demo.install(*RUN)
    with following(demo) as lines:
        demo.await_step(10, 700)
        (submitter,) = demo.pods(f"batch.kubernetes.io/job-name={demo.job_name()}")
        faults.kill_container(submitter)
        demo.await_success(900)
    for step in range(60):
        said = [line for line in lines if f"completed step: {step}," in line]
        assert said, f"step {step}"
        assert len(said) == len(set(said))


@pytest.mark.full
@pytest.mark.own_nodes
def test_what_a_killed_worker_said_is_still_there(demo: Release):
    demo.install(*RUN)
    demo.await_step(10, 700)
    gone = demo.workers()[0]
    demo.api.core.delete_namespaced_pod(gone.metadata.name, demo.namespace, grace_period_seconds=0)
    demo.await_success(900)
    lines = [line.text for line in JobLog(connected(demo), demo.name)]
    assert any(f"ip={gone.status.pod_ip})" in line for line in lines)


@pytest.mark.full
@pytest.mark.own_nodes
def test_the_dashboards_port_leads_to_the_head_that_was_made_again(demo: Release):
    demo.install("job.enabled=false")
    demo.settle()
    here = connected(demo)
    with Forward(here, lambda: ray_api.head(here, demo.name)) as forward:
        assert version(forward)
        before = ray_api.head(here, demo.name)
        faults.delete_head(demo)
        deadline = time.monotonic() + 300
        while (now := ray_api.head(here, demo.name)) is None or before is None or now.uid == before.uid:
            assert time.monotonic() < deadline, demo.report()
            time.sleep(0.5)
        while not version(forward):
            assert time.monotonic() < deadline, demo.report()
            time.sleep(0.5)


def version(forward: Forward) -> str:
    """Ray's, from its dashboard; empty while that does not answer."""
    try:
        with urllib.request.urlopen(f"{forward.url}/api/version", timeout=30) as answer:
            return str(json.load(answer)["ray_version"])
    except OSError:
        return ""
