"""The place in the data survives kills and changes of the number of hosts: same examples, so same losses.

Compared with a run that nothing disturbs. Another number of processes adds the same numbers up in another order, which
float32 shows in the seventh digit, and training carries on from there: TOLERANCE is relative, per step.
"""

import argparse
from pathlib import Path
from typing import Any

import pytest

from driver import dataset
from tests.local.plain_runs import Losses, Runs

pytestmark = pytest.mark.local

TOLERANCE = 1e-4
LENGTH = 128


NO_EVALUATION = {"eval_interval": -1}


@pytest.fixture(scope="module")
def text(trainer_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of the Python standard library's sources."""
    return _prepare(trainer_python, tmp_path_factory.mktemp("data") / "python", **dataset.python_stdlib())


@pytest.fixture
def small_text(trainer_python: Path, tmp_path: Path) -> Path:
    """A data set of one file: some 750 sequences, which 16 to a step are read in 47 steps."""
    source = Path(argparse.__file__)
    return _prepare(trainer_python, tmp_path / "argparse", sources=[str(source)])


@pytest.fixture
def runs(trainer_python: Path, text: Path, tmp_path: Path) -> Runs:
    return Runs(trainer_python, tmp_path, text, schedule_steps=150)


def _prepare(python: Path, out: Path, **sources: Any) -> Path:
    dataset.prepare(dataset.Request(out=str(out), sequenceLength=LENGTH, **sources), python, lambda _: None)
    return out


def test_killed_shrunk_and_grown_the_run_trains_as_if_undisturbed(runs: Runs):
    undisturbed = runs.train("undisturbed", 1, 42)

    killed = runs.train("disturbed", 2, 42, kill_at=16)
    shrunk = runs.train("disturbed", 1, 28)
    grown = runs.train("disturbed", 2, 42)

    assert min(killed.train) == 0
    assert list(shrunk.train) == list(range(11, 28)), "taken up after the checkpoint at step 10"
    assert list(grown.train) == list(range(28, 42)), "taken up after the last checkpoint"
    for part in (killed, shrunk, grown):
        _assert_equal(part, undisturbed)
    assert len(undisturbed.evaluation) == 5


def _assert_equal(part: Losses, whole: Losses) -> None:
    assert part.train == pytest.approx({step: whole.train[step] for step in part.train}, rel=TOLERANCE)
    assert part.evaluation == pytest.approx({step: whole.evaluation[step] for step in part.evaluation}, rel=TOLERANCE)


@pytest.mark.full
def test_many_changes_and_several_passes_over_the_data(runs: Runs, small_text: Path):
    runs = runs.on(small_text, full_size=4)
    undisturbed = runs.train("undisturbed", 1, 150)
    steps = [(4, 31), (2, 47), (1, 62), (4, 88), (2, 119), (4, 150)]
    for processes, until in steps:
        part = runs.train("disturbed", processes, until)
        assert max(part.train) == until - 1
        _assert_equal(part, undisturbed)


@pytest.mark.full
def test_without_the_mend_maxtext_refuses_another_number_of_processes(runs: Runs):
    """Fails when an upstream release has learnt it: then most of data_iterator.py can go."""
    runs.train("disturbed", 2, 12, mend=False, **NO_EVALUATION)
    with pytest.raises(AssertionError, match="2 processes found in Grain checkpoint directory"):
        runs.train("disturbed", 1, 14, mend=False, **NO_EVALUATION)


@pytest.mark.full
def test_a_damaged_file_fails_the_run(runs: Runs, small_text: Path):
    runs = runs.on(small_text)
    file = next(small_text.glob("train-*"))
    content = bytearray(file.read_bytes())
    middle = slice(len(content) // 4, len(content) // 4 * 3)
    content[middle] = bytes(len(content[middle]))
    file.write_bytes(content)
    with pytest.raises(AssertionError, match="(?i)array_?record|corrupt|invalid|decompress"):
        runs.train("damaged", 1, 30)
