"""Many slices: nodes and network devices that are API objects alone, so that the scheduler decides and nothing runs."""

import collections
import time
from collections.abc import Iterator

import pytest

from tests.cluster import addons, cluster, release
from tests.cluster.release import Release
from tests.gke import objects

SLICES = 16

pytestmark = pytest.mark.own_nodes


@pytest.fixture
def pools(place: release.Place) -> Iterator[list[str]]:
    """Node pools of one slice each, beside the two that run: a node plays both hosts of its slice, as those do."""
    api = place.api
    names = [f"scale-{number}" for number in range(SLICES - 2)]
    (like,) = [spec for spec in cluster.specs() if spec.name == "tpu-1"]
    try:
        for name in names:
            labels = {**like.labels, "cloud.google.com/gke-nodepool": name, "kubernetes.io/hostname": name}
            node = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(like.taints)}}
            api.core.create_node(node)
            api.core.patch_node_status(name, {"status": _healthy(api)})
            api.core.patch_node_status(name, objects.tpu_capacity(cluster.CHIPS))
            api.apply([_devices(name)])
        yield names
    finally:
        for name in names:
            api.core.delete_node(name)
        slices = api.dynamic.resources.get(api_version="resource.k8s.io/v1", kind="ResourceSlice")
        for name in names:
            slices.delete(name=name)


@pytest.mark.full
def test_sixteen_slices_have_a_node_pool_and_a_place_each(demo: Release, pools: list[str]):
    demo.install("job.enabled=false", f"tpu.slices={SLICES}")
    deadline = time.monotonic() + 180
    while len(placed := [pod for pod in demo.workers() if pod.spec.node_name]) < SLICES * cluster.HOSTS:
        assert time.monotonic() < deadline, demo.report()
        time.sleep(0.5)
    slices = collections.defaultdict(set)
    for pod in placed:
        slices[pod.metadata.labels["replicaIndex"]].add((pod.spec.node_name, pod.spec.hostname))
    assert slices.keys() == {f"tpu-{number}" for number in range(SLICES)}
    for name, hosts in slices.items():
        assert {host for _, host in hosts} == {f"{name}-0", f"{name}-1"}
        assert len({node for node, _ in hosts}) == 1
    assert len({node for hosts in slices.values() for node, _ in hosts}) == SLICES


def _healthy(api: addons.Api) -> dict[str, object]:
    """The status of a node as its kubelet would report it."""
    status = api.client.sanitize_for_serialization(api.core.read_node("tpu-1").status)
    return {key: status[key] for key in ("capacity", "allocatable", "conditions")}


def _devices(node: str) -> dict[str, object]:
    devices = [{"name": f"net{number}"} for number in range(2 * cluster.HOSTS)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {"driver": "dra.net", "nodeName": node, "pool": pool, "devices": devices},
    }
