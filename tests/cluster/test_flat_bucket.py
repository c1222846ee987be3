"""A bucket without a hierarchical namespace: GCS FUSE renames a folder there only within a limit of files."""

import pytest

from tests.cluster.buckets import FolderBucket
from tests.cluster.release import NotReachedError, Release

RUN = ("job.steps=6", "job.maxtext.checkpoint_period=3", "job.maxtext.max_target_length=64", "job.maxFailures=0")

pytestmark = pytest.mark.own_nodes


@pytest.fixture
def flat(demo: Release) -> Release:
    assert isinstance(demo.bucket, FolderBucket)
    demo.bucket.bind([f"{demo.namespace}/demo"], hierarchical=False)
    return demo


@pytest.mark.full
def test_a_run_on_a_flat_bucket_fails_when_folders_cannot_be_renamed(flat: Release):
    # The hosts whose renames succeed wait at Orbax's barrier for the one whose did not: the watchdog ends that.
    flat.install(*RUN, "job.stallTimeoutSeconds=60")
    with pytest.raises(NotReachedError, match="has failed"):
        flat.await_success(600)
    assert flat.checkpoints() == []


@pytest.mark.full
def test_a_run_on_a_flat_bucket_succeeds_with_a_limit_for_renames(flat: Release):
    flat.install(*RUN, "storage.mountOptions.rename-dir-limit=200000")
    flat.await_success(600)
    assert flat.checkpoints()[-1] == 5
