"""`driver status` and `driver nodes` on the real cluster: what its API server, scheduler, kubelets and KubeRay say."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import watch

from driver.cli import run
from tests.cluster.buckets import FolderBucket
from tests.cluster.release import Release

SMALL = "job.steps=100000"  # it trains until the namespace goes
WITHOUT_A_RUN = "job.enabled=false"

Told = Callable[..., dict[str, Any]]


@pytest.fixture
def told(demo: Release, capsys: pytest.CaptureFixture[str]) -> Told:
    """The JSON of a command for the release."""

    def tell(command: str) -> dict[str, Any]:
        arguments = [command, demo.name, "-n", demo.namespace, "--kubeconfig", str(demo.kubeconfig)]
        assert run([*arguments, "--output", "json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    return tell


def until(told: Told, demo: Release, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The status once it is as wanted, looked at whenever an event of the namespace comes."""
    for _ in _changes(demo):
        status = told("status")
        if done(status):
            return status
    raise AssertionError(f"not within three minutes: {json.dumps(status)}\n{demo.report()}")


def _changes(demo: Release) -> Iterator[None]:
    yield
    for _ in watch.Watch().stream(demo.api.core.list_namespaced_event, demo.namespace, timeout_seconds=180):
        yield


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "sets"),
    [
        ("imageNeverPulled", ("image.uri=localhost/none:1",)),
        ("claimWaits", ("network.dranet.count=9",)),
        ("noSuchNode", ("worker.nodeSelector.nowhere=true",)),
        ("nodeTooSmall", ("worker.resources.requests.memory=900Ti", "worker.resources.limits.memory=900Ti")),
        ("deviceClassMissing", ("network.dranet.deviceClassName=none.example.com",)),
    ],
)
def test_what_a_pod_waits_for_is_told(demo: Release, told: Told, kind: str, sets: tuple[str, ...]):
    demo.install(WITHOUT_A_RUN, *sets)
    until(told, demo, lambda status: any(reason["kind"] == kind for reason in status["pending"]))


@pytest.mark.own_nodes
@pytest.mark.full
def test_a_bucket_that_refuses_the_service_account_is_told(demo: Release, told: Told):
    assert isinstance(demo.bucket, FolderBucket)
    demo.bucket.bind([])
    demo.install(WITHOUT_A_RUN)
    until(told, demo, lambda status: any(reason["kind"] == "bucketRefused" for reason in status["pending"]))
