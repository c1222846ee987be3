"""The bucket and the access to it against the stand-in for Google Cloud."""

import pytest
from google.api_core import exceptions

from driver.errors import DriverError
from driver.gcp.kinds.bucket import Bucket
from driver.gcp.kinds.bucket_access import ROLES, BucketAccess
from driver.gcp.resource import Found
from driver.gcp.waiting import Waiting
from tests.gcp import policies, storage
from tests.gcp.clients import PROJECT
from tests.gcp.faults import Cut, Run
from tests.gcp.looking import look
from tests.gcp.sites import site

SITE = site()
BUCKET = Bucket(SITE)
ACCESS = BucketAccess(SITE, bucket=BUCKET)
NAME = "buckets/demo-bucket"
OTHERS = {"role": "roles/storage.objectViewer", "members": ["user:someone@example.com"]}


@pytest.fixture
def bucket(google, cloud):
    """Ours, with the identity pool of a cluster next to it."""
    google.workload_pools.add(f"{PROJECT}.svc.id.goog")
    BUCKET.create(cloud, Waiting())
    return cloud.storage.bucket(BUCKET.name)


def members(google, role):
    bindings = google.resources[f"{NAME} iamPolicy"]["bindings"]
    return sorted(member for one in bindings if one["role"] == role for member in one["members"])


def member(google, subject="ns/maxtext/sa/maxtext"):
    pool = f"projects/{google.projects[PROJECT]}/locations/global/workloadIdentityPools/{PROJECT}.svc.id.goog"
    return f"principal://iam.googleapis.com/{pool}/subject/{subject}"


def bind(google, *bindings):
    """As another person does it."""
    policy = policies.get(google, NAME)
    policies.put(google, NAME, policy | {"bindings": [*policy["bindings"], *bindings], "version": 3})


def test_a_bucket_that_was_made_is_ours_and_as_wanted(google, cloud, bucket):
    there = look(BUCKET, cloud)
    assert there.ours
    assert there.differences == ()
    assert there.details == {"hierarchicalNamespace": True, "location": "us-east5"}
    access = google.resources[NAME]["iamConfiguration"]
    assert access["uniformBucketLevelAccess"]["enabled"]
    assert access["publicAccessPrevention"] == "enforced"


def test_a_flat_bucket_is_made_where_the_site_wants_one(cloud):
    flat = Bucket(site(bucket={"name": "flat-checkpoints", "hierarchicalNamespace": False}))
    flat.create(cloud, Waiting())
    assert look(flat, cloud).differences == ()
    assert look(flat, cloud).details["hierarchicalNamespace"] is False


def test_a_name_that_someone_else_has_is_refused_with_the_rule(google, cloud):
    storage.add_foreign_bucket(google, BUCKET.name)
    with pytest.raises(DriverError, match="exists, and .* may not see it") as error:
        BUCKET.describe(cloud)
    assert "unique in all of Google Cloud" in error.value.rule
    assert "bucket.name" in error.value.fix
    with pytest.raises(exceptions.Conflict, match="not available"):
        BUCKET.create(cloud, Waiting())


def test_our_own_mark_in_another_project_is_not_ours(google, cloud, bucket):
    google.add_project("another-project")
    google.resources[NAME]["projectNumber"] = google.projects["another-project"]
    there = look(BUCKET, cloud)
    assert not there.ours
    assert there.differences[0].field == "project"


def test_public_access_that_was_opened_is_closed_again(google, cloud, bucket):
    google.resources[NAME]["iamConfiguration"]["publicAccessPrevention"] = "inherited"
    there = look(BUCKET, cloud)
    assert [(one.field, one.in_place) for one in there.differences] == [("public access prevention", True)]
    BUCKET.update(cloud, there, Waiting())
    assert look(BUCKET, cloud).differences == ()


def test_a_flat_bucket_in_another_region_differs_and_cannot_be_changed(google, cloud, bucket):
    google.resources[NAME] |= {"location": "US", "hierarchicalNamespace": {}}
    differences = look(BUCKET, cloud).differences
    assert [one.field for one in differences] == ["location", "hierarchical namespace"]
    assert not any(one.in_place for one in differences)


def test_an_existing_bucket_is_used_as_it_is_and_says_what_it_is(google, cloud, bucket):
    google.resources[NAME] |= {"location": "US", "hierarchicalNamespace": {}, "labels": {}}
    there = look(Bucket(site(bucket={"name": BUCKET.name, "existing": True})), cloud)
    assert there == Found(ours=False, details={"hierarchicalNamespace": False, "location": "us"})


def test_a_bucket_goes_with_all_its_objects_and_folders(google, cloud, bucket):
    for number in range(5):
        bucket.blob(f"runs/demo/checkpoints/{number}/state").upload_from_string(b"weights")
    told: list[str] = []
    BUCKET.delete(cloud, Waiting(told.append))
    assert not [name for name in google.resources if name.startswith("buckets/")]
    assert "5 objects deleted from gs://demo-bucket" in told
    BUCKET.delete(cloud, Waiting())  # again is no error


def test_what_is_written_while_the_bucket_is_emptied_is_deleted_too(google, cloud, bucket):
    bucket.blob("a").upload_from_string(b"x")
    write = Run(lambda: bucket.blob("late").upload_from_string(b"x"), before=True)
    google.faults.add(lambda method, path: method == "DELETE" and path.endswith("/b/demo-bucket"), write)
    BUCKET.delete(cloud, Waiting())
    assert NAME not in google.resources


def test_buckets_with_the_mark_are_listed_also_under_an_earlier_name(cloud, bucket):
    renamed = site(bucket={"name": "new-checkpoints"})
    assert [one.name for one in Bucket.marked(renamed, cloud)] == ["demo-bucket"]
    assert list(Bucket.marked(site(cluster={"name": "another"}), cloud)) == []


def test_access_is_bound_for_both_roles_and_found_again(google, cloud, bucket):
    assert ACCESS.describe(cloud) is None
    ACCESS.create(cloud, Waiting())
    assert look(ACCESS, cloud) == Found(ours=True)
    assert members(google, "roles/storage.objectUser") == [member(google)]
    assert member(google) in members(google, "roles/storage.legacyBucketReader")


def test_the_bindings_of_others_stay_when_ours_come_and_go(google, cloud, bucket):
    conditional = {
        "role": "roles/storage.objectUser",
        "members": [member(google)],
        "condition": {"title": "until spring", "expression": "request.time < timestamp('2027-03-01T00:00:00Z')"},
    }
    bind(google, OTHERS, conditional)
    before = google.state()[f"{NAME} iamPolicy"]["bindings"]
    ACCESS.create(cloud, Waiting())
    ACCESS.delete(cloud, Waiting())
    after = google.state()[f"{NAME} iamPolicy"]["bindings"]
    assert sorted(map(str, after)) == sorted(map(str, before))


def test_a_change_made_at_the_same_time_is_not_lost(google, cloud, bucket):
    put = lambda method, path: method == "PUT" and path.endswith("/iam")  # noqa: E731
    google.faults.add(put, Run(lambda: bind(google, OTHERS), before=True))
    ACCESS.create(cloud, Waiting())
    assert members(google, OTHERS["role"]) == OTHERS["members"]
    assert look(ACCESS, cloud) == Found(ours=True)


def test_labels_set_at_the_same_time_are_not_lost(google, cloud, bucket):
    def label():
        google.resources[NAME]["labels"]["team"] = "language"
        google.resources[NAME]["metageneration"] = "7"

    google.faults.add(lambda method, _: method == "PATCH", Run(label, before=True))
    ACCESS.create(cloud, Waiting())
    assert google.resources[NAME]["labels"]["team"] == "language"
    assert look(ACCESS, cloud) == Found(ours=True)


def test_a_pool_that_is_too_new_is_waited_for(google, cloud, bucket):
    google.workload_pools.clear()
    ACCESS.create(cloud, Waiting(lambda _: google.workload_pools.add(f"{PROJECT}.svc.id.goog")))
    assert look(ACCESS, cloud) == Found(ours=True)


def test_access_that_is_gone_is_gone_and_removing_it_again_is_no_error(google, cloud, bucket):
    labels = dict(google.resources[NAME]["labels"])
    ACCESS.create(cloud, Waiting())
    ACCESS.delete(cloud, Waiting())
    assert ACCESS.describe(cloud) is None
    assert google.resources[NAME]["labels"] == labels
    ACCESS.delete(cloud, Waiting())
    BUCKET.delete(cloud, Waiting())
    ACCESS.delete(cloud, Waiting())


def test_access_that_others_gave_is_used_and_never_removed(google, cloud, bucket):
    bind(google, *({"role": role, "members": [member(google)]} for role in ROLES))
    assert look(ACCESS, cloud) == Found(ours=False)
    ACCESS.create(cloud, Waiting())
    ACCESS.delete(cloud, Waiting())
    assert look(ACCESS, cloud) == Found(ours=False)


def test_of_two_sites_with_one_service_account_the_last_removes_the_access(google, cloud, bucket):
    second = BucketAccess(site(cluster={"name": "second"}), bucket=BUCKET)
    ACCESS.create(cloud, Waiting())
    assert look(second, cloud).differences != ()
    second.create(cloud, Waiting())
    assert look(second, cloud) == Found(ours=True)
    ACCESS.delete(cloud, Waiting())
    assert look(second, cloud) == Found(ours=True)
    second.delete(cloud, Waiting())
    assert second.describe(cloud) is None


@pytest.mark.parametrize("call", ["PATCH", "PUT"])
def test_a_reply_that_is_cut_off_neither_loses_nor_doubles_the_access(google, cloud, bucket, call):
    google.faults.add(lambda method, path: method == call and "/b/" in path, Cut())
    ACCESS.create(cloud, Waiting())
    assert not google.faults.left
    assert look(ACCESS, cloud) == Found(ours=True)
    assert members(google, "roles/storage.objectUser") == [member(google)]


@pytest.mark.parametrize("resource", [BUCKET, ACCESS], ids=lambda one: one.kind)
def test_the_permissions_that_it_names_are_enough(google, cloud, bucket, resource):
    if resource is BUCKET:
        BUCKET.delete(cloud, Waiting())
    allowed = resource.permissions
    google.permissions = set(allowed.describe + allowed.create)
    resource.create(cloud, Waiting())
    google.permissions = set(allowed.describe + allowed.update)
    resource.update(cloud, look(resource, cloud), Waiting())
    google.permissions = set(allowed.describe + allowed.delete)
    assert list(type(resource).marked(SITE, cloud)) != []
    resource.delete(cloud, Waiting())


def test_access_is_listed_by_its_mark_also_for_an_earlier_service_account(google, cloud, bucket):
    bind(google, {"role": "roles/storage.objectUser", "members": [member(google, "ns/theirs/sa/theirs")]})
    ACCESS.create(cloud, Waiting())
    renamed = site(serviceAccount="trainer", bucket={"name": "new-checkpoints"})
    (earlier,) = BucketAccess.marked(renamed, cloud)
    assert (earlier.subject, earlier.bucket.name) == ("ns/maxtext/sa/maxtext", "demo-bucket")
    earlier.delete(cloud, Waiting())
    assert ACCESS.describe(cloud) is None
    assert members(google, "roles/storage.objectUser") == [member(google, "ns/theirs/sa/theirs")]
