"""Preflight and ranges: the further networks' against everything that the hosts reach."""

import pytest

from tests.gcp.asking import ask, make, one
from tests.gcp.sites import site

DEFAULT = "projects/demo-project/global/networks/default"
SUBNET = "projects/demo-project/regions/us-east5/subnetworks/default"


def test_ranges_of_their_own_pass(google):
    assert one(ask(google, "ranges"), "ok").found.startswith("10.50.0.0/16, 10.60.0.0/16: apart")


def test_an_overlap_with_the_clusters_network_names_both_and_ranges_that_are_free(google):
    google.resources[SUBNET]["ipCidrRange"] = "10.50.128.0/20"
    found = one(ask(google, "ranges"), "problem")
    assert found.found == (
        "10.50.0.0/16 (VPC subnet multislice-tpu-subnet-1) overlaps 10.50.128.0/20 "
        "(subnet default of the cluster's network default)."
    )
    free = found.fix.split("[")[1].split("]")[0].split(", ")
    assert one(ask(google, "ranges", site(network={"ranges": free})), "ok")


def test_a_secondary_range_of_the_clusters_network_counts(google):
    google.resources[SUBNET]["secondaryIpRanges"] = [{"rangeName": "pods", "ipCidrRange": "10.56.0.0/13"}]
    assert "(subnet default of the cluster's network default, pods)" in one(ask(google, "ranges"), "problem").found


def test_a_subnet_of_another_network_does_not_count(google):
    google.resources[SUBNET.replace("/default", "/else")] = {
        "name": "else", "network": DEFAULT.replace("default", "elsewhere"), "ipCidrRange": "10.50.0.0/16",
    }  # fmt: skip
    assert one(ask(google, "ranges"), "ok")


def test_a_subnet_of_another_region_does_not_count(google):
    google.resources[SUBNET.replace("us-east5", "us-east1")]["ipCidrRange"] = "10.50.0.0/16"
    assert one(ask(google, "ranges"), "ok")


@pytest.mark.parametrize(("field", "use"), [("clusterIpv4Cidr", "pods"), ("servicesIpv4Cidr", "services")])
def test_the_ranges_of_the_cluster_that_is_there_count(google, field, use):
    make(google, site())
    google.resources["projects/demo-project/locations/us-east5-b/clusters/multislice"][field] = "10.60.0.0/14"
    assert f"({use} of GKE cluster multislice)" in one(ask(google, "ranges"), "problem").found


def test_the_ranges_behind_a_peering_count(google):
    google.resources[DEFAULT]["peerings"] = [{"name": "office", "state": "ACTIVE"}]
    google.resources[f"{DEFAULT} peering office"] = {"ranges": ["10.60.4.0/24", "fd00::/64"]}
    assert "overlaps 10.60.4.0/24 (peering office of network default)" in one(ask(google, "ranges"), "problem").found


def test_a_peering_that_may_not_be_read_is_not_checked_and_says_so(google):
    google.resources[DEFAULT]["peerings"] = [{"name": "office", "state": "ACTIVE"}]
    google.permissions = {
        "compute.networks.get", "compute.subnetworks.list", "compute.subnetworks.get", "container.clusters.get",
    }  # fmt: skip
    assert "compute.networks.listPeeringRoutes" in one(ask(google, "ranges"), "not checked").found


def test_named_subnets_are_checked_with_the_ranges_that_they_have(google):
    make(google, site(cluster={"name": "other"}, network={"ranges": ["10.128.0.0/9", "10.60.0.0/16"]}))
    named = [{"network": f"other-net-{n}", "subnetwork": f"other-tpu-subnet-{n}"} for n in (1, 2)]
    found = one(ask(google, "ranges", site(network={"existing": named})), "problem")
    assert "10.128.0.0/9 (VPC subnet other-tpu-subnet-1) overlaps" in found.found


def test_named_subnets_that_overlap_each_other_are_a_problem(google):
    make(google, site(cluster={"name": "one"}, network={"ranges": ["10.50.0.0/16"]}))
    make(google, site(cluster={"name": "two"}, network={"ranges": ["10.50.128.0/20"]}))
    named = [{"network": f"{name}-net-1", "subnetwork": f"{name}-tpu-subnet-1"} for name in ("one", "two")]
    assert "overlaps 10.50.128.0/20" in one(ask(google, "ranges", site(network={"existing": named})), "problem").found


def test_gke_chooses_its_own_ranges(google):
    google.resources[SUBNET]["ipCidrRange"] = "10.50.0.0/16"
    assert one(ask(google, "ranges", site(network={"profile": "auto"})), "ok")


def test_a_network_for_the_cluster_that_does_not_exist_is_a_problem(google):
    found = one(ask(google, "ranges", site(cluster={"network": "office"})), "problem")
    assert found.found == "There is no network office in project demo-project for the cluster."


def test_a_network_without_a_subnet_in_the_region_is_a_problem(google):
    del google.resources[SUBNET]
    assert "no subnet in us-east5" in one(ask(google, "ranges"), "problem").found


def test_a_shared_vpc_is_looked_at_in_its_own_project(google):
    google.add_project("host-project")
    google.resources[SUBNET.replace("demo", "host")]["ipCidrRange"] = "10.50.0.0/16"
    shared = site(cluster={"network": "projects/host-project/global/networks/default"})
    assert one(ask(google, "ranges", shared), "problem")


def test_a_range_has_an_address_for_each_host(google):
    small = site(network={"ranges": ["10.50.0.0/29", "10.60.0.0/28"]})
    assert "has 4 addresses for 8 TPU hosts" in one(ask(google, "ranges", small), "problem").found


def test_the_network_of_an_existing_cluster_is_looked_at_wherever_it_is(google):
    make(google, site())
    cluster = google.resources["projects/demo-project/locations/us-east5-b/clusters/multislice"]
    cluster["networkConfig"]["network"] = "projects/demo-project/global/networks/office"
    google.resources["projects/demo-project/regions/us-east5/subnetworks/desk"] = {
        "name": "desk", "network": "projects/demo-project/global/networks/office", "ipCidrRange": "10.60.8.0/24",
    }  # fmt: skip
    assert "subnet desk of the cluster's network office" in one(ask(google, "ranges"), "problem").found
