"""The stand-in for Compute Engine."""

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from tests.gcp.clients import PROJECT, Clients
from tests.gcp.google import Google


def delete_network(clients: Clients, name: str = "net-1") -> compute_v1.Operation:
    operation = clients.networks.delete_unary(project=PROJECT, network=name)
    return clients.global_operations.wait(project=PROJECT, operation=operation.name)


def test_an_operation_is_waited_for_at_the_server(google: Google, clients: Clients) -> None:
    google.delays["network"] = 0.2
    begun = google.clock()
    assert clients.make_network().status == compute_v1.Operation.Status.DONE
    assert google.clock() - begun >= 0.2


def test_a_network_that_is_being_made_is_there_and_not_ready(google: Google, clients: Clients) -> None:
    google.delays["network"] = 3600
    network = compute_v1.Network(name="net-1", auto_create_subnetworks=False)
    clients.networks.insert_unary(project=PROJECT, network_resource=network)
    assert clients.networks.get(project=PROJECT, network="net-1").name == "net-1"
    with pytest.raises(exceptions.BadRequest, match="global/networks/net-1' is not ready") as refused:
        clients.make_subnet()
    assert refused.value.errors[0]["reason"] == "resourceNotReady"


def test_operations_are_found_by_their_target(google: Google, clients: Clients) -> None:
    google.delays["network"] = 3600
    network = compute_v1.Network(name="net-1", auto_create_subnetworks=False)
    begun = clients.networks.insert_unary(project=PROJECT, network_resource=network)
    request = compute_v1.ListGlobalOperationsRequest(
        project=PROJECT, filter=f'(targetLink = "{begun.target_link}") AND (status != DONE)'
    )
    assert [one.name for one in clients.global_operations.list(request=request)] == [begun.name]


def test_the_same_request_id_begins_nothing_new(google: Google, clients: Clients) -> None:
    request = compute_v1.InsertNetworkRequest(
        project=PROJECT,
        request_id="5a3b1c9e-0000-4000-8000-000000000001",
        network_resource=compute_v1.Network(name="net-1", auto_create_subnetworks=False),
    )
    first = clients.networks.insert_unary(request=request)
    assert clients.networks.insert_unary(request=request).name == first.name


def test_a_network_that_exists_is_not_made_again(clients: Clients) -> None:
    clients.make_network()
    with pytest.raises(exceptions.Conflict, match="already exists") as refused:
        clients.make_network()
    assert refused.value.errors[0]["reason"] == "alreadyExists"


@pytest.mark.parametrize(
    ("name", "mtu", "said"),
    [("Net", 8896, "resource.name"), ("net-1", 8897, "less than or equal to 8896"), ("net-1", 1299, "1300")],
)
def test_a_network_that_google_refuses_is_refused(clients: Clients, name: str, mtu: int, said: str) -> None:
    with pytest.raises(exceptions.BadRequest, match=said):
        clients.make_network(name, mtu)


def test_networks_beyond_the_quota_fail_the_operation(google: Google, clients: Clients) -> None:
    google.quotas["NETWORKS"] = 1
    operation = clients.make_network()
    assert operation.error.errors[0].code == "QUOTA_EXCEEDED"
    with pytest.raises(exceptions.NotFound):
        clients.networks.get(project=PROJECT, network="net-1")


def test_a_subnet_needs_its_network(clients: Clients) -> None:
    with pytest.raises(exceptions.NotFound, match="networks/net-1' was not found"):
        clients.make_subnet()
    with pytest.raises(exceptions.BadRequest, match=r"resource\.network"):
        clients.make_subnet(network="")


def test_ranges_of_one_network_may_not_overlap(clients: Clients) -> None:
    clients.make_network()
    clients.make_subnet()
    with pytest.raises(exceptions.BadRequest, match="conflicts with existing subnetwork 'sub-1' in region 'us-east5'"):
        clients.make_subnet("sub-2", place="10.50.128.0/17")


def test_ranges_of_two_networks_may_overlap(clients: Clients) -> None:
    clients.make_network("net-1")
    clients.make_network("net-2")
    clients.make_subnet("sub-1", "net-1")
    clients.make_subnet("sub-2", "net-2")
    assert len(clients.networks.get(project=PROJECT, network="net-2").subnetworks) == 1


@pytest.mark.parametrize("place", ["10.50.0.0", "10.50.0.1/16", "10.50.0.0/30", "ten"])
def test_a_range_that_is_none_is_refused(clients: Clients, place: str) -> None:
    clients.make_network()
    with pytest.raises(exceptions.BadRequest, match=r"resource\.ipCidrRange"):
        clients.make_subnet(place=place)


def test_a_network_with_a_subnet_is_in_use_and_stays(clients: Clients) -> None:
    clients.make_network()
    clients.make_subnet()
    error = delete_network(clients).error.errors[0]
    assert error.code == "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
    assert "already being used by" in error.message
    assert clients.networks.get(project=PROJECT, network="net-1")


def test_a_network_with_a_firewall_rule_is_in_use(clients: Clients) -> None:
    clients.make_network()
    clients.make_firewall()
    assert "firewalls/fire-1" in delete_network(clients).error.errors[0].message


def test_a_subnet_of_a_node_pool_is_in_use(clients: Clients) -> None:
    clients.make_network()
    clients.make_subnet()
    clients.make_cluster()
    clients.make_pool(network_config={"additional_node_network_configs": [{"network": "net-1", "subnetwork": "sub-1"}]})
    with pytest.raises(exceptions.BadRequest, match="already being used by .*/instances/gke-demo-v6e-16-0") as refused:
        clients.subnetworks.delete_unary(project=PROJECT, region="us-east5", subnetwork="sub-1")
    assert refused.value.errors[0]["reason"] == "resourceInUseByAnotherResource"


def test_what_was_made_can_be_deleted_in_the_right_order(google: Google, clients: Clients) -> None:
    before = google.state()
    clients.make_network()
    clients.make_subnet()
    clients.make_firewall()
    clients.subnetworks.delete_unary(project=PROJECT, region="us-east5", subnetwork="sub-1")
    clients.firewalls.delete_unary(project=PROJECT, firewall="fire-1")
    assert not delete_network(clients).error.errors
    assert google.state() == before


def test_a_machine_type_is_where_it_is(clients: Clients) -> None:
    machine = clients.machine_types.get(project=PROJECT, zone="us-east5-b", machine_type="ct6e-standard-4t")
    assert machine.guest_cpus == 180
    with pytest.raises(exceptions.NotFound):
        clients.machine_types.get(project=PROJECT, zone="us-east5-b", machine_type="ct4p-hightpu-4t")


def test_the_zones_of_a_machine_type_are_found_in_one_list(clients: Clients) -> None:
    request = compute_v1.AggregatedListMachineTypesRequest(project=PROJECT, filter="name = ct4p-hightpu-4t")
    found = [zone for zone, there in clients.machine_types.aggregated_list(request=request) if there.machine_types]
    assert found == ["zones/us-central2-b"]


def test_quotas_say_what_is_used(clients: Clients) -> None:
    clients.make_network()
    clients.make_cluster()
    networks = {one.metric: one for one in clients.compute_projects.get(project=PROJECT).quotas}["NETWORKS"]
    cpus = {one.metric: one for one in clients.regions.get(project=PROJECT, region="us-east5").quotas}["CPUS"]
    assert (networks.limit, networks.usage, cpus.usage) == (15, 2, 16)


def test_reservations_are_listed(google: Google, clients: Clients) -> None:
    google.add_reservation(PROJECT, "us-east5-b", "tpus", "ct6e-standard-4t", 8, in_use=4)
    found = clients.reservations.get(project=PROJECT, zone="us-east5-b", reservation="tpus").specific_reservation
    assert (found.count, found.in_use_count, found.instance_properties.machine_type) == (8, 4, "ct6e-standard-4t")


def test_a_project_that_is_not_there_is_not_found(clients: Clients) -> None:
    with pytest.raises(exceptions.NotFound, match="The resource 'projects/nowhere' was not found"):
        clients.networks.get(project="nowhere", network="net-1")
