"""The stand-in for Cloud Storage."""

from typing import Any

import pytest
from google.api_core import exceptions

from tests.gcp.clients import PROJECT, Clients
from tests.gcp.google import Google

MEMBER = (
    f"principal://iam.googleapis.com/projects/420000000001/locations/global/workloadIdentityPools/{PROJECT}.svc.id.goog"
    "/subject/ns/maxtext/sa/maxtext"
)


def make(clients: Clients, name: str = "demo-bucket", *, uniform: bool = True, location: str = "us-east5") -> Any:
    bucket = clients.storage.bucket(name)
    bucket.iam_configuration.uniform_bucket_level_access_enabled = uniform
    bucket.hierarchical_namespace_enabled = True
    bucket.labels = {"team": "a"}
    return clients.storage.create_bucket(bucket, location=location)


def add(policy: Any, role: str) -> Any:
    policy.bindings.append({"role": role, "members": {MEMBER}})
    return policy


def test_a_bucket_keeps_its_place_its_labels_and_its_namespace(clients: Clients) -> None:
    make(clients)
    bucket = clients.storage.get_bucket("demo-bucket")
    assert (bucket.location, bucket.labels) == ("US-EAST5", {"team": "a"})
    assert bucket.hierarchical_namespace_enabled
    assert bucket.iam_configuration.uniform_bucket_level_access_enabled


def test_a_hierarchical_namespace_needs_uniform_access(clients: Clients) -> None:
    with pytest.raises(exceptions.BadRequest, match="uniform bucket-level access"):
        make(clients, uniform=False)


@pytest.mark.parametrize(
    ("name", "location", "said"), [("No", "us-east5", "name"), ("demo-bucket", "moon", "location")]
)
def test_a_bucket_that_google_refuses_is_refused(clients: Clients, name: str, location: str, said: str) -> None:
    with pytest.raises(exceptions.BadRequest, match=said):
        make(clients, name, location=location)


def test_ones_own_bucket_is_not_made_again(clients: Clients) -> None:
    make(clients)
    with pytest.raises(exceptions.Conflict, match="you already own it"):
        make(clients)


def test_a_name_that_another_project_has_is_taken_and_not_read(google: Google, clients: Clients) -> None:
    google.add_foreign_bucket("demo-bucket")
    with pytest.raises(exceptions.Conflict, match="not available"):
        make(clients)
    with pytest.raises(exceptions.Forbidden, match=r"does not have storage\.buckets\.get access"):
        clients.storage.get_bucket("demo-bucket")


def test_a_bucket_that_is_not_there_is_not_found(clients: Clients) -> None:
    with pytest.raises(exceptions.NotFound):
        clients.storage.get_bucket("demo-bucket")


def test_labels_are_changed_and_removed(clients: Clients) -> None:
    bucket = make(clients)
    bucket.labels = {"owner": "b"}
    bucket.patch()
    assert clients.storage.get_bucket("demo-bucket").labels == {"owner": "b"}


def test_objects_are_kept_listed_and_read(google: Google, clients: Clients) -> None:
    bucket = make(clients)
    bucket.blob("runs/1.txt").upload_from_string("one")
    assert [blob.name for blob in clients.storage.list_blobs("demo-bucket", prefix="runs/")] == ["runs/1.txt"]
    assert bucket.blob("runs/1.txt").download_as_bytes() == b"one"
    assert "buckets/demo-bucket/runs/1.txt" in google.state()


def test_a_large_object_goes_up_in_pieces(clients: Clients) -> None:
    blob = make(clients).blob("source.tgz", chunk_size=262144)
    content = b"0123456789" * 60000
    blob.upload_from_string(content)
    assert blob.download_as_bytes() == content


def test_an_object_that_must_not_exist_yet_is_not_overwritten(clients: Clients) -> None:
    blob = make(clients).blob("lock")
    blob.upload_from_string("one", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string("two", if_generation_match=0)


def test_a_bucket_with_objects_is_not_deleted(google: Google, clients: Clients) -> None:
    before = google.state()
    bucket = make(clients)
    bucket.blob("one").upload_from_string("one")
    with pytest.raises(exceptions.Conflict, match="not empty"):
        bucket.delete()
    bucket.delete(force=True)
    assert google.state() == before


def test_a_policy_with_an_old_etag_is_refused(clients: Clients) -> None:
    clients.make_cluster()
    bucket = make(clients)
    mine = bucket.get_iam_policy(requested_policy_version=3)
    theirs = bucket.get_iam_policy(requested_policy_version=3)
    bucket.set_iam_policy(add(theirs, "roles/storage.objectUser"))
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.set_iam_policy(add(mine, "roles/storage.legacyBucketReader"))
    roles = [one["role"] for one in bucket.get_iam_policy(requested_policy_version=3).bindings]
    assert "roles/storage.objectUser" in roles
    assert len(roles) == 3


def test_a_workload_pool_exists_once_a_cluster_has_been_made(clients: Clients) -> None:
    bucket = make(clients)
    with pytest.raises(exceptions.BadRequest, match="Identity Pool does not exist"):
        bucket.set_iam_policy(add(bucket.get_iam_policy(), "roles/storage.objectUser"))
    clients.make_cluster()
    bucket.set_iam_policy(add(bucket.get_iam_policy(), "roles/storage.objectUser"))


def test_a_role_that_buckets_do_not_have_is_refused(clients: Clients) -> None:
    clients.make_cluster()
    bucket = make(clients)
    with pytest.raises(exceptions.BadRequest, match=r"Role roles/owner is not supported"):
        bucket.set_iam_policy(add(bucket.get_iam_policy(), "roles/owner"))


def test_permissions_of_a_bucket_are_tested(google: Google, clients: Clients) -> None:
    bucket = make(clients)
    google.permissions = {"storage.buckets.get"}
    assert bucket.test_iam_permissions(["storage.buckets.get", "storage.buckets.delete"]) == ["storage.buckets.get"]
