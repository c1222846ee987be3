"""`driver data prepare`: what it asks for, and what it says; the making itself is tested elsewhere."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from driver import cli, resources
from driver.errors import FAILED, USAGE

RESULT = {
    "event": "result",
    "out": "/data/runs/my text",
    "unchanged": False,
    "skipped": {"other_kinds": 7, "not_utf8": ["a", "b", "c", "d"], "empty": [], "no_text_field": []},
    "manifest": {
        "sequenceLength": 256,
        "tokenizerKind": "byte",
        "vocabularySize": 259,
        "heldOut": "documents",
        "train": {"documents": 1900, "bytes": 2_000_000, "tokens": 2_003_800, "sequences": 7828, "files": {"t": 1}},
        "eval": {"documents": 100, "bytes": 90_000, "tokens": 90_200, "sequences": 353, "files": {"e": 1}},
    },
}


@pytest.fixture
def trainer(monkeypatch, tmp_path):
    """Stands in for the trainer's program: answers(line, ..., code=0), and the requests that it got."""
    program = tmp_path / "data_prepare.py"
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    (python.parent / "ray").touch()
    monkeypatch.setattr(resources, "trainer_dir", lambda: tmp_path)

    def answers(*lines: dict[str, Any], said: str = "", code: int = 0) -> Path:
        program.write_text(
            f"import sys\nopen({str(tmp_path / 'request')!r}, 'w').write(sys.stdin.read())\n"
            f"print({chr(10).join(map(json.dumps, lines))!r})\nprint({said!r}, file=sys.stderr)\nsys.exit({code})\n"
        )
        return tmp_path / "request"

    answers.python = str(python)  # type: ignore[attr-defined]
    return answers


def run(trainer: Any, *arguments: str) -> int:
    return cli.run(["data", "prepare", "--trainer-python", trainer.python, *arguments])


def test_the_settings_reach_the_trainer(trainer):
    request = trainer(RESULT)
    assert (
        run(trainer, "a", "b", "--out", "o", "--tokenizer", "t", "--sequence-length", "64", "--eval-fraction", "0") == 0
    )
    assert json.loads(request.read_text()) == {
        "sources": ["a", "b"],
        "out": "o",
        "tokenizer": "t",
        "sequenceLength": 64,
        "evalFraction": 0,
        "seed": 0,
        "replace": False,
        "suffixes": None,
        "without": ["__pycache__"],
    }


def test_the_python_library_is_a_source(trainer):
    request = trainer(RESULT)
    assert run(trainer, "--python-stdlib", "--out", "o") == 0
    asked = json.loads(request.read_text())
    assert asked["sources"] == [str(Path(os.__file__).parent)]
    assert asked["suffixes"] == [".py"]
    assert "site-packages" in asked["without"]


def test_the_summary_says_what_was_made_and_what_was_left_out(trainer, capsys):
    trainer({"event": "progress", "stage": "reading", "done": 9, "total": None}, RESULT)
    assert run(trainer, "texts", "--out", "o") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Data set   /data/runs/my text",
        "Training   1,900 documents, 2.0 MB, 2,003,800 tokens in 7,828 sequences of 256",
        "Held out   100 documents, 90.0 kB, 90,200 tokens in 353 sequences of 256",
        "Tokenizer  byte, 259 ids",
        "Left out   4 not UTF-8 (a, b, c, ...); 7 files of other kinds",
        "Next       driver local -f tiny -f '/data/runs/my text/data.values.yaml' --out /data/runs",
    ]


def test_nothing_to_do_is_said(trainer, capsys):
    trainer(RESULT | {"unchanged": True})
    run(trainer, "texts", "--out", "o")
    assert "(nothing to do: it holds these texts already)" in capsys.readouterr().out


def test_json_names_the_values_file(trainer, capsys):
    trainer(RESULT)
    assert run(trainer, "texts", "--out", "o", "--output", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["values"] == "/data/runs/my text/data.values.yaml"
    assert told["manifest"] == RESULT["manifest"]


def test_the_trainers_error_is_the_commands(trainer, capsys):
    trainer({"event": "error", "found": "o is taken.", "rule": "it stays", "fix": "another --out"}, code=1)
    assert run(trainer, "texts", "--out", "o") == FAILED
    assert capsys.readouterr().err == "Error: o is taken.\nit stays\nFix: another --out\n"


def test_a_trainer_that_breaks_down_is_quoted(trainer, capsys):
    trainer(said="Traceback\nModuleNotFoundError: array_record", code=1)
    assert run(trainer, "texts", "--out", "o") == FAILED
    assert "ModuleNotFoundError: array_record" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "o"], "Name sources, or give --python-stdlib."),
        (["texts", "--python-stdlib", "--out", "o"], "Name sources, or give --python-stdlib."),
        (["texts"], "Missing option '--out'"),
        (["texts", "--out", "o", "--sequence-length", "1"], "1 is not in the range x>=2"),
        (["texts", "--out", "o", "--eval-fraction", "1"], "1.0 is not in the range 0<=x<1"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(trainer, capsys, arguments, message):
    assert run(trainer, *arguments) == USAGE
    assert message in capsys.readouterr().err
