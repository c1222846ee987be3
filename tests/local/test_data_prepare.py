"""Making a data set with the real libraries, and reading it as MaxText does."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver import dataset

pytestmark = pytest.mark.local

TEXTS = ["plain\n", "Größe 漢字 😀\t", "<bos> is no mark here\x00\n", "x" * 100]

READ = """
import json, sys
from dataclasses import replace
from pathlib import Path
from grain.python import ArrayRecordDataSource
from maxtext.input_pipeline.input_pipeline_utils import NormalizeFeatures, ParseFeatures
from transformers import AutoTokenizer

folder = Path(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
ids = []
for record in ArrayRecordDataSource(sorted(map(str, folder.glob("train-*")))):
    features = NormalizeFeatures(["text"], False).map(ParseFeatures(["text"], False).map(record))
    ids.append(features["text"].tolist())
stream = sum(ids, [])
special = [tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id]
print(json.dumps({"lengths": [len(i) for i in ids], "text": tokenizer.decode(stream), "special": special,
                  "size": len(tokenizer)}))
"""


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text)
    return folder


def prepare(python: Path, source: Path, out: Path, **changes: Any) -> dict[str, Any]:
    request = dataset.Request(sources=[str(source)], out=str(out), sequenceLength=16, evalFraction=0.0)
    return dataset.prepare(replace(request, **changes), python, lambda _: None)


def test_maxtext_and_its_tokenizer_read_what_was_written(trainer_python, texts, tmp_path):
    result = prepare(trainer_python, texts, tmp_path / "out")
    output = subprocess.run(
        [trainer_python, "-c", READ, tmp_path / "out"], check=True, capture_output=True, text=True
    ).stdout
    read = json.loads(output.splitlines()[-1])
    documents = read["text"].removeprefix("<bos>").removesuffix("<eos>").split("<eos><bos>")
    assert sorted(documents) == sorted(TEXTS)
    assert set(read["lengths"][:-1]) == {16}
    assert sum(read["lengths"]) == result["manifest"]["train"]["tokens"]
    assert read["special"] == [0, 1, 2]
    assert read["size"] == result["manifest"]["vocabularySize"] == 259


def test_the_same_texts_give_the_same_files(trainer_python, texts, tmp_path):
    for place in ("a", "b"):
        prepare(trainer_python, texts, tmp_path / place / "out", evalFraction=0.3)
    files = [
        {str(file.relative_to(tmp_path / place)): file.read_bytes() for file in (tmp_path / place).rglob("*.*")}
        for place in ("a", "b")
    ]
    assert len(files[0]) == 6
    assert files[0] == files[1]


def test_a_hugging_face_folder_is_a_tokenizer(trainer_python, texts, tmp_path):
    """The byte-level one is such a folder; its library cuts the text as we did."""
    (texts / "2.txt").unlink()  # a library reads special tokens out of texts that spell them
    ours = prepare(trainer_python, texts, tmp_path / "ours")["manifest"]
    theirs = prepare(trainer_python, texts, tmp_path / "theirs", tokenizer=str(tmp_path / "ours" / "tokenizer"))[
        "manifest"
    ]
    assert theirs["train"]["content"] == ours["train"]["content"]
    assert theirs["tokenizerKind"] == "huggingface"
    names = ["tokenizer.json", "tokenizer_config.json"]
    assert sorted(file.name for file in (tmp_path / "theirs" / "tokenizer").iterdir()) == names
