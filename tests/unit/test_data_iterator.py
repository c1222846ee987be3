"""The mends of MaxText's input pipeline one by one; all together they are tested with MaxText in tests/local."""

import importlib.metadata
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import data_iterator
import pytest


class Elastic:
    """As grain's ElasticIterator: iter() is an object of another class."""

    def __init__(self, dataset: list[int], batch: int) -> None:
        self.dataset, self.batch, self.place = dataset, batch, 0

    def __iter__(self) -> Any:
        return iter(self.dataset)

    def __next__(self) -> list[int]:
        self.place += self.batch
        return self.dataset[self.place - self.batch : self.place]

    def get_state(self) -> int:
        return self.place

    def set_state(self, place: int) -> None:
        self.place = place

    def close(self) -> None:
        pass


def test_the_iterator_that_maxtext_saves_is_the_one_whose_class_it_knows():
    iterator: Any = iter(data_iterator._resizable_iterator(Elastic)(list(range(9)), 4))
    assert next(iterator) == [0, 1, 2, 3]
    assert iterator.get_state() == 4
    assert iterator.examples == 9
    assert isinstance(iterator, Elastic)


def test_a_grain_without_what_the_mend_needs_is_named(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"9.{len(name)}")
    with pytest.raises(
        RuntimeError, match=r"no __next__, get_state.*maxtext 0\.2\.5, grain 0\.2\.18.*maxtext 9\.7, grain 9\.5"
    ):
        data_iterator._resizable_iterator(object)
    with pytest.raises(RuntimeError, match="has no find_data_files: .*Fix: use an image"):
        data_iterator._replace(ModuleType("maxtext.x"), "find_data_files", lambda original: original)


def test_files_are_read_in_the_same_order_on_every_host():
    find = data_iterator._sorted_files(lambda pattern, **_: [f"{pattern}-2", f"{pattern}-0", f"{pattern}-1"])
    assert find("train", hf_access_token=None) == ["train-0", "train-1", "train-2"]


def test_evaluation_reads_batches_of_its_own_size():
    config = SimpleNamespace(
        grain_use_elastic_iterator=True, global_batch_size_to_load=16, global_batch_size_to_load_eval=8, eval_steps=3
    )
    seen: Any = data_iterator._evaluation_data(lambda config, mesh, processes: config)(config, None, [0])
    assert not seen.grain_use_elastic_iterator
    assert seen.global_batch_size_to_load == 8
    assert seen.eval_steps == 3


def test_each_evaluation_reads_the_same_batches():
    made = data_iterator._repeatable_evaluation_data(lambda config, mesh, processes: iter(config))([1, 2], None, [0])
    assert list(made) == [1, 2]
    made.reset()
    assert list(made) == [1, 2]


def test_an_error_of_the_data_stays_one_and_the_end_of_the_data_is_an_error():
    guard = data_iterator._errors_stay_errors(lambda config: None)
    with pytest.raises(OSError, match="gone"), guard(None):
        raise OSError("gone")
    with pytest.raises(RuntimeError, match="The training data ended before the last step"), guard(None):
        next(iter(()))


@pytest.fixture
def training(monkeypatch):
    """make(examples, **config): the mended maker's iterator over that many examples in all passes, and what it logs."""
    said: list[str] = []
    logging = ModuleType("maxtext.utils.max_logging")
    logging.log = said.append  # type: ignore[attr-defined]
    for name in ("maxtext", "maxtext.utils", "maxtext.utils.max_logging"):
        monkeypatch.setitem(sys.modules, name, logging if name.endswith("logging") else ModuleType(name))
    sys.modules["maxtext.utils"].max_logging = logging  # type: ignore[attr-defined]

    def make(examples: int | None, **changes: Any) -> list[str]:
        config = {
            "grain_train_files": "/nowhere/train-*",
            "max_target_length": 128,
            "vocab_size": 320,
            "tokenize_train_data": False,
            "num_epoch": 2,
            "steps": 10,
            "global_batch_size_to_load": 8,
        }
        loader = SimpleNamespace(examples=examples) if examples is not None else SimpleNamespace()
        maker = data_iterator._checked_training_data(lambda *_: SimpleNamespace(dataloader=loader))
        maker(SimpleNamespace(**config | changes), None, [0])
        return said

    return make


def test_a_run_says_how_often_it_reads_the_data(training):
    assert training(80) == ["Training data: 40 sequences, of which this run reads 2 passes"]


def test_data_that_ends_before_the_run_is_refused_at_the_start(training):
    with pytest.raises(
        ValueError, match=r"39 sequences, read 2 times .* 10 steps .* Fix: data.epochs: 0 .* job.steps: 9\."
    ):
        training(79)


def test_other_iterators_are_left_alone(training):
    assert training(None) == []
