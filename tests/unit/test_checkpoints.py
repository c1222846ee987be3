"""Whole checkpoints are told from broken ones."""

import json

import pytest
from checkpoints import last_complete


@pytest.fixture
def folder(tmp_path):
    for step in (0, 10, 20):
        save(tmp_path, step)
    return tmp_path


def save(folder, step):
    """Lays a checkpoint out as Orbax 0.12 does."""
    items = folder / str(step) / "items"
    items.mkdir(parents=True)
    (items / "_METADATA").write_text("{}")
    (items / "manifest.ocdbt").write_bytes(b"x")
    metadata = {"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}
    (folder / str(step) / "_CHECKPOINT_METADATA").write_text(json.dumps(metadata))


def test_the_newest_checkpoint_counts(folder):
    assert last_complete(folder) == 20


def test_no_folder_and_no_checkpoint_are_minus_one(tmp_path):
    assert last_complete(tmp_path) == last_complete(tmp_path / "none") == -1


def test_a_save_in_progress_does_not_count(folder):
    (folder / "30.orbax-checkpoint-tmp-1").mkdir()
    assert last_complete(folder) == 20


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: (c / "_CHECKPOINT_METADATA").unlink(),
        lambda c: (c / "_CHECKPOINT_METADATA").write_text('{"commit_timestamp_nsecs": null}'),
        lambda c: (c / "_CHECKPOINT_METADATA").write_text('{"commit_times'),
        lambda c: (c / "items" / "_METADATA").write_text(""),
        lambda c: (c / "items" / "manifest.ocdbt").unlink(),
    ],
    ids=["no metadata", "no commit", "half metadata", "empty item metadata", "no arrays"],
)
def test_a_partial_checkpoint_does_not_count(folder, damage):
    damage(folder / "20")
    assert last_complete(folder) == 10
