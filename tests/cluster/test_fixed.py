"""A run of a fixed size on two slices of two hosts: one release from `helm install` to `helm uninstall`.

The tests go through the life of the release in order, each on what the one before has left.
"""

import re
from collections.abc import Iterator

import pytest

from tests.cluster import release
from tests.cluster.release import Release, cluster_state

RUN = ("job.steps=12", "job.maxtext.checkpoint_period=5", "job.maxtext.max_target_length=64")
LONGER = ("job.steps=18", *RUN[1:])

# Slices are of two hosts, and the cluster has two.
HOSTS = {f"tpu-{number}-{host}" for number in (0, 1) for host in (0, 1)}


@pytest.fixture(scope="module")
def demo(place: release.Place) -> Iterator[Release]:
    with place.release("fixed") as made:
        yield made


@pytest.fixture(scope="module")
def notes(demo: Release) -> str:
    """What `helm install` says; the run has succeeded when this is there."""
    said = demo.install(*RUN)
    demo.await_object("RayCluster", demo.cluster_name(), lambda each: cluster_state(each) == "ready", 300)
    demo.await_success(600)
    return said


def test_an_install_trains_up_to_the_last_checkpoint(demo: Release, notes: str):
    assert demo.checkpoints()[-1] == 11
    assert {session["slices"] for session in demo.sessions()} == {2}


def test_every_host_has_its_network_devices(demo: Release, notes: str):
    claims = demo.api.dynamic.resources.get(api_version="resource.k8s.io/v1", kind="ResourceClaim")
    devices = [
        (device.pool, device.device)
        for claim in claims.get(namespace=demo.namespace).items
        for device in claim.status.allocation.devices.results
    ]
    assert len(devices) == len(set(devices)) == 2 * len(HOSTS)


def test_the_webhook_has_told_every_host_its_place(demo: Release, notes: str):
    places = {}
    for pod in demo.workers():
        environment = {each.name: each.value for each in pod.spec.containers[0].env if each.value is not None}
        places[pod.spec.hostname] = environment
        assert environment["TPU_NAME"] == pod.spec.hostname.rpartition("-")[0]
        assert environment["TPU_WORKER_ID"] == pod.spec.hostname.rpartition("-")[2]
        assert environment["TPU_TOPOLOGY"] == "2x4"
    assert places.keys() == HOSTS


def test_a_slice_is_a_node_pool(demo: Release, notes: str):
    pools = {pod.spec.hostname: pod.spec.node_name for pod in demo.workers()}
    assert pools["tpu-0-0"] == pools["tpu-0-1"] != pools["tpu-1-0"] == pools["tpu-1-1"]


def test_helm_test_finds_every_host_its_devices_and_the_bucket(demo: Release, notes: str):
    said = demo.helm("test", demo.name, "--timeout=180s", "--logs")
    assert "Succeeded" in said
    print(said)


def test_the_commands_of_the_notes_work_as_printed(demo: Release, notes: str):
    commands = [line.strip() for line in notes.splitlines() if re.match(r"  \S+=\$\(kubectl|  kubectl ", line)]
    ending = [command for command in commands if "port-forward" not in command]
    assert len(ending) >= 4
    demo.shell("\n".join(["set -e", *ending]))


def test_an_upgrade_with_the_same_values_restarts_nothing(demo: Release, notes: str):
    before = demo.identities()
    demo.install(*RUN)
    demo.settle()
    assert demo.identities() == before


def test_an_upgrade_with_other_training_values_goes_on_from_the_checkpoints_on_the_same_cluster(
    demo: Release, notes: str
):
    cluster_before, job_before = demo.cluster_name(), demo.job_name()
    pods = {pod.metadata.uid for pod in demo.workers()}
    demo.install(*LONGER)
    assert demo.job_name() != job_before
    demo.await_success(600)
    assert (demo.cluster_name(), {pod.metadata.uid for pod in demo.workers()}) == (cluster_before, pods)
    assert [session["start_step"] for session in demo.sessions()] == [0, 12]
    assert demo.checkpoints()[-1] == 17


def test_a_rollback_is_a_run_that_has_nothing_to_do(demo: Release, notes: str):
    demo.helm("rollback", demo.name, "1")
    demo.await_success(600)
    assert demo.checkpoints()[-1] == 17


def test_an_uninstall_leaves_nothing_but_the_bucket(demo: Release, notes: str):
    demo.uninstall()
    demo.await_empty(120)
    assert demo.checkpoints()[-1] == 17
