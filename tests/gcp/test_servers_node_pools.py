"""The stand-in for Kubernetes Engine's node pools."""

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import container_v1
from google.rpc import code_pb2

from tests.gcp import faults
from tests.gcp.clients import CLUSTER, DRANET, PROJECT, Clients
from tests.gcp.google import Google

Status = container_v1.NodePool.Status
TPU = {"machine_type": "ct6e-standard-4t"}


def status(clients: Clients, name: str = "v6e-16-0") -> Status:
    return clients.clusters.get_node_pool(name=f"{CLUSTER}/nodePools/{name}").status


def test_node_pools_are_made_at_the_same_time(google: Google, clients: Clients) -> None:
    clients.make_cluster()
    google.delays["node pool"] = 3600
    clients.make_pool("v6e-16-0")
    clients.make_pool("v6e-16-1")
    assert status(clients, "v6e-16-0") == status(clients, "v6e-16-1") == Status.PROVISIONING
    google.finish_all()
    assert status(clients, "v6e-16-0") == status(clients, "v6e-16-1") == Status.RUNNING


def test_no_node_pool_is_made_while_the_cluster_is_updated(google: Google, clients: Clients) -> None:
    clients.make_cluster()
    google.delays["update cluster"] = 3600
    wanted = container_v1.ClusterUpdate(desired_addons_config={"ray_operator_config": {"enabled": True}})
    clients.clusters.update_cluster(name=CLUSTER, update=wanted)
    with pytest.raises(exceptions.BadRequest, match="incompatible operation"):
        clients.make_pool()


def test_the_cluster_is_not_deleted_while_a_node_pool_is_made(google: Google, clients: Clients) -> None:
    clients.make_cluster()
    google.delays["node pool"] = 3600
    clients.make_pool()
    with pytest.raises(exceptions.BadRequest, match="incompatible operation"):
        clients.clusters.delete_cluster(name=CLUSTER)


def test_a_node_pool_that_exists_is_not_made_again(clients: Clients) -> None:
    clients.make_cluster()
    clients.make_pool()
    with pytest.raises(exceptions.Conflict):
        clients.make_pool()


def test_a_stock_out_leaves_a_node_pool_in_error(google: Google, clients: Clients) -> None:
    clients.make_cluster()
    google.faults.add(1, faults.Fail(faults.STOCK_OUT))
    operation = clients.operation(clients.make_pool().name)
    assert "does not have enough resources" in operation.error.message
    pool = clients.clusters.get_node_pool(name=f"{CLUSTER}/nodePools/v6e-16-0")
    assert pool.status == Status.ERROR
    assert pool.conditions[0].canonical_code == code_pb2.RESOURCE_EXHAUSTED


def test_chips_beyond_the_quota_fail_the_operation(google: Google, clients: Clients) -> None:
    google.quotas["us-east5 CT6E"] = 31
    clients.make_cluster()
    assert not clients.operation(clients.make_pool("v6e-16-0").name).error.message
    second = clients.operation(clients.make_pool("v6e-16-1").name)
    assert "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 31.0 in region us-east5" in second.error.message


def test_spot_has_a_quota_of_its_own(google: Google, clients: Clients) -> None:
    google.quotas |= {"CT6E": 0, "CT6E spot": 16}
    clients.make_cluster()
    operation = clients.make_pool(config=TPU | {"spot": True, "labels": DRANET})
    assert not clients.operation(operation.name).error.message


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "v" * 41}, "node_pool.name"),
        ({"config": {"machine_type": "ct4p-hightpu-4t"}}, 'does not exist in zone "us-east5-b"'),
        ({"initial_node_count": 3}, r"must equal the number of hosts \(4\)"),
        ({"placement_policy": {"tpu_topology": "4x"}}, "Invalid TPU topology"),
        ({"config": {"machine_type": "n1-standard-16"}}, "TPU topology is not supported"),
        ({"version": "1.33.5-gke.1201000"}, "DRANET requires version 1.34.1-gke.1829001"),
        ({"config": TPU | {"spot": True, "flex_start": True}}, "Only one of spot"),
        ({"config": TPU | {"max_run_duration": "604801s"}}, "at most 7 days"),
        ({"network_config": {"accelerator_network_profile": "fast"}}, "accelerator_network_profile"),
    ],
)
def test_a_node_pool_that_google_refuses_is_refused(clients: Clients, fields: dict[str, Any], said: str) -> None:
    clients.make_cluster()
    with pytest.raises(exceptions.BadRequest, match=said):
        clients.make_pool(**fields)


def test_dranet_needs_dataplane_v2(clients: Clients) -> None:
    clients.make_cluster(network_config=None)
    with pytest.raises(exceptions.BadRequest, match="requires Dataplane V2"):
        clients.make_pool()


@pytest.mark.parametrize(
    ("network", "subnet", "said"),
    [
        ("net-1", "nowhere", "does not exist in region"),
        ("net-2", "sub-1", "is not in network"),
        ("default", "default", "used more than once"),
    ],
)
def test_extra_networks_must_be_there_and_differ(clients: Clients, network: str, subnet: str, said: str) -> None:
    clients.make_network()
    clients.make_subnet()
    clients.make_cluster()
    extra = [{"network": network, "subnetwork": subnet}]
    with pytest.raises(exceptions.BadRequest, match=said):
        clients.make_pool(network_config={"additional_node_network_configs": extra})


def reserved(name: str) -> dict[str, object]:
    affinity = {
        "consume_reservation_type": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [name],
    }
    return TPU | {"labels": DRANET, "reservation_affinity": affinity}


def test_a_reservation_of_another_project_is_used(google: Google, clients: Clients) -> None:
    google.add_project("capacity-project")
    google.add_reservation("capacity-project", "us-east5-b", "tpus", "ct6e-standard-4t", 4)
    clients.make_cluster()
    operation = clients.make_pool(config=reserved("projects/capacity-project/reservations/tpus"))
    assert not clients.operation(operation.name).error.message


def test_a_reservation_that_is_used_up_fails_the_operation(google: Google, clients: Clients) -> None:
    google.add_reservation(PROJECT, "us-east5-b", "tpus", "ct6e-standard-4t", 4, in_use=1)
    clients.make_cluster()
    operation = clients.operation(clients.make_pool(config=reserved("tpus")).name)
    assert "do not have available resources" in operation.error.message


def test_a_reservation_that_is_not_there_is_refused(clients: Clients) -> None:
    clients.make_cluster()
    with pytest.raises(exceptions.BadRequest, match="Reservation tpus does not exist"):
        clients.make_pool(config=reserved("tpus"))


def test_labels_of_a_node_pool_can_change(clients: Clients) -> None:
    clients.make_cluster()
    clients.make_pool()
    request = container_v1.UpdateNodePoolRequest(
        name=f"{CLUSTER}/nodePools/v6e-16-0", resource_labels={"labels": {"team": "a"}}
    )
    clients.clusters.update_node_pool(request=request)
    pool = clients.clusters.get_node_pool(name=f"{CLUSTER}/nodePools/v6e-16-0")
    assert pool.config.resource_labels == {"team": "a"}
