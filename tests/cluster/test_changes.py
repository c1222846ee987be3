"""Upgrades that change the pods: there is never a slice of two kinds of hosts."""

import collections

import pytest

from tests.cluster.release import Release, cluster_state

IDLE = "job.enabled=false"

# The new cluster's pods wait until the old one's have left their node pools. The scheduler (1.36,
# isSchedulableAfterPodChange of interpodaffinity) does not always look at them again when that happens, because it asks
# whether a pod that has gone matches all of their anti-affinity terms: they then wait until it looks at every pod,
# which is after five minutes.
CHANGE_SECONDS = 420


@pytest.mark.full
def test_another_count_of_network_devices_is_another_claim_and_another_cluster(demo: Release):
    demo.install(IDLE)
    demo.await_object("RayCluster", demo.cluster_name(), lambda each: cluster_state(each) == "ready", 300)
    demo.install(IDLE, "network.dranet.count=1")
    demo.await_object("RayCluster", demo.cluster_name(), lambda each: cluster_state(each) == "ready", CHANGE_SECONDS)
    claims = demo.api.dynamic.resources.get(api_version="resource.k8s.io/v1", kind="ResourceClaim")
    live = [claim for claim in claims.get(namespace=demo.namespace).items if not claim.metadata.deletionTimestamp]
    assert [len(claim.status.allocation.devices.results) for claim in live] == [1, 1, 1, 1]
    assert {pod.metadata.labels["ray.io/cluster"] for pod in demo.workers()} == {demo.cluster_name()}


@pytest.mark.full
@pytest.mark.parametrize("change", ["worker.resources.requests.memory=600Mi", "worker.env.SOMETHING=else"])
def test_changed_pods_leave_no_slice_with_hosts_of_two_kinds(demo: Release, change: str):
    demo.install(IDLE)
    demo.await_object("RayCluster", demo.cluster_name(), lambda each: cluster_state(each) == "ready", 300)
    demo.install(IDLE, change)
    name = demo.cluster_name()
    demo.await_object("RayCluster", name, lambda each: cluster_state(each) == "ready", CHANGE_SECONDS)
    kinds = collections.defaultdict(set)
    for pod in demo.workers():
        container = pod.spec.containers[0]
        shape = (container.image, str(container.resources.requests), len(container.env))
        kinds[pod.metadata.labels["replicaIndex"]].add((pod.metadata.labels["ray.io/cluster"], *shape))
    assert {slice_: len(found) for slice_, found in kinds.items()} == {"tpu-0": 1, "tpu-1": 1}
    assert {cluster for found in kinds.values() for cluster, *_ in found} == {name}
