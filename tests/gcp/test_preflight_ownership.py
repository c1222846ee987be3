"""Preflight and what is there under our names."""

from tests.gcp.asking import ask, make, one
from tests.gcp.errors import GoogleError
from tests.gcp.faults import Refuse
from tests.gcp.sites import site

NETWORK = "projects/demo-project/global/networks/multislice-net-1"


def test_in_an_empty_project_all_is_to_be_made(google):
    assert one(ask(google, "resources"), "ok").found == "1 there as wanted, 12 to be made."


def test_what_is_there_as_wanted_is_told(google):
    make(google, site())
    assert "there as wanted" in one(ask(google, "resources"), "ok").found


def test_a_foreign_resource_with_our_name_is_a_problem(google):
    make(google, site())
    google.resources[NETWORK]["description"] = "the office's"
    found = one(ask(google, "resources"), "problem")
    assert (
        found.found == "VPC network multislice-net-1 is there and was not made for this site (multislice_us-east5-b)."
    )


def test_what_differs_and_cannot_be_changed_in_place_is_a_problem(google):
    make(google, site())
    google.resources[NETWORK]["mtu"] = 1460
    found = one(ask(google, "resources"), "problem")
    assert "mtu is 1460 and should be 8896" in found.found


def test_all_of_them_are_told_at_once(google):
    make(google, site())
    google.resources[NETWORK]["mtu"] = 1460
    google.resources[NETWORK.replace("net-1", "net-2")]["description"] = "the office's"
    assert len([finding for finding in ask(google, "resources") if finding.status == "problem"]) == 2


def test_a_named_network_that_is_not_there_is_a_problem(google):
    named = site(network={"existing": [{"network": "office", "subnetwork": "desk"}]})
    problems = [finding.found for finding in ask(google, "resources", named) if finding.status == "problem"]
    assert "VPC network office does not exist." in problems


def test_a_bucket_name_taken_by_someone_else_is_a_problem(google):
    google.add_project("other-project")
    google.resources["buckets/demo-bucket"] = {
        "name": "demo-bucket", "projectNumber": google.projects["other-project"], "location": "US", "labels": {},
    }  # fmt: skip
    found = [one.found for one in ask(google, "resources") if one.status == "problem"]
    assert any("gs://demo-bucket" in text for text in found)


def test_a_bucket_that_may_not_be_seen_is_a_problem_with_another_name_to_choose(google):
    google.faults.add(
        lambda method, path: method == "GET" and path.endswith("/b/demo-bucket"),
        Refuse(GoogleError("PERMISSION_DENIED", "tester does not have storage.buckets.get access.")),
        times=10,
    )
    found = [one for one in ask(google, "resources") if one.status == "problem"]
    assert found[0].found.startswith("The bucket gs://demo-bucket exists, and ")
    assert "choose another bucket.name" in found[0].fix


def test_a_flat_bucket_is_a_warning(google):
    flat = site(bucket={"hierarchicalNamespace": False})
    assert "would have no hierarchical namespace" in one(ask(google, "resources", flat), "warning").found
    make(google, flat)
    assert "has no hierarchical namespace" in one(ask(google, "resources", flat), "warning").found


def test_resources_that_may_not_be_seen_are_told_in_one_line(google):
    google.permissions = {"serviceusage.services.get"}
    found = one(ask(google, "resources"), "problem")
    assert "VPC network multislice-net-1, VPC network multislice-net-2" in found.found


def test_the_longest_cluster_name_leaves_room_for_the_suffixes(google):
    assert one(ask(google, "resources", site(cluster={"name": "a" * 37})), "ok")
