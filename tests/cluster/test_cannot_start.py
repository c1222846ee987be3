"""A pod that cannot start: the run ends at its deadline, and the pod's events say why."""

import pytest

from tests.cluster.buckets import FolderBucket
from tests.cluster.release import Release, deployment_status, job_status

pytestmark = [pytest.mark.own_nodes, pytest.mark.full]

DEADLINE = ("rayJob.activeDeadlineSeconds=30", "job.steps=10")


def test_a_bucket_that_refuses_the_service_account_is_named_by_the_events_and_the_run_ends_at_its_deadline(
    demo: Release,
):
    assert isinstance(demo.bucket, FolderBucket)
    demo.bucket.bind([])
    assert_ends_at_its_deadline(demo, "FailedMount", "storage.objects")


def test_an_image_that_is_not_there_is_named_by_the_events_and_the_run_ends_at_its_deadline(demo: Release):
    assert_ends_at_its_deadline(demo, "ErrImageNeverPull", "localhost/none:1", "image.uri=localhost/none:1")


def test_a_claim_that_no_node_can_meet_is_named_by_the_events_and_the_run_ends_at_its_deadline(demo: Release):
    assert_ends_at_its_deadline(demo, "FailedScheduling", "cannot allocate all claims", "network.dranet.count=9")


def assert_ends_at_its_deadline(demo: Release, reason: str, words: str, *sets: str) -> None:
    demo.install(*DEADLINE, *sets)
    ended = demo.await_object("RayJob", demo.job_name(), lambda each: deployment_status(each) == "Failed", 150)
    assert ended["status"]["reason"] == "DeadlineExceeded"
    assert job_status(ended) != "SUCCEEDED"
    events = demo.api.core.list_namespaced_event(demo.namespace, field_selector="type=Warning").items
    assert [event.message for event in events if event.reason == reason and words in event.message]
