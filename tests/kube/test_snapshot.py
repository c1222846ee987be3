"""A release is read in one pass, in few calls, and is not mixed with its neighbours."""

import pytest

from driver.errors import USAGE, DriverError
from driver.kube import snapshot
from driver.kube.connection import ForbiddenError
from driver.kube.objects import State
from tests.kube import manifests
from tests.kube.server.api import Api

pytestmark = pytest.mark.usefixtures("demo")


def test_a_release_is_its_cluster_its_job_its_head_and_its_slices_in_order(api: Api):
    pods = api.all("pods")
    api.remove_all("pods")
    api.put_all({"pods": pods[::-1]})
    seen = snapshot.read(api.connection(), "demo")
    assert seen.cluster is not None
    assert seen.cluster.name == manifests.CLUSTER
    assert seen.job is not None
    assert (seen.job.run, seen.job.steps) == ("demo", 100)
    assert seen.head is not None
    assert seen.head.ready
    assert [(one.number, [host.host for host in one.hosts]) for one in seen.slices] == [(0, [0, 1]), (1, [0, 1])]
    assert {one.state for one in seen.slices} == {State.READY}


def test_two_releases_in_a_namespace_do_not_mix(api: Api):
    api.put_all(manifests.whole(slices=3, release="demo-2"))
    assert len(snapshot.read(api.connection(), "demo").hosts) == 4
    assert len(snapshot.read(api.connection(), "demo-2").hosts) == 6
    assert snapshot.releases(api.connection()) == ["demo", "demo-2"]


def test_the_same_release_in_another_namespace_is_another(api: Api):
    host = api.remove("pods", manifests.worker_name(0, 0))
    api.put("pods", host | {"metadata": host["metadata"] | {"namespace": "other"}})
    assert len(snapshot.read(api.connection(), "demo").hosts) == 3


def test_a_release_that_is_not_there_is_told_with_the_nearest(api: Api):
    with pytest.raises(DriverError, match="no release dmeo in namespace team.*Did you mean demo"):
        snapshot.read(api.connection(), "dmeo")


def test_another_charts_release_of_the_name_is_none_of_ours(api: Api):
    for plural in ("rayclusters", "rayjobs"):
        api.all(plural)[0]["metadata"]["labels"]["app.kubernetes.io/name"] = "ray-cluster"
    with pytest.raises(DriverError, match="no release demo"):
        snapshot.read(api.connection(), "demo")


def test_the_only_release_need_not_be_named(api: Api):
    assert snapshot.only_release(api.connection()) == "demo"


def test_of_several_releases_one_must_be_named(api: Api):
    api.put("rayjobs", manifests.ray_job(name="big-1", release="big"))
    with pytest.raises(DriverError, match="big, demo") as raised:
        snapshot.only_release(api.connection())
    assert raised.value.exit_code == USAGE


def test_an_upgrades_predecessor_is_not_taken_for_the_cluster(api: Api):
    old = manifests.ray_cluster(name="demo-old000")
    old["metadata"]["creationTimestamp"] = "2026-11-30T14:00:00Z"
    new = api.remove("rayclusters", manifests.CLUSTER)
    api.put_all({"rayclusters": [old, new], "pods": [manifests.worker(0, 0, cluster="demo-old000")]})
    seen = snapshot.read(api.connection(), "demo")
    assert seen.cluster is not None
    assert seen.cluster.name == manifests.CLUSTER
    assert len(seen.hosts) == 4


def test_a_slice_whose_pods_are_not_made_is_there_and_missing(api: Api):
    for host in range(2):
        api.remove("pods", manifests.worker_name(1, host))
    seen = snapshot.read(api.connection(), "demo")
    assert [(one.number, one.state) for one in seen.slices] == [(0, State.READY), (1, State.MISSING)]


def test_a_slice_is_as_far_as_its_least_ready_host(api: Api):
    api.put("pods", manifests.worker(1, 1, **manifests.unscheduled("0/3 nodes are available")))
    assert snapshot.read(api.connection(), "demo").slices[1].state is State.QUEUED


def test_a_host_that_is_told_to_go_is_leaving_with_its_slice(api: Api):
    api.get("pods", manifests.worker_name(1, 1))["metadata"]["deletionTimestamp"] = "2026-11-30T15:10:30Z"
    seen = snapshot.read(api.connection(), "demo")
    assert (seen.slices[1].state, seen.hosts[-1].leaving) == (State.LEAVING, "2026-11-30T15:10:30Z")


def test_the_calls_grow_with_the_pages_and_not_with_the_pods(api: Api):
    snapshot.read(api.connection(), "demo")
    small = len(api.calls)
    api.put_all(manifests.whole(slices=256, hosts=16))
    api.calls.clear()
    seen = snapshot.read(api.connection(), "demo")
    assert len(seen.hosts) == 4096
    pages = 4097 // 500
    assert len(api.calls) <= small + 2 * pages + 1  # pods and nodes, and the first slice in full
    assert {call.query["limit"] for call in api.calls} == {"500"}


def test_pods_that_run_are_read_as_rows_of_a_large_cluster_and_only_its_first_slice_whole(api: Api):
    api.put_all(manifests.whole(slices=64, hosts=2))
    seen = snapshot.read(api.connection(), "demo")
    whole = [call.query for call in api.calls if call.path.endswith("/pods") and "Table" not in call.accept]
    assert [query.get("fieldSelector") or query["labelSelector"].rpartition(",")[2] for query in whole] == [
        "status.phase!=Running",
        "replicaIndex=tpu-group-0",
    ]
    assert [host.host for host in seen.hosts[:3]] == [0, 1, None]


def test_a_list_whose_moment_is_gone_begins_anew_and_shows_one_moment(api: Api):
    api.put_all(manifests.whole(slices=256, hosts=4))
    api.faults.refuse(410, "The continue parameter is too old", part="continue=", times=1)
    assert len(snapshot.read(api.connection(), "demo").hosts) == 1024


def test_a_right_that_is_missing_is_named(api: Api):
    api.faults.refuse(403, "forbidden", part="/events")
    with pytest.raises(ForbiddenError, match="list events"):
        snapshot.read(api.connection(), "demo")


def test_node_pools_are_shown_to_those_who_may_list_nodes(api: Api):
    seen = snapshot.read(api.connection(), "demo")
    assert [seen.pools[host.node] for host in seen.hosts] == ["pool-0", "pool-0", "pool-1", "pool-1"]


def test_without_the_right_to_list_nodes_all_else_is_shown_and_a_remark_says_so(api: Api):
    api.faults.refuse(403, "forbidden", part="/nodes")
    seen = snapshot.read(api.connection(), "demo")
    assert (seen.pools, len(seen.hosts)) == ({}, 4)
    assert "list nodes" in seen.remarks[0]


def test_a_host_that_went_with_its_node_is_remembered_as_long_as_its_events(api: Api):
    api.remove("pods", manifests.worker_name(1, 1))
    # KubeRay's names end with five characters.
    gone = f"{manifests.CLUSTER}-{manifests.GROUP}-worker-k2x9p"
    api.put("events", manifests.event("Pod", gone, "TaintManagerEviction", "Marking for deletion", type="Normal"))
    lost = snapshot.read(api.connection(), "demo").lost
    assert [(one.pod[-5:], one.at, one.why) for one in lost] == [
        ("k2x9p", manifests.CREATED, "its node was taken away")
    ]
