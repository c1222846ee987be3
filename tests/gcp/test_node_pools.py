"""Node pools: one slice each, made and looked at through Google's own client."""

import pytest
from google.api_core import exceptions

from driver import tpu
from driver.gcp.kinds import workload_policy
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.network import Network
from driver.gcp.kinds.node_pool import NodePool
from driver.gcp.kinds.subnet import Subnet
from driver.gcp.kinds.workload_policy import WorkloadPolicy
from driver.gcp.resource import MARK
from driver.gcp.waiting import Waiting
from tests.gcp.clients import PROJECT
from tests.gcp.faults import STOCK_OUT, Fail
from tests.gcp.looking import look
from tests.gcp.sites import site

ZONES = {"v4": "us-central2-b", "v5e": "us-west4-a", "v5p": "us-east5-a", "v6e": "us-east5-b", "v7x": "us-central1-c"}


def make_cluster(cloud, the_site):
    Cluster(the_site).create(cloud, Waiting())


def subnets_of(cloud, the_site):
    subnets = []
    for number, addresses in enumerate(the_site.network.ranges, 1):
        network = Network(the_site, f"multislice-net-{number}")
        subnet = Subnet(the_site, f"multislice-tpu-subnet-{number}", network=network, range=addresses)
        network.create(cloud, Waiting())
        subnet.create(cloud, Waiting())
        subnets.append(subnet)
    return subnets


def raw(google, the_site, name):
    path = f"projects/{PROJECT}/locations/{the_site.location}/clusters/multislice/nodePools/{name}"
    return google.resources[path]


def made(cloud, the_site, *, networks=False):
    make_cluster(cloud, the_site)
    pool = NodePool(the_site, 0, subnets=subnets_of(cloud, the_site) if networks else ())
    pool.create(cloud, Waiting())
    return pool


def test_the_tutorials_pool_has_what_the_tutorial_gives_it(cloud, google):
    pool = made(cloud, site(), networks=True)
    there = raw(google, site(), "v6e-16-0")
    config = there["config"]
    assert there["placementPolicy"] == {"type": "COMPACT", "tpuTopology": "4x4"}
    assert there["initialNodeCount"] == 4
    assert there["networkConfig"]["additionalNodeNetworkConfigs"] == [
        {"network": "multislice-net-1", "subnetwork": "multislice-tpu-subnet-1"},
        {"network": "multislice-net-2", "subnetwork": "multislice-tpu-subnet-2"},
    ]
    assert config["machineType"] == "ct6e-standard-4t"
    assert config["advancedMachineFeatures"]["threadsPerCore"] == "1"
    assert config["gvnic"] == {"enabled": True}
    assert config["oauthScopes"] == ["https://www.googleapis.com/auth/cloud-platform"]
    assert config["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
    assert config["labels"]["cloud.google.com/gke-networking-dra-driver"] == "true"
    found = look(pool, cloud)
    assert found.ours
    assert not found.differences
    assert not found.unfinished


@pytest.mark.parametrize(
    ("tpu_type", "topology"),
    [(tpu_type, topology) for tpu_type in tpu.table() for topology in list(tpu.table()[tpu_type]["topologies"])[:4]],
)
def test_every_type_of_tpu_has_a_pool_of_its_hosts(cloud, google, tpu_type, topology):
    google.quotas |= dict.fromkeys(("CT4P", "CT5LP", "CT5P", "CT6E", "TPU7X"), 1024.0)
    for ways in tpu.table()[tpu_type]["topologies"][topology]:
        shape = {"type": tpu_type, "topology": topology, "chipsPerHost": ways}
        the_site = site(zone=ZONES[tpu_type], tpu=shape, network={"profile": "auto"})
        if ways != tpu.table()[tpu_type]["topologies"][topology][0]:
            pool = NodePool(the_site, 1, name="second")
            pool.create(cloud, Waiting())
        else:
            if workload_policy.needed(the_site):
                WorkloadPolicy(the_site).create(cloud, Waiting())
            pool = made(cloud, the_site)
        there = raw(google, the_site, pool.name)
        hosts = the_site.slice.hosts
        assert there["initialNodeCount"] == hosts
        placed = there.get("placementPolicy", {})
        if hosts == 1:
            assert not placed
        elif tpu_type == "v7x":
            assert placed == {"policyName": f"multislice-{topology}"}
        else:
            assert placed == {"type": "COMPACT", "tpuTopology": topology}
        assert not look(pool, cloud).differences


def test_a_machine_without_dranet_gets_no_driver_and_no_networks(cloud, google):
    the_site = site(zone="us-west4-a", tpu={"type": "v5e", "topology": "4x4"}, network={"profile": "auto"})
    made(cloud, the_site)
    there = raw(google, the_site, "v5litepod-16-0")
    assert list(there["config"]["labels"]) == [MARK]
    assert not there.get("networkConfig", {}).get("acceleratorNetworkProfile")


def test_automatic_networks_are_asked_for(cloud, google):
    made(cloud, site(network={"profile": "auto"}))
    assert raw(google, site(), "v6e-16-0")["networkConfig"]["acceleratorNetworkProfile"] == "auto"


def test_a_regional_clusters_pool_is_in_the_sites_zone(cloud, google):
    the_site = site(cluster={"location": "region"})
    made(cloud, the_site)
    assert raw(google, the_site, "v6e-16-0")["locations"] == ["us-east5-b"]


def test_spot_machines_are_asked_for(cloud, google):
    made(cloud, site(tpu={"capacity": "spot"}))
    assert raw(google, site(), "v6e-16-0")["config"]["spot"]


@pytest.mark.parametrize(
    ("owner", "value"),
    [("", "held"), (PROJECT, "held"), ("lender-project", "projects/lender-project/reservations/held")],
)
def test_a_reservation_is_named_with_its_project_where_that_is_another(cloud, google, owner, value):
    google.resources[f"projects/{owner or PROJECT}/zones/us-east5-b/reservations/held"] = {
        "name": "held",
        "specificReservation": {
            "count": "8",
            "inUseCount": "0",
            "instanceProperties": {"machineType": "ct6e-standard-4t"},
        },
    }
    the_site = site(tpu={"capacity": "reservation", "reservation": "held", "reservationProject": owner})
    pool = made(cloud, the_site)
    assert raw(google, the_site, "v6e-16-0")["config"]["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [value],
    }
    assert f"--reservation={value}" in pool.gcloud()[0].arguments


def test_flex_start_begins_without_nodes_and_scales_to_the_slice(cloud, google):
    pool = made(cloud, site(tpu={"capacity": "flex-start", "maxRunDurationSeconds": 3600}))
    there = raw(google, site(), "v6e-16-0")
    assert there["initialNodeCount"] == 0
    assert there["autoscaling"] == {"enabled": True, "maxNodeCount": 4, "locationPolicy": "ANY"}
    assert there["config"]["flexStart"]
    assert there["config"]["maxRunDuration"] == "3600s"
    assert there["config"]["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert not there["management"].get("autoRepair")
    assert not look(pool, cloud).differences


CHANGES = {
    "machine type": {"chipsPerHost": 8, "topology": "2x4"},
    "topology": {"topology": "4x8"},
    "capacity": {"capacity": "spot"},
    "maximal run duration": {"capacity": "flex-start", "maxRunDurationSeconds": 600},
}


@pytest.mark.parametrize("field", CHANGES)
def test_what_changes_in_a_slice_is_a_difference_that_makes_the_pool_again(cloud, google, field):
    made(cloud, site(tpu={"topology": "2x4", "chipsPerHost": 4}))
    changed = NodePool(site(tpu=CHANGES[field]), 0, name="v6e-8-0")
    differences = look(changed, cloud).differences
    assert field in [one.field for one in differences]
    assert not any(one.in_place for one in differences)


def test_a_changed_number_of_networks_is_a_difference(cloud):
    made(cloud, site())
    pool = NodePool(site(), 0, subnets=subnets_of(cloud, site()))
    (difference,) = look(pool, cloud).differences
    assert (difference.field, difference.found) == ("networks", "none")
    assert difference.wanted == ("multislice-net-1/multislice-tpu-subnet-1, multislice-net-2/multislice-tpu-subnet-2")


def test_a_stock_out_is_googles_error_and_leaves_a_broken_pool(cloud, google):
    make_cluster(cloud, site())
    google.faults.add(1, Fail(STOCK_OUT))
    pool = NodePool(site(), 0)
    with pytest.raises(exceptions.ResourceExhausted, match="GCE_STOCKOUT"):
        pool.create(cloud, Waiting())
    assert "GCE_STOCKOUT" in look(pool, cloud).broken


@pytest.mark.parametrize(("status", "broken"), [("RUNNING_WITH_ERROR", True), ("ERROR", True), ("RECONCILING", False)])
def test_a_status_says_whether_the_pool_works(cloud, google, status, broken):
    pool = made(cloud, site())
    raw(google, site(), "v6e-16-0")["status"] = status
    found = look(pool, cloud)
    assert bool(found.broken) is broken
    assert bool(found.unfinished) is not broken


def test_only_pools_with_both_marks_are_ours(cloud, google):
    pool = made(cloud, site())
    assert [one.key for one in NodePool.marked(site(), cloud)] == [pool.key]
    # As on a pool that got the cluster's labels handed down.
    there = raw(google, site(), "default-pool")["config"]
    there["resourceLabels"] = {MARK: site().id}
    assert [one.key for one in NodePool.marked(site(), cloud)] == [pool.key]
    raw(google, site(), "v6e-16-0")["config"]["labels"] = {}
    assert not look(pool, cloud).ours


def test_without_a_cluster_there_are_no_pools(cloud):
    assert NodePool.marked(site(), cloud) == ()
    assert NodePool(site(), 0).describe(cloud) is None


def test_a_marked_pool_is_deleted_under_its_own_name_whatever_the_site_file_says_now(cloud):
    made(cloud, site())
    (left,) = NodePool.marked(site(tpu={"topology": "2x4"}), cloud)
    left.delete(cloud, Waiting())
    left.delete(cloud, Waiting())
    assert NodePool.marked(site(), cloud) == ()


def test_gcloud_makes_the_same_pool_with_the_tutorials_flags():
    networks = [Network(site(), f"multislice-net-{number}") for number in (1, 2)]
    subnets = [Subnet(site(), f"multislice-tpu-subnet-{n}", network=network) for n, network in enumerate(networks, 1)]
    (command,) = NodePool(site(), 1, subnets=subnets).gcloud()
    for flag in (
        "--location=us-east5-b",
        "--cluster=multislice",
        "--machine-type=ct6e-standard-4t",
        "--threads-per-core=1",
        "--tpu-topology=4x4",
        "--num-nodes=4",
        "--additional-node-network=network=multislice-net-1,subnetwork=multislice-tpu-subnet-1",
        "--additional-node-network=network=multislice-net-2,subnetwork=multislice-tpu-subnet-2",
        "--enable-gvnic",
        "--scopes=https://www.googleapis.com/auth/cloud-platform",
    ):
        assert flag in command.arguments
    assert command.arguments[:5] == ("gcloud", "container", "node-pools", "create", "v6e-16-1")
    assert any(
        word.startswith("--node-labels=cloud.google.com/gke-networking-dra-driver=true") for word in command.arguments
    )


def test_a_workload_policy_is_made_found_by_its_mark_and_deleted(cloud, google):
    the_site = site(zone="us-central1-c", tpu={"type": "v7x", "topology": "2x2x2"})
    policy = WorkloadPolicy(the_site)
    policy.create(cloud, Waiting())
    there = google.resources[f"projects/{PROJECT}/regions/us-central1/resourcePolicies/multislice-2x2x2"]
    assert there["workloadPolicy"] == {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"}
    assert look(policy, cloud).ours
    assert not look(policy, cloud).differences
    assert [one.key for one in WorkloadPolicy.marked(the_site, cloud)] == [policy.key]
    policy.delete(cloud, Waiting())
    assert policy.describe(cloud) is None
