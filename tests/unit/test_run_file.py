"""The run file: what is read, and what is refused."""

import re

import pytest
import yaml
from run import RunFileError, load

from tests import run_files


def test_a_run_file_gives_the_shape_of_the_run():
    run = run_files.run()
    assert str(run.folder) == "/data/demo"
    assert list(run.slice_counts()) == [2]
    assert (run.hosts(2), run.chips(2)) == (8, 32)


def test_an_elastic_run_has_every_size_between_its_bounds():
    assert list(run_files.run(**run_files.ELASTIC).slice_counts()) == [1, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"surprise": 1}, "surprise: Extra inputs are not permitted"),
        ({"tpu": {"chips": 4}}, "tpu.chips: Extra inputs"),
        ({"slices": {"min": 3}}, "slices: .*min 3 is above max 2"),
        ({"name": "a/b"}, "name: "),
        ({"name": "..", "steps": 1}, "name: "),
        ({"steps": 0}, "steps: .*greater than or equal to 1"),
        ({"data": {"kind": "c4"}}, "data.kind: "),
    ],
)
def test_a_run_file_that_cannot_work_names_the_key_and_the_rule(tmp_path, changes, message):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(run_files.content(**changes)))
    with pytest.raises(RunFileError, match=message):
        load(path)


def test_a_file_that_is_missing_or_not_yaml_is_named(tmp_path):
    with pytest.raises(RunFileError, match="cannot be read"):
        load(tmp_path / "none.yaml")
    broken = tmp_path / "run.yaml"
    broken.write_text("a: [1")
    with pytest.raises(RunFileError, match=f"{re.escape(str(broken))}: not YAML"):
        load(broken)


@pytest.mark.parametrize("value", [False, "false"])
def test_checkpointing_follows_maxtexts_own_argument(value):
    assert run_files.run().checkpointing
    assert not run_files.run(maxtext={"enable_checkpointing": value}).checkpointing
