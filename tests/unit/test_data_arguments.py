"""The run file's data section: what it tells MaxText, and what is refused."""

import json
from pathlib import Path
from typing import Any

import data_arguments
import pytest

from tests import run_files

GRAIN: dict[str, Any] = {
    "kind": "grain",
    "trainFiles": "/data/text/train-*.array_record",
    "tokenizer": {"type": "", "path": "/data/text/tokenizer"},
    "tokenized": True,
}
HF: dict[str, Any] = {
    "kind": "hf",
    "tokenizer": {"type": "", "path": "hf://meta-llama/Llama-3.1-8B"},
    "hf": {"path": "allenai/c4", "name": "en", "trainFiles": "", "evalFiles": "", "evalSplit": ""},
}
EVALUATION = {"evalEverySteps": 10, "evalSteps": 4, "evalFiles": "/data/text/eval-*.array_record"}


def section(**changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = run_files.content(data=changes)["data"]
    return data


def told(data: dict[str, Any], slices: int = 2, elastic: bool = False) -> dict[str, object]:
    return data_arguments.arguments(data, slices=slices, max_slices=2, elastic=elastic)


def test_synthetic_data_needs_nothing_else():
    assert told(section()) == {
        "dataset_type": "synthetic",
        "data_shuffle_seed": 0,
        "eval_interval": -1,
        "eval_steps": -1,
    }


def test_grain_reads_its_files_as_often_as_the_steps_need():
    arguments = told(section(**GRAIN))
    assert arguments["grain_train_files"] == "/data/text/train-*.array_record"
    assert arguments["tokenizer_type"] == "huggingface"
    assert arguments["tokenize_train_data"] is False
    assert arguments["num_epoch"] == data_arguments.ENDLESS
    assert told(section(**GRAIN, epochs=2))["num_epoch"] == 2


def test_a_tokenizer_on_the_hub_loses_its_prefix():
    assert told(section(**HF))["tokenizer_path"] == "meta-llama/Llama-3.1-8B"


def test_the_place_is_kept_for_any_number_of_hosts_where_maxtext_can():
    assert told(section(**GRAIN))["grain_use_elastic_iterator"] is True
    assert told(section(**GRAIN, packing=True))["grain_use_elastic_iterator"] is False
    assert told(section(**GRAIN, fileType="parquet"))["grain_use_elastic_iterator"] is False


def test_fewer_slices_evaluate_on_the_same_sequences():
    data = section(**GRAIN, **EVALUATION)
    assert [told(data, slices)["eval_steps"] for slices in (2, 1)] == [4, 8]
    assert told(data)["generate_padding_batch_eval"] is True


def test_everything_told_is_owned():
    for data in (section(), section(**GRAIN, **EVALUATION), section(**HF)):
        assert told(data).keys() <= data_arguments.OWNED
    assert not data_arguments.DEFAULTS.keys() & data_arguments.OWNED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "tfds"}, "data.kind is 'tfds'"),
        ({"kind": "grain"}, "data.tokenizer.path is empty"),
        (GRAIN | {"trainFiles": ""}, "data.trainFiles is empty"),
        (GRAIN | {"fileType": "csv"}, "data.fileType is 'csv'"),
        (GRAIN | {"epochs": -1}, "data.epochs is -1"),
        (GRAIN | EVALUATION | {"evalSteps": 0}, "data.evalSteps is 0"),
        (GRAIN | EVALUATION | {"evalFiles": ""}, "data.evalFiles is empty"),
        (HF | {"hf": {**HF["hf"], "path": ""}}, "data.hf.path is empty"),
        (HF | {"tokenizer": {"type": "tiktoken", "path": "t"}}, "data.tokenizer.type is 'tiktoken'"),
        (HF | EVALUATION, "data.hf.evalSplit is empty"),
    ],
)
def test_a_contradiction_is_named_with_its_fix(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message) as error:
        told(section(**changes))
    assert "Fix: set data." in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (GRAIN | {"packing": True}, "data.packing is true"),
        (GRAIN | {"fileType": "parquet"}, "data.fileType is parquet"),
        (GRAIN | {"trainFiles": "a*,0.5;b*,0.5"}, "is a mixture"),
        (HF, "data.kind is hf"),
    ],
)
def test_what_cannot_follow_the_number_of_hosts_is_refused_in_an_elastic_run(changes: dict[str, Any], message: str):
    told(section(**changes))
    with pytest.raises(ValueError, match=f"{message}.*in an elastic run"):
        told(section(**changes), elastic=True)


@pytest.fixture
def prepared(tmp_path: Path) -> dict[str, Any]:
    """The section for a data set of 128-token sequences and 259 ids."""
    (tmp_path / "train-00000.array_record").touch()
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / data_arguments.MANIFEST).write_text(json.dumps({"sequenceLength": 128, "vocabularySize": 259}))
    tokenizer = {"type": "", "path": str(tmp_path / "tokenizer")}
    return section(**GRAIN | {"trainFiles": f"{tmp_path}/train-*.array_record", "tokenizer": tokenizer})


def test_files_that_fit_the_model_pass(prepared):
    data_arguments.check_files(prepared, {"max_target_length": 128, "vocab_size": 320})
    data_arguments.check_files(prepared, {"model_name": "llama3-8b"})
    data_arguments.check_files(section(), {})
    data_arguments.check_files(section(**HF), {})


@pytest.mark.parametrize(
    ("changes", "maxtext", "message"),
    [
        ({"trainFiles": "/nowhere/train-*"}, {}, "data.trainFiles is /nowhere/train-\\*, and no file matches"),
        ({"trainFiles": "/nowhere/a-*,0.3;/nowhere/b-*,0.7"}, {}, "data.trainFiles is /nowhere/a-\\*, and"),
        ({**EVALUATION, "evalFiles": "/nowhere/eval-*"}, {}, "data.evalFiles is /nowhere/eval-"),
        ({"tokenizer": {"type": "", "path": "/nowhere"}}, {}, "data.tokenizer.path is /nowhere, which does not exist"),
        ({}, {"max_target_length": 64}, "128 tokens, and the model reads 64.*--sequence-length 64"),
        ({}, {"vocab_size": 256}, "259 token ids, and the model 256.*vocab_size: 384"),
        ({"tokenized": False}, {}, "Fix: set data.tokenized: true"),
    ],
)
def test_files_that_are_missing_or_do_not_fit_are_named(prepared, changes, maxtext, message):
    with pytest.raises(ValueError, match=message):
        data_arguments.check_files({**prepared, **changes}, maxtext)
