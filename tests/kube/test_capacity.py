"""Free slices are whole node pools."""

import pytest

from driver.kube.capacity import look
from tests.kube import manifests

SELECTOR = {manifests.ACCELERATOR: "tpu-v6e-slice"}


def add_node(api, name, pool, **fields):
    api.put("nodes", manifests.node(name, pool, **fields))


def add_worker(api, node, namespace="elsewhere", release="other"):
    """A worker's pod that uses the node's chips."""
    pod = manifests.worker(0, 0, cluster="other-abc123", release=release)
    pod["metadata"]["namespace"], pod["spec"]["nodeName"] = namespace, node
    api.put("pods", pod)


def free(connection, release="demo"):
    return {one.name: one.free for one in look(connection, SELECTOR, 4, release)}


def why(connection):
    return [reason for one in look(connection, SELECTOR, 4, "demo") for reason in one.why_not]


def test_nodes_are_counted_by_their_pool(api, connection):
    add_node(api, "a", "one")
    add_node(api, "b", "one")
    add_node(api, "c", "two")
    assert free(connection) == {"one": 2, "two": 1}


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"ready": "False"}, "a node is not ready"),
        ({"unschedulable": True}, "a node is cordoned"),
        ({"chips": 1}, "a node has fewer than 4 chips"),
        ({"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}, "a node is being removed"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_node_that_cannot_be_used_is_not_free(api, connection, node, said):
    add_node(api, "a", "one", **node)
    assert free(connection) == {"one": 0}
    assert why(connection) == [said]


def test_a_node_whose_chips_several_hosts_share_is_as_many_hosts(api, connection):
    add_node(api, "a", "one", chips=8)
    assert free(connection) == {"one": 2}


def test_chips_that_another_release_uses_are_not_free(api, connection):
    add_node(api, "a", "one")
    add_worker(api, "a")
    assert free(connection) == {"one": 0}
    assert why(connection) == ["used by elsewhere/other-abc123 (release other)"]


def test_chips_that_the_release_itself_uses_are_free_for_it(api, connection):
    add_node(api, "a", "one")
    add_worker(api, "a", "team", "demo")
    assert free(connection) == {"one": 1}


def test_without_the_right_to_see_all_pods_nodes_are_taken_for_free(api, connection):
    add_node(api, "a", "one")
    add_worker(api, "a")
    api.faults.denied.add(("list", "pods"))
    assert free(connection) == {"one": 1}
