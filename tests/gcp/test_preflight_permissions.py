"""Preflight and permissions: exactly what the plan would use, and the smallest role for what is missing."""

import pytest

from driver.gcp import roles
from driver.gcp.findings import Subject
from driver.gcp.permissions import needed
from driver.gcp.prerequisites import prerequisites
from driver.gcp.resource import Resource
from tests.gcp.asking import ask, cloud, make, one
from tests.gcp.sites import site

# Those that every caller of these tests keeps, so that what is there can be looked at.
READS = {
    "artifactregistry.repositories.get", "compute.firewalls.get", "compute.firewalls.list", "compute.networks.get",
    "compute.networks.list", "compute.subnetworks.get", "compute.subnetworks.list", "container.clusters.get",
    "container.clusters.list", "container.namespaces.get", "container.operations.list", "resourcemanager.projects.get",
    "serviceusage.services.get", "storage.buckets.get", "storage.buckets.getIamPolicy", "storage.buckets.list",
}  # fmt: skip


def subject_of(google, of=None):
    wanted = of or site()
    return Subject(wanted, prerequisites(wanted), lambda: cloud(google))


def without(google, *permissions):
    """A caller who has all that is needed but these."""
    in_project, in_bucket = needed(subject_of(google))
    google.permissions = {*in_project, *in_bucket, *READS} - set(permissions)


def test_a_caller_with_all_of_them_passes(google):
    without(google)
    assert [finding.status for finding in ask(google, "permissions")] == ["ok"]


def test_a_missing_one_names_the_smallest_role_and_the_command_that_grants_it(google):
    without(google, "compute.networks.create")
    found = one(ask(google, "permissions"), "problem")
    assert found.found == (
        "tester@demo-project.iam.gserviceaccount.com lacks compute.networks.create in project demo-project."
    )
    assert found.rule == "roles/compute.networkAdmin is the smallest predefined role with it."
    assert found.fix == (
        "gcloud projects add-iam-policy-binding demo-project "
        "--member=serviceAccount:tester@demo-project.iam.gserviceaccount.com --role=roles/compute.networkAdmin "
        "--condition=None"
    )


def test_missing_ones_are_grouped_by_role(google):
    without(google, "compute.networks.create", "compute.subnetworks.create", "storage.buckets.create")
    findings = ask(google, "permissions")
    assert sorted(finding.rule.split()[0] for finding in findings) == [
        "roles/compute.networkAdmin",
        "roles/storage.admin",
    ]


def test_a_caller_with_none_hears_of_every_role_at_once(google):
    google.permissions = set()
    named = {finding.rule.split()[0] for finding in ask(google, "permissions")}
    assert {
        "roles/compute.networkAdmin",
        "roles/compute.securityAdmin",
        "roles/container.clusterAdmin",
        "roles/iam.serviceAccountUser",
        "roles/storage.admin",
    } <= named


def test_a_role_whose_permissions_come_with_another_is_not_asked_for(google):
    assert list(roles.fewest(["compute.networks.get", "compute.networks.create"])) == ["roles/compute.networkAdmin"]


def test_a_role_whose_permissions_come_with_two_others_is_not_asked_for_either(google):
    wanted = ["container.operations.get", "container.namespaces.get", "container.clusters.create"]
    assert roles.fewest([*wanted, "container.namespaces.create"]) == {
        "roles/container.clusterAdmin": ["container.clusters.create", "container.operations.get"],
        "roles/container.developer": ["container.namespaces.create", "container.namespaces.get"],
    }


def test_a_permission_that_no_role_of_the_table_has_is_not_hidden(google):
    assert roles.fewest(["other.things.do"]) == {"": ["other.things.do"]}


def test_a_user_is_a_user_and_a_service_account_is_one():
    assert "--member=user:me@example.com" in roles.grant("p", "roles/browser", "me@example.com")
    assert "--member=serviceAccount:x@p.iam.gserviceaccount.com" in roles.grant(
        "p", "roles/browser", "x@p.iam.gserviceaccount.com"
    )


def test_the_grant_is_quoted_for_the_shell():
    assert "'--member=user:o'\"'\"'brien@example.com'" in roles.grant("p", "roles/browser", "o'brien@example.com")


def test_only_what_is_still_to_be_made_needs_the_permission_to_make_it(google):
    assert "compute.networks.create" in needed(subject_of(google))[0]
    make(google, site())
    assert "compute.networks.create" not in needed(subject_of(google))[0]


def test_named_networks_need_no_permission_to_make_some(google):
    named = site(network={"existing": [{"network": "theirs", "subnetwork": "theirs"}]})
    assert "compute.networks.create" not in needed(subject_of(google, named))[0]


def test_an_api_that_is_off_needs_the_permission_to_turn_it_on(google):
    assert "serviceusage.services.enable" not in needed(subject_of(google))[0]
    del google.resources["projects/demo-project/services/container.googleapis.com"]
    assert "serviceusage.services.enable" in needed(subject_of(google))[0]


def test_a_bucket_that_is_there_is_asked_about_its_own_permissions(google):
    make(google, site())
    del google.resources["buckets/demo-bucket iamPolicy"]  # so that the access is to be given again
    google.permissions = READS | {"storage.buckets.setIamPolicy"}
    found = [finding for finding in ask(google, "permissions") if "in bucket demo-bucket" in finding.found]
    assert "storage.buckets.update" in found[0].found
    assert found[0].fix.startswith("gcloud storage buckets add-iam-policy-binding gs://demo-bucket --member=")
    assert any(call.path.endswith("/b/demo-bucket/iam/testPermissions") for call in google.calls)


def test_the_nodes_service_account_may_be_used_by_a_grant_on_itself(google):
    without(google, "iam.serviceAccounts.actAs")
    assert "roles/iam.serviceAccountUser" in one(ask(google, "permissions"), "problem").rule
    account = f"{google.projects['demo-project']}-compute@developer.gserviceaccount.com"
    google.resources[f"projects/demo-project/serviceAccounts/{account} permissions"] = {
        "granted": ["iam.serviceAccounts.actAs"]
    }
    assert one(ask(google, "permissions"), "ok")


def test_what_cannot_be_looked_at_counts_as_to_be_made(google):
    google.permissions = {"resourcemanager.projects.get"}
    assert "compute.networks.create" in needed(subject_of(google))[0]


@pytest.mark.parametrize("kind", sorted({type(one) for one in prerequisites(site())}, key=str))
def test_every_permission_of_a_kind_has_a_role(kind: type[Resource]):
    used = kind.permissions
    for permission in (*used.describe, *used.create, *used.update, *used.delete):
        assert roles.role_with(permission), permission
