"""Making a data set, with a stand-in for the ArrayRecord library; the real one is used in tests/local."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import data_prepare
import data_records
import pytest
from data_documents import InputError


class RecordFile:
    """Writes records one after the other, each as a line of hexadecimal digits."""

    def __init__(self, path: str, options: str) -> None:
        assert options == "group_size:1"
        self.file = Path(path).open("w")  # noqa: SIM115

    def write(self, record: bytes) -> None:
        self.file.write(record.hex() + "\n")

    def close(self) -> None:
        self.file.close()


@pytest.fixture(autouse=True)
def record_library(monkeypatch):
    module = ModuleType("array_record.python.array_record_module")
    module.ArrayRecordWriter = RecordFile  # type: ignore[attr-defined]
    for name in ("array_record", "array_record.python", module.__name__):
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Forty documents of 9 bytes."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.txt").write_text(f"number {number:02}")
    return folder


def prepare(source: Path, out: Path | str, report: Any = lambda line: None, **changes: Any) -> dict[str, Any]:
    request = {
        "sources": [str(source)],
        "out": str(out),
        "tokenizer": "byte",
        "sequenceLength": 8,
        "evalFraction": 0.05,
        "seed": 0,
        "suffixes": None,
        "without": [],
        "replace": False,
    }
    return data_prepare.prepare(request | changes, report)


def read(file: Path) -> list[list[int]]:
    """The token ids of each record."""
    return [_ids(bytes.fromhex(line)) for line in file.read_text().splitlines()]


def _ids(record: bytes) -> list[int]:
    content = record[record.index(b"text") + 4 :]
    assert content[0] == 2 << 3 | 2  # value
    assert content[2] == 3 << 3 | 2  # int64_list
    assert content[4] == 1 << 3 | 2  # its values
    ids, value, shift = [], 0, 0
    for byte in content[6:]:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            ids.append(value)
            value, shift = 0, 0
    return ids


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_texts_follow_each_other_without_gaps_in_sequences_of_full_length(texts, tmp_path):
    manifest = prepare(texts, tmp_path / "out")["manifest"]
    train, held_out = (read(tmp_path / "out" / f"{part}-00000.array_record") for part in ("train", "eval"))
    assert {len(ids) for ids in train[:-1]} == {8}
    assert len(train[-1]) == manifest["train"]["lastSequenceTokens"] == 38 * 11 % 8
    stream = bytes(i - 3 if i > 2 else b"\0<>"[i] for ids in train for i in ids)
    found = {text.decode() for text in stream.removeprefix(b"<").removesuffix(b">").split(b"><")}
    held = bytes(i - 3 if i > 2 else b"\0<>"[i] for ids in held_out for i in ids)
    found |= {text.decode() for text in held.removeprefix(b"<").removesuffix(b">").split(b"><")}
    assert found == {f"number {number:02}" for number in range(40)}
    assert manifest["train"] | {"content": "", "files": {}} == {
        "documents": 38,
        "bytes": 38 * 9,
        "tokens": 38 * 11,
        "sequences": 53,
        "lastSequenceTokens": 2,
        "content": "",
        "files": {},
    }


def test_the_same_texts_give_the_same_bytes_wherever_they_lie(texts, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    for file in texts.iterdir():
        (other / f"x{file.name}").write_bytes(file.read_bytes())
    prepare(texts, tmp_path / "a" / "text")
    prepare(other, tmp_path / "b" / "text")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert "text/data.values.yaml" in files_of(tmp_path / "a")


def test_a_second_time_there_is_nothing_to_do(texts, tmp_path):
    first = prepare(texts, tmp_path / "out")
    written = (tmp_path / "out" / "dataset.json").stat().st_mtime_ns
    second = prepare(texts, tmp_path / "out")
    assert second == first | {"unchanged": True}
    assert (tmp_path / "out" / "dataset.json").stat().st_mtime_ns == written


def test_other_texts_do_not_take_the_place_of_a_data_set_unasked(texts, tmp_path):
    prepare(texts, tmp_path / "out")
    before = files_of(tmp_path / "out")
    (texts / "new.txt").write_text("new")
    with pytest.raises(InputError, match="made from other texts or settings") as error:
        prepare(texts, tmp_path / "out")
    assert "--replace" in error.value.fix
    assert files_of(tmp_path / "out") == before
    prepare(texts, tmp_path / "out", replace=True)
    assert files_of(tmp_path / "out") != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "texts"]


def test_a_damaged_data_set_is_made_again(texts, tmp_path):
    prepare(texts, tmp_path / "out")
    before = files_of(tmp_path / "out")
    (tmp_path / "out" / "train-00000.array_record").write_text("")
    assert not prepare(texts, tmp_path / "out")["unchanged"]
    assert files_of(tmp_path / "out") == before


def test_a_foreign_folder_is_left_alone(texts, tmp_path):
    (tmp_path / "out").mkdir()
    prepare(texts, tmp_path / "out")  # an empty one is free
    for content in ({"notes.txt": "mine"}, {"dataset.json": "{}"}):
        out = tmp_path / f"foreign-{len(content['notes.txt']) if 'notes.txt' in content else 0}"
        out.mkdir()
        for name, text in content.items():
            (out / name).write_text(text)
        with pytest.raises(InputError, match="is not a data set of this program"):
            prepare(texts, out, replace=True)
        assert len(list(out.iterdir())) == 1


def test_it_appears_whole_or_not_at_all(texts, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data_prepare, "_publish", fail)
    with pytest.raises(KeyboardInterrupt):
        prepare(texts, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


def test_what_a_killed_process_left_is_removed_but_not_what_a_living_one_writes(texts, tmp_path):
    for name in ("dead", "alive"):
        (tmp_path / f".out.{name}.partial").mkdir()
    with data_prepare._locked(tmp_path / ".out.alive.partial"):
        prepare(texts, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.alive.partial", "out", "texts"]


def test_a_renamed_data_set_gets_its_new_name_into_the_values(texts, tmp_path):
    prepare(texts, tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "better")
    assert prepare(texts, tmp_path / "better")["unchanged"]
    assert 'trainFiles: "better/train-*.array_record"' in (tmp_path / "better" / "data.values.yaml").read_text()


def test_without_evaluation_there_are_no_files_for_it(texts, tmp_path):
    manifest = prepare(texts, tmp_path / "out", evalFraction=0)["manifest"]
    assert manifest["eval"]["files"] == {}
    assert 'evalFiles: ""' in (tmp_path / "out" / "data.values.yaml").read_text()


def test_of_one_text_the_end_is_held_out(tmp_path):
    source = tmp_path / "one.txt"
    source.write_text("".join(f"line {number:02}\n" for number in range(50)))
    manifest = prepare(source, tmp_path / "out", evalFraction=0.1)["manifest"]
    assert manifest["heldOut"] == "the end of each document"
    assert (manifest["train"]["bytes"], manifest["eval"]["bytes"]) == (45 * 8, 5 * 8)


def test_progress_counts_bytes(texts, tmp_path):
    lines: list[dict[str, Any]] = []
    prepare(texts, tmp_path / "out", report=lambda line: lines.append(dict(line)))
    assert [line["stage"] for line in lines][:: len(lines) - 1] == ["reading", "writing"]
    assert lines[-1]["total"] == 40 * 9


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"sequenceLength": 1}, "The sequence length is 1."),
        ({"evalFraction": 1}, "The evaluation fraction is 1."),
        ({"sequenceLength": 1000}, "The train"),
        ({"sequenceLength": 30}, "The held-out part has 22 tokens, and a sequence 30."),
        ({"sources": ["/nowhere"]}, "/nowhere does not exist."),
        ({"suffixes": [".tex"]}, "no file there ends in .tex (40 others do)"),
        ({"tokenizer": "/nowhere"}, "/nowhere holds no tokenizer.json"),
        ({"out": "/proc/text"}, "/proc cannot be written"),
    ],
)
def test_what_cannot_work_is_one_message(texts, tmp_path, changes, found):
    with pytest.raises(InputError) as error:
        prepare(texts, **{"out": tmp_path / "out"} | changes)
    assert found in error.value.found
    assert error.value.fix
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


def test_texts_that_are_none_are_an_error_with_the_reasons(tmp_path):
    source = tmp_path / "texts"
    source.mkdir()
    (source / "a.txt").write_bytes(b"\xff\xfe")
    (source / "b.txt").write_text(" ")
    with pytest.raises(InputError, match=r"1 not UTF-8 \(.*a\.txt, \.\.\.\); 1 empty"):
        prepare(source, tmp_path / "out")


def test_the_program_speaks_json_lines(texts, tmp_path, monkeypatch, capsys):
    request = {"sources": [str(texts)], "out": str(tmp_path / "out"), "tokenizer": "byte", "sequenceLength": 1}
    request |= {"evalFraction": 0, "seed": 0, "suffixes": None, "without": [], "replace": False}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    assert data_prepare.main() == 1
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request | {"sequenceLength": 8})))
    assert data_prepare.main() == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [lines[0]["event"], lines[1]["event"], lines[-1]["event"]] == ["error", "progress", "result"]


def test_long_texts_go_to_the_tokenizer_in_parts_that_join_seamlessly(monkeypatch):
    monkeypatch.setattr(data_records, "PART_LETTERS", 5)
    tokenizer = data_records.byte_tokenizer()
    texts = ["one\ntwo and more\nthree", "short", "no line end in this"]
    stream = [token for ids in data_records.token_stream(texts, tokenizer) for token in ids]
    whole = [token for text in texts for token in (1, *tokenizer.encode([text])[0], 2)]
    assert stream == whole


def test_many_tokens_are_spread_over_files(tmp_path):
    writer = data_records.RecordWriter(tmp_path, "train", 300, shard_tokens=20)
    for start in range(0, 60, 6):
        writer.write(range(start, start + 6))
    writer.close()
    assert writer.files == [f"train-0000{number}.array_record" for number in range(3)]
    assert [ids[0] for name in writer.files for ids in read(tmp_path / name)] == list(range(0, 60, 6))


def test_ids_of_any_size_are_written_as_protocol_buffers_have_them():
    assert data_records._varint(300) == b"\xac\x02"  # the example of protobuf.dev/programming-guides/encoding
    assert _ids(data_records._example(b"".join(map(data_records._varint, [0, 127, 128, 128255])))) == [
        0,
        127,
        128,
        128255,
    ]


def test_nobody_listening_is_a_reason_to_stop_and_leave_nothing(texts, tmp_path):
    request = {"sources": [str(texts)], "out": str(tmp_path / "out"), "tokenizer": "byte", "sequenceLength": 8}
    request |= {"evalFraction": 0, "seed": 0, "suffixes": None, "without": [], "replace": False}
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run(
        [sys.executable, data_prepare.__file__],
        input=json.dumps(request).encode(),
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write_end)
    assert (result.returncode, result.stderr) == (1, b"")
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]
