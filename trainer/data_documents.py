"""Which texts a data set is made of: finds files, cuts them into documents, orders and splits them the same everywhere.

Standard library only. Texts stay on disk; what is kept of a document is where it lies and a hash of its content, which
decides its place in the order and whether it is held out for evaluation, so that paths and machines make no difference.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SUFFIXES = (".txt", ".md", ".rst", ".tex", ".py", ".jsonl")
"""Files that are read in a folder. A file that is named itself is read whatever its name."""


class InputError(Exception):
    """What is wrong with the input, the rule and the fix, each a sentence for the user."""

    def __init__(self, found: str, rule: str, fix: str) -> None:
        super().__init__(found)
        self.found, self.rule, self.fix = found, rule, fix


@dataclass(frozen=True)
class Document:
    """One text: `length` bytes of UTF-8 at `offset` of a file, or the "text" field of the JSON that stands there."""

    order: bytes
    file: str
    offset: int
    length: int
    text_bytes: int
    """Size of the text itself."""

    def text(self) -> str:
        """Raises InputError if the file changed since it was found."""
        with Path(self.file).open("rb") as file:
            file.seek(self.offset)
            content = file.read(self.length)
        try:
            text = _text_field(content) if self.file.endswith(".jsonl") else content.decode()
        except UnicodeDecodeError:
            text = None
        if text is None or len(text.encode()) != self.text_bytes:
            raise InputError(f"{self.file} changed while it was read.", "the sources must hold still", "run it again")
        return text


@dataclass
class Skipped:
    """What was passed over, and why; each list holds files (JSON lines as FILE:LINE)."""

    other_kinds: int = 0
    not_utf8: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    no_text_field: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Split:
    """The documents of each part, in order. by_document: whole documents were held out; else the end of each was."""

    train: Sequence[Document]
    evaluation: Sequence[Document]
    by_document: bool


def find_files(sources: Sequence[str], suffixes: Sequence[str], without: Sequence[str]) -> tuple[list[Path], int]:
    """All files of the sources, each once, and how many others the folders hold. without: folder names left out.

    Hidden files and folders, and links to folders, are left out. Raises InputError where a source does not exist.
    """
    found: dict[Path, None] = {}
    others = 0
    for source in map(Path, sources):
        if source.is_file():
            found[source.resolve()] = None
        elif source.is_dir():
            for folder, folders, names in os.walk(source):
                folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in without)
                for name in sorted(names):
                    if name.endswith(tuple(suffixes)) and not name.startswith("."):
                        found[Path(folder, name).resolve()] = None
                    else:
                        others += 1
        else:
            raise InputError(f"{source} does not exist.", "A source is a file or a folder", "name one that is there")
    return list(found), others


def read_documents(
    files: Sequence[Path], seed: int, skipped: Skipped, advance: Callable[[int], None]
) -> list[Document]:
    """The documents of the files, ordered by the hash of seed and content. advance is told the bytes read.

    A file is one document; a .jsonl file has one per line, in the field "text". Raises InputError where a file cannot
    be read.
    """
    documents = []
    for file in files:
        try:
            with file.open("rb") as content:
                parts = _json_lines(content) if file.suffix == ".jsonl" else [(0, 0, content.read())]
                for line, offset, part in parts:
                    document = _document(str(file), line, offset, part, seed, skipped)
                    if document:
                        documents.append(document)
                    advance(len(part))
        except OSError as error:
            raise InputError(
                f"{file} cannot be read: {error.strerror}.", "", "make it readable, or leave it out"
            ) from None
    return sorted(documents, key=lambda document: document.order)


def split(documents: Sequence[Document], fraction: float) -> Split:
    """Holds out `fraction` of the documents, the first in the order; of too few, the end of each (cut later)."""
    if not fraction:
        return Split(documents, [], by_document=True)
    held_out = round(len(documents) * fraction)
    if held_out:
        return Split(documents[held_out:], documents[:held_out], by_document=True)
    return Split(documents, documents, by_document=False)


def cut_end(text: str, fraction: float) -> tuple[str, str]:
    """A text and its end: the last `fraction` of its characters, from the start of a line where there is one."""
    start = len(text) - int(len(text) * fraction)
    line = text.find("\n", max(start - 1, 0)) + 1
    if 0 < line < len(text):
        start = line
    return text[:start], text[start:]


def _json_lines(content: Iterator[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Line number, offset and content of each line that is not blank."""
    offset = 0
    for number, line in enumerate(content, start=1):
        if line.strip():
            yield number, offset, line
        offset += len(line)


def _document(file: str, line: int, offset: int, part: bytes, seed: int, skipped: Skipped) -> Document | None:
    place = f"{file}:{line}" if line else file
    try:
        text = _text_field(part) if line else part.decode()
    except UnicodeDecodeError:
        skipped.not_utf8.append(place)
        return None
    if text is None:
        skipped.no_text_field.append(place)
        return None
    if not text.strip():
        skipped.empty.append(place)
        return None
    content = text.encode()
    order = hashlib.sha256(b"%d\0" % seed + content).digest()
    return Document(order, file, offset, len(part), len(content))


def _text_field(line: bytes) -> str | None:
    try:
        entry = json.loads(line.decode())
    except json.JSONDecodeError:
        return None
    text = entry.get("text") if isinstance(entry, dict) else None
    if not isinstance(text, str):
        return None
    # JSON can spell half of a character pair ("\ud800"), which is no text.
    return text if not any("\ud800" <= letter <= "\udfff" for letter in text) else None
