"""The stand-in for Kubernetes Engine's clusters."""

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import container_v1

from tests.gcp import faults
from tests.gcp.clients import CLUSTER, PROJECT, REGION, ZONE, Clients
from tests.gcp.google import Google

Status = container_v1.Operation.Status


def test_a_cluster_is_provisioning_until_its_operation_is_done(google: Google, clients: Clients) -> None:
    google.delays["cluster"] = 3600
    operation = clients.make_cluster()
    assert operation.status == Status.RUNNING
    assert operation.target_link.endswith(f"projects/{PROJECT}/zones/us-east5-b/clusters/demo")
    assert clients.clusters.get_cluster(name=CLUSTER).status == container_v1.Cluster.Status.PROVISIONING
    google.finish_all()
    assert clients.operation(operation.name).status == Status.DONE
    cluster = clients.clusters.get_cluster(name=CLUSTER)
    assert cluster.status == container_v1.Cluster.Status.RUNNING
    assert [pool.name for pool in cluster.node_pools] == ["default-pool"]


def test_a_deadline_ends_an_operation_although_nobody_asked(google: Google, clients: Clients) -> None:
    google.delays["cluster"] = 100
    seconds = google.clock()
    google.clock = lambda: seconds
    operation = clients.make_cluster()
    seconds += 99
    assert clients.operation(operation.name).status == Status.RUNNING
    seconds += 1
    assert clients.operation(operation.name).status == Status.DONE


def test_a_cluster_that_exists_is_not_made_again(clients: Clients) -> None:
    clients.make_cluster()
    with pytest.raises(exceptions.Conflict, match=r"Already exists: projects/.*/zones/us-east5-b/clusters/demo"):
        clients.make_cluster()


def test_a_cluster_that_is_not_there_is_not_found(clients: Clients) -> None:
    with pytest.raises(exceptions.NotFound, match="Not found"):
        clients.clusters.get_cluster(name=CLUSTER)


def test_a_busy_cluster_refuses_a_second_operation_and_names_the_first(google: Google, clients: Clients) -> None:
    google.delays["cluster"] = 3600
    first = clients.make_cluster()
    with pytest.raises(exceptions.BadRequest, match=f"running incompatible operation {first.name}") as refused:
        clients.clusters.delete_cluster(name=CLUSTER)
    assert refused.value.response.json()["error"]["status"] == "FAILED_PRECONDITION"
    assert refused.value.reason == "CLUSTER_ALREADY_HAS_OPERATION"


def test_operations_of_a_location_are_listed(google: Google, clients: Clients) -> None:
    google.delays["cluster"] = 3600
    operation = clients.make_cluster()
    listed = clients.clusters.list_operations(parent=ZONE).operations
    assert [(one.name, one.operation_type.name) for one in listed] == [(operation.name, "CREATE_CLUSTER")]


def test_an_update_of_the_addons_keeps_the_others(google: Google, clients: Clients) -> None:
    clients.make_cluster(addons_config={"gcs_fuse_csi_driver_config": {"enabled": True}})
    wanted = container_v1.ClusterUpdate(desired_addons_config={"ray_operator_config": {"enabled": True}})
    clients.clusters.update_cluster(name=CLUSTER, update=wanted)
    addons = clients.clusters.get_cluster(name=CLUSTER).addons_config
    assert addons.gcs_fuse_csi_driver_config.enabled
    assert addons.ray_operator_config.enabled


def test_two_updates_in_one_call_are_refused(clients: Clients) -> None:
    clients.make_cluster()
    wanted = container_v1.ClusterUpdate(
        desired_addons_config={"ray_operator_config": {"enabled": True}},
        desired_workload_identity_config={"workload_pool": f"{PROJECT}.svc.id.goog"},
    )
    with pytest.raises(exceptions.BadRequest, match="Exactly one update"):
        clients.clusters.update_cluster(name=CLUSTER, update=wanted)


def test_a_cluster_failed_by_its_operation_is_in_error_with_the_reason(google: Google, clients: Clients) -> None:
    google.faults.add(1, faults.Fail(faults.STOCK_OUT))
    operation = clients.operation(clients.make_cluster().name)
    assert operation.error.code == 8
    assert "GCE_STOCKOUT" in operation.error.message
    cluster = clients.clusters.get_cluster(name=CLUSTER)
    assert cluster.status == container_v1.Cluster.Status.ERROR
    assert "does not have enough resources" in cluster.status_message


def test_a_deleted_cluster_is_gone_with_its_node_pools(google: Google, clients: Clients) -> None:
    before = google.state()
    clients.make_cluster()
    clients.clusters.delete_cluster(name=CLUSTER)
    assert google.state() == before


def test_the_server_config_has_the_versions_of_each_channel(clients: Clients) -> None:
    config = clients.clusters.get_server_config(name=ZONE)
    channels = {one.channel.name: one for one in config.channels}
    assert channels["REGULAR"].default_version in channels["REGULAR"].valid_versions
    assert "1.34.1-gke.1829001" in config.valid_master_versions


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "Demo"}, "cluster.name"),
        ({"name": "d" * 41}, "cluster.name"),
        ({"initial_cluster_version": "1.20.1-gke.5"}, 'Master version "1.20.1-gke.5" is unsupported'),
        ({"initial_cluster_version": "1.35.3-gke.1389000", "release_channel": {"channel": "STABLE"}}, "unsupported"),
        ({"initial_node_count": None}, "initial_node_count must be greater than zero"),
        ({"network": "nowhere"}, 'Network "nowhere" does not exist'),
        ({"subnetwork": "nowhere"}, "is not valid for Network"),
        ({"workload_identity_config": None}, "requires Workload Identity"),
        ({"workload_identity_config": {"workload_pool": "other.svc.id.goog"}}, "Workload Pool must be"),
        ({"resource_labels": {"Team": "x"}}, "Invalid resource label"),
        ({"node_config": {"machine_type": "n9-standard-1"}}, 'Machine type "n9-standard-1" does not exist'),
        ({"autopilot": {"enabled": True}, "initial_node_count": None, "node_config": None}, "must be regional"),
    ],
)
def test_a_cluster_that_google_refuses_is_refused(clients: Clients, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(exceptions.BadRequest, match=said):
        clients.make_cluster(**fields)


def test_cpus_beyond_the_quota_are_refused(google: Google, clients: Clients) -> None:
    google.quotas["us-east5 CPUS"] = 8
    with pytest.raises(exceptions.Forbidden, match="Insufficient regional quota"):
        clients.make_cluster()


def test_an_autopilot_cluster_has_no_node_pools_to_make(google: Google, clients: Clients) -> None:
    clients.make_cluster(REGION, autopilot={"enabled": True}, initial_node_count=None, node_config=None)
    pool = container_v1.NodePool(name="tpu", initial_node_count=1)
    with pytest.raises(exceptions.BadRequest, match="Autopilot node pools"):
        clients.clusters.create_node_pool(parent=f"{REGION}/clusters/demo", node_pool=pool)


def test_labels_change_only_with_the_current_fingerprint(clients: Clients) -> None:
    clients.make_cluster()
    request = {"name": CLUSTER, "resource_labels": {"team": "a"}, "label_fingerprint": "old"}
    with pytest.raises(exceptions.PreconditionFailed):
        clients.clusters.set_labels(request=request)
    now = clients.clusters.get_cluster(name=CLUSTER).label_fingerprint
    clients.clusters.set_labels(request=request | {"label_fingerprint": now})
    assert clients.clusters.get_cluster(name=CLUSTER).resource_labels == {"team": "a"}
