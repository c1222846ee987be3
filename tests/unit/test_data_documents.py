"""Which texts a data set is made of, in which order, and what is held out."""

import json
from pathlib import Path

import pytest
from data_documents import SUFFIXES, Document, InputError, Skipped, cut_end, find_files, read_documents, split


def documents_in(folder: Path, seed: int = 0, skipped: Skipped | None = None) -> list[Document]:
    files, _ = find_files([str(folder)], SUFFIXES, [])
    return read_documents(files, seed, skipped or Skipped(), lambda size: None)


def texts_in(folder: Path, seed: int = 0) -> list[str]:
    return [document.text() for document in documents_in(folder, seed)]


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_folders_are_searched_for_text_and_each_file_is_taken_once(tmp_path):
    write(tmp_path / "deep", a="a")
    for name in ("b.md", "c.bin", ".hidden.txt", "d.py"):
        (tmp_path / name).write_text("text")
    write(tmp_path / ".git", e="e")
    write(tmp_path / "left_out", f="f")
    (tmp_path / "again").symlink_to(tmp_path / "deep")
    files, others = find_files([str(tmp_path), str(tmp_path / "deep" / "a.txt")], SUFFIXES, ["left_out"])
    assert sorted(file.name for file in files) == ["a.txt", "b.md", "d.py"]
    assert others == 2


def test_a_named_file_is_read_whatever_its_name(tmp_path):
    (tmp_path / "LICENSE").write_text("text")
    files, _ = find_files([str(tmp_path / "LICENSE")], SUFFIXES, [])
    assert [file.name for file in files] == ["LICENSE"]


def test_a_missing_source_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere does not exist\."):
        find_files([str(tmp_path / "nowhere")], SUFFIXES, [])


def test_the_order_depends_on_content_and_seed_only(tmp_path):
    here = write(tmp_path / "here", **{f"n{i}": f"text {i}" for i in range(20)})
    there = write(tmp_path / "far" / "there", **{f"x{20 - i}": f"text {i}" for i in range(20)})
    assert texts_in(here) == texts_in(there)
    assert texts_in(here) != sorted(texts_in(here))
    assert texts_in(here, seed=1) != texts_in(here)


def test_json_lines_are_one_document_each(tmp_path):
    lines = [{"text": "ä\n", "id": 1}, {"content": "x"}, {"text": 3}, ["text"], {"text": " "}, {"text": "\ud800"}]
    content = "\n".join(map(json.dumps, lines)) + "\n\nnot json\n" + json.dumps({"text": "last"})
    (tmp_path / "a.jsonl").write_text(content)
    skipped = Skipped()
    documents = documents_in(tmp_path, skipped=skipped)
    assert sorted(document.text() for document in documents) == ["last", "ä\n"]
    assert sorted(document.text_bytes for document in documents) == [3, 4]
    assert [place.rpartition(":")[2] for place in skipped.no_text_field] == ["2", "3", "4", "6", "8"]
    assert skipped.empty == [f"{tmp_path}/a.jsonl:5"]


def test_what_is_no_text_is_passed_over_and_named(tmp_path):
    write(tmp_path, good="good", empty="\n ")
    (tmp_path / "latin.txt").write_bytes("später".encode("latin-1"))
    (tmp_path / "mixed.jsonl").write_bytes(b'{"text": "\xe4"}\n{"text": "fine"}\n')
    skipped = Skipped()
    assert len(documents_in(tmp_path, skipped=skipped)) == 2
    assert skipped.not_utf8 == [f"{tmp_path}/latin.txt", f"{tmp_path}/mixed.jsonl:1"]
    assert skipped.empty == [f"{tmp_path}/empty.txt"]


def test_a_file_that_changes_between_the_passes_is_noticed(tmp_path):
    write(tmp_path, a="before")
    (document,) = documents_in(tmp_path)
    (tmp_path / "a.txt").write_text("now")
    with pytest.raises(InputError, match=r"a\.txt changed"):
        document.text()


def test_whole_documents_are_held_out_and_equal_ones_together(tmp_path):
    write(tmp_path, **{f"n{i}": f"text {i // 2}" for i in range(40)})
    parts = split(documents_in(tmp_path), 0.1)
    assert parts.by_document
    assert len(parts.evaluation) == 4
    assert len(parts.train) == 36
    held_out = {document.text() for document in parts.evaluation}
    assert held_out.isdisjoint(document.text() for document in parts.train)


def test_of_too_few_documents_the_end_of_each_is_held_out(tmp_path):
    write(tmp_path, a="text")
    parts = split(documents_in(tmp_path), 0.05)
    assert not parts.by_document
    assert parts.train == parts.evaluation


def test_nothing_is_held_out_when_nothing_shall_be(tmp_path):
    write(tmp_path, a="text")
    assert split(documents_in(tmp_path), 0).evaluation == []


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("one\ntwo\nthree\nfour\nfive\n", "five\n"),
        ("0123456789", "89"),
        ("012345678\n", "8\n"),
    ],
)
def test_the_end_begins_with_a_line_where_it_can(text, end):
    assert cut_end(text, 0.25) == (text.removesuffix(end), end)
