"""The cluster, made and looked at through Google's own client."""

import threading

import pytest
from google.api_core import exceptions

from driver.errors import DriverError
from driver.gcp import gke
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.resource import MARK
from driver.gcp.waiting import Waiting, WaitStoppedError
from tests.gcp.clients import PROJECT
from tests.gcp.errors import GoogleError
from tests.gcp.faults import Fail
from tests.gcp.looking import look
from tests.gcp.sites import site

NAME = f"projects/{PROJECT}/locations/us-east5-b/clusters/multislice"


def make(cloud, the_site=None):
    cluster = Cluster(the_site or site())
    cluster.create(cloud, Waiting())
    return cluster


def test_a_standard_cluster_has_all_that_a_run_needs(cloud, google):
    found = look(make(cloud), cloud)
    assert found.ours
    assert not found.differences
    assert not found.unfinished
    there = google.resources[NAME]
    assert there["addonsConfig"] == {
        "rayOperatorConfig": {"enabled": True},
        "gcsFuseCsiDriverConfig": {"enabled": True},
    }
    assert there["networkConfig"]["datapathProvider"] == "ADVANCED_DATAPATH"
    assert there["workloadIdentityConfig"] == {"workloadPool": "demo-project.svc.id.goog"}
    assert there["monitoringConfig"] == {"managedPrometheusConfig": {"enabled": True}}
    assert there["resourceLabels"][MARK] == "multislice_us-east5-b"
    pool = google.resources[f"{NAME}/nodePools/default-pool"]
    assert pool["config"]["machineType"] == "n1-standard-16"
    assert pool["config"]["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
    assert "https://www.googleapis.com/auth/cloud-platform" not in pool["config"]["oauthScopes"]


def test_details_are_what_the_kubernetes_api_is_reached_by(cloud, google):
    details = look(make(cloud), cloud).details
    assert details["endpoint"] == google.resources[NAME]["endpoint"]
    assert details["ca"] == google.kubernetes.ca_base64
    assert details["version"] == "1.35.2-gke.1842000"
    assert details["ranges"] == {"pods": "10.4.0.0/14", "services": "34.118.224.0/20"}


def test_a_regional_cluster_is_in_the_region(cloud, google):
    make(cloud, site(cluster={"location": "region"}))
    assert f"projects/{PROJECT}/locations/us-east5/clusters/multislice" in google.resources


def test_an_autopilot_cluster_has_no_pools_and_the_ray_operator(cloud, google):
    autopilot = site(cluster={"mode": "autopilot"})
    assert not look(make(cloud, autopilot), cloud).differences
    there = google.resources[f"projects/{PROJECT}/locations/us-east5/clusters/multislice"]
    assert there["autopilot"] == {"enabled": True}
    assert there["addonsConfig"]["rayOperatorConfig"] == {"enabled": True}


def test_a_version_below_the_minimum_is_refused_before_anything_is_made(cloud, google):
    with pytest.raises(DriverError, match="DRANET"):
        make(cloud, site(cluster={"version": "1.33"}))
    assert not google.mutating_calls


def test_a_wish_for_a_version_becomes_an_exact_one(cloud, google):
    make(cloud, site(cluster={"version": "1.34"}))
    assert google.resources[NAME]["initialClusterVersion"] == "1.34.5-gke.1002000"


def test_a_cluster_that_is_not_there_is_none(cloud):
    assert Cluster(site()).describe(cloud) is None


def test_a_cluster_without_our_mark_is_not_ours(cloud, google):
    cluster = make(cloud)
    google.resources[NAME]["resourceLabels"] = {MARK: "other_us-east5-b"}
    assert not look(cluster, cloud).ours
    assert not Cluster.marked(site(), cloud)


def test_a_cluster_with_our_mark_is_found_by_it(cloud):
    make(cloud)
    assert [one.key for one in Cluster.marked(site(), cloud)] == ["GKE cluster multislice"]


@pytest.mark.parametrize("status", ["PROVISIONING", "RECONCILING", "STOPPING"])
def test_a_cluster_at_which_something_goes_on_is_unfinished(cloud, google, status):
    cluster = make(cloud)
    google.resources[NAME]["status"] = status
    assert look(cluster, cloud).unfinished == status


def test_a_failed_cluster_is_broken_and_says_why(cloud, google):
    google.faults.add(1, Fail(GoogleError("RESOURCE_EXHAUSTED", "no machines left")))
    cluster = Cluster(site())
    with pytest.raises(exceptions.ResourceExhausted, match="no machines left"):
        cluster.create(cloud, Waiting())
    assert "no machines left" in look(cluster, cloud).broken


def test_a_degraded_cluster_differs_and_says_why(cloud, google):
    cluster = make(cloud)
    google.resources[NAME] |= {"status": "DEGRADED", "conditions": [{"code": "CA_EXPIRING", "message": "soon"}]}
    (difference,) = look(cluster, cloud).differences
    assert (difference.found, difference.in_place) == ("DEGRADED: CA_EXPIRING: soon", False)


# What is taken away from a cluster, what the difference is called, and whether it can be mended in place.
LACKS = {
    "ray": ({"addonsConfig": {"gcsFuseCsiDriverConfig": {"enabled": True}}}, "Ray operator add-on", True),
    "fuse": ({"addonsConfig": {"rayOperatorConfig": {"enabled": True}}}, "GCS FUSE CSI driver add-on", True),
    "pool": ({"workloadIdentityConfig": {}}, "workload pool", True),
    "prometheus": ({"monitoringConfig": {}}, "managed Prometheus", True),
    "dataplane": ({"networkConfig": {}}, "Dataplane V2", False),
    "routes": ({"ipAllocationPolicy": {}}, "VPC-native", False),
    "version": ({"currentMasterVersion": "1.33.5-gke.1201000"}, "version", False),
    "mode": ({"autopilot": {"enabled": True}}, "mode", False),
}


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("lack", LACKS)
def test_what_a_cluster_lacks_is_a_difference(cloud, google, lack, existing):
    make(cloud)
    change, field, in_place = LACKS[lack]
    google.resources[NAME] |= change
    found = look(Cluster(site(cluster={"existing": existing})), cloud)
    assert [(one.field, one.in_place) for one in found.differences] == [(field, in_place)]


def test_an_existing_cluster_needs_a_pool_for_the_head(cloud, google):
    make(cloud)
    google.resources[f"{NAME}/nodePools/default-pool"]["config"]["workloadMetadataConfig"] = {}
    (difference,) = look(Cluster(site(cluster={"existing": True})), cloud).differences
    assert "metadata server" in difference.field
    assert not difference.in_place


def test_an_existing_clusters_network_and_channel_are_its_owners_choice(cloud, google):
    make(cloud)
    google.resources[NAME] |= {"network": "theirs", "releaseChannel": {"channel": "STABLE"}}
    assert not look(Cluster(site(cluster={"existing": True})), cloud).differences
    assert {one.field for one in look(Cluster(site()), cloud).differences} == {"network", "release channel"}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"network": "mine"}, "network"),
        ({"subnetwork": "mine"}, "subnetwork"),
        ({"releaseChannel": "stable"}, "release channel"),
    ],
)
def test_what_the_site_file_says_of_an_existing_cluster_is_checked(cloud, said, field):
    make(cloud)
    (difference,) = look(Cluster(site(cluster={"existing": True, **said})), cloud).differences
    assert (difference.field, difference.in_place) == (field, False)


def test_an_existing_cluster_in_another_place_is_said_to_be_there(cloud):
    make(cloud, site(cluster={"location": "region"}))
    found = look(Cluster(site(cluster={"existing": True})), cloud)
    assert [(one.field, one.found) for one in found.differences] == [("location", "us-east5")]


def test_each_difference_is_changed_by_a_call_of_its_own(cloud, google):
    make(cloud)
    google.resources[NAME] |= {"addonsConfig": {}, "workloadIdentityConfig": {}, "monitoringConfig": {}}
    cluster = Cluster(site(cluster={"existing": True}))
    before = len(google.mutating_calls)
    cluster.update(cloud, look(cluster, cloud), Waiting())
    assert not look(cluster, cloud).differences
    assert [call.method for call in google.mutating_calls[before:]] == ["PUT"] * 4


def test_our_own_follows_the_site_file_and_its_mark_too(cloud, google):
    make(cloud)
    wish = Cluster(site(cluster={"releaseChannel": "rapid", "defaultPool": {"nodes": 2}}))
    wish.update(cloud, look(wish, cloud), Waiting())
    assert not look(wish, cloud).differences
    assert google.resources[f"{NAME}/nodePools/default-pool"]["initialNodeCount"] == 2
    assert google.resources[NAME]["resourceLabels"] == wish.labels


def test_another_machine_type_cannot_be_had_in_place(cloud):
    make(cloud)
    found = look(Cluster(site(cluster={"defaultPool": {"machineType": "n2-standard-16"}})), cloud)
    assert [(one.field, one.in_place) for one in found.differences] == [("machine type of the default pool", False)]


def test_a_deleted_cluster_is_gone_and_may_be_gone_before(cloud):
    cluster = make(cloud)
    cluster.delete(cloud, Waiting())
    assert cluster.describe(cloud) is None
    cluster.delete(cloud, Waiting())


def test_a_cluster_that_another_makes_is_waited_for(cloud, google):
    google.delays["cluster"] = 0.2
    cluster = Cluster(site())
    cloud.clusters.create_cluster(parent=gke.location_path(site()), cluster=cluster._spec(cloud))
    assert look(cluster, cloud).unfinished == "PROVISIONING"
    told: list[str] = []
    cluster.await_ready(cloud, Waiting(told.append))
    assert not look(cluster, cloud).unfinished
    assert "the cluster is busy: create_cluster" in told


def test_stopping_ends_the_wait_and_not_the_operation(cloud, google):
    google.delays["cluster"] = 3600
    stop = threading.Event()
    with pytest.raises(WaitStoppedError):
        Cluster(site()).create(cloud, Waiting(lambda _: stop.set(), stop))
    assert google.resources[NAME]["status"] == "PROVISIONING"


def test_gcloud_makes_the_same_cluster_with_the_tutorials_flags():
    (command,) = Cluster(site(cluster={"version": "1.35.2-gke.1842000"})).gcloud()
    for flag in (
        "--addons=RayOperator,GcsFuseCsiDriver",
        "--machine-type=n1-standard-16",
        "--enable-dataplane-v2",
        "--workload-pool=demo-project.svc.id.goog",
        "--location=us-east5-b",
        "--cluster-version=1.35.2-gke.1842000",
    ):
        assert flag in command.arguments
    assert command.arguments[:5] == ("gcloud", "container", "clusters", "create", "multislice")


def test_gcloud_says_why_a_flag_of_the_tutorial_is_missing():
    (command,) = Cluster(site(cluster={"mode": "autopilot"})).gcloud()
    assert command.arguments[3] == "create-auto"
    assert "--enable-ray-operator" in command.arguments
    assert not any("machine-type" in word for word in command.arguments)
    assert "--machine-type" in command.comment
    assert "--cluster-version" in command.comment
