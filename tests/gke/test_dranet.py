"""DRANET's driver through its sockets: registration, what it publishes, and what it prepares for whom."""

import pytest

from tests.gke.fake_api import fake_api
from tests.gke.kubelet import POD, started
from tests.gke.programs import program

SLICE = "/apis/resource.k8s.io/v1/resourceslices/node1-dra.net"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"


def allocate(api, name, *devices, uid="u1", pool="node1", driver="dra.net", pod="p"):
    results = [{"request": "nics", "driver": driver, "pool": pool, "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"resource": "pods", "name": pod}]}
    api.put(f"{CLAIMS}/{name}", metadata={"uid": uid}, status=status)


def test_both_drivers_register_with_the_kubelets_protocol(node):
    dra, csi = node.register("dra.net"), node.register("gcsfuse")
    assert (dra.type, dra.name, list(dra.supported_versions)) == ("DRAPlugin", "dra.net", ["v1.DRAPlugin"])
    assert dra.endpoint == str(node.folder / "k" / "plugins/dra.net/dra.sock")
    assert (csi.type, csi.name) == ("CSIPlugin", "gcsfuse.csi.storage.gke.io")
    assert node.program.wait_for("registered")
    assert node.program.wait_for("registered")


def test_the_devices_of_all_hosts_are_published_once_the_kubelet_knows_the_driver(node):
    node.register("dra.net")
    spec = node.api.wait_for(SLICE)["spec"]
    assert (spec["driver"], spec["nodeName"]) == ("dra.net", "node1")
    assert spec["pool"]["resourceSliceCount"] == 1
    assert [device["name"] for device in spec["devices"]] == ["host0-eth1", "host0-eth2", "host1-eth1", "host1-eth2"]
    assert spec["devices"][1]["attributes"]["dra.net/ifName"] == {"string": "eth2"}
    owner = node.api.wait_for(SLICE)["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("Node", "node-uid")


def test_a_slice_that_the_kubelet_deleted_comes_back(node):
    node.register("dra.net")
    node.api.wait_for(SLICE)
    node.api.remove(SLICE)
    assert node.api.wait_for(SLICE)["spec"]["devices"]


def test_a_slice_that_somebody_changed_becomes_a_newer_generation_of_the_pool(node):
    node.register("dra.net")
    found = node.api.wait_for(SLICE)
    generation = found["spec"]["pool"]["generation"]
    node.api.put(SLICE, metadata=found["metadata"], spec=found["spec"] | {"devices": []})
    node.register("dra.net")
    mended = node.api.wait_for(SLICE, lambda item: item and item["spec"]["devices"])
    assert mended["spec"]["pool"]["generation"] == generation + 1


def test_a_claim_is_prepared_with_the_devices_of_its_allocation(node):
    allocate(node.api, "c1", "host0-eth1", "host0-eth2")
    prepared = node.prepare("c1")
    assert prepared.error == ""
    assert [(device.pool_name, device.device_name) for device in prepared.devices] == [
        ("node1", "host0-eth1"),
        ("node1", "host0-eth2"),
    ]
    assert list(prepared.devices[0].request_names) == ["nics"]
    node.dra("NodeUnprepareResources", ("c1", "u1"))


def test_preparing_and_unpreparing_again_changes_nothing(node):
    allocate(node.api, "c1", "host0-eth1")
    first = node.prepare("c1")
    node.api.remove(f"{CLAIMS}/c1")
    assert node.prepare("c1") == first
    for _ in range(2):
        assert node.dra("NodeUnprepareResources", ("c1", "u1"))["u1"].error == ""


def test_a_device_is_prepared_for_one_claim_at_a_time(node):
    allocate(node.api, "c1", "host0-eth1")
    allocate(node.api, "c2", "host0-eth1", uid="u2")
    node.prepare("c1")
    assert "node1/host0-eth1 is still prepared for the claim with UID u1" in node.prepare("c2", "u2").error
    node.dra("NodeUnprepareResources", ("c1", "u1"))
    assert node.prepare("c2", "u2").error == ""
    node.dra("NodeUnprepareResources", ("c2", "u2"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool": "node2"}, "the device node2/host0-eth1 is none of node node1"),
        ({"driver": "gpu.nvidia.com"}, "its allocation holds no device of dra.net"),
        ({"uid": "u9"}, "its UID is u9, not u1: it was made again under its name"),
        ({"pod": "on-host"}, "the pod on-host uses hostNetwork and can have no network device"),
    ],
    ids=["node", "driver", "uid", "host network"],
)
def test_a_claim_that_is_not_this_drivers_is_not_prepared(node, change, message):
    node.api.put("/api/v1/namespaces/team/pods/on-host", metadata={}, spec={"hostNetwork": True})
    allocate(node.api, "c1", "host0-eth1", **change)
    assert node.prepare("c1").error == f"claim team/c1: {message}"


def test_a_claim_without_allocation_or_without_object_is_not_prepared(node):
    node.api.put(f"{CLAIMS}/waiting", metadata={"uid": "u1"}, status={})
    assert "it is not allocated" in node.prepare("waiting").error
    assert "(404)" in node.prepare("missing").error


def test_a_restarted_driver_knows_what_it_prepared(folder):
    with fake_api() as api:
        with started(api, folder) as node:
            api.put(POD, metadata={}, spec={})
            allocate(api, "c1", "host0-eth1")
            assert node.prepare("c1").error == ""
            assert node.program.terminate() == 0
        api.remove(f"{CLAIMS}/c1")
        with started(api, folder) as node:
            assert node.prepare("c1").error == ""


def test_a_kubelets_folder_that_is_too_deep_for_sockets_is_an_error(folder):
    with fake_api() as api:
        deep = folder / ("d" * 100)
        arguments = ["--kubeconfig", str(api.kubeconfig(folder)), "--node", "node1", "--hosts", "2"]
        arguments += ["--buckets", str(folder), "--kubelet-dir", str(deep)]
        with program("tests.gke.node", *arguments) as running:
            running.wait_for("Error: The socket's path")
            assert running.process.wait() == 1
