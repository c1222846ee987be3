"""Token sequences as files: the byte-level tokenizer, the cutting into sequences, and ArrayRecord shards of them.

Runs in the trainer's environment (numpy, array_record; transformers only for a tokenizer of one's own). A record is a
serialized tf.train.Example with the token ids in the feature "text", which MaxText's Grain pipeline reads with
tokenize_train_data=false.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_documents import InputError

BYTE_OFFSET = 3
"""Byte b is token b + 3; before them <pad>, <bos> and <eos>."""

SHARD_TOKENS = 1 << 26
"""Tokens per file, some 100 to 200 MB."""

PART_LETTERS = 1 << 20
"""A longer document goes to the tokenizer in parts."""


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer as the preparation needs it.

    encode: the ids of each text, without special tokens. begin, end: the ids around a document, where there are any.
    vocabulary_size: highest id + 1. fingerprint: changes when ids would. save: writes it as a Hugging Face folder.
    """

    encode: Callable[[list[str]], list[Sequence[int]]]
    begin: int | None
    end: int | None
    vocabulary_size: int
    fingerprint: str
    save: Callable[[Path], None]


def byte_tokenizer() -> Tokenizer:
    """One token per byte of UTF-8: 259 ids, needs no training and no download, and has no unknown text."""
    table = [byte + BYTE_OFFSET for byte in range(256)]
    return Tokenizer(
        encode=lambda texts: [[table[byte] for byte in text.encode()] for text in texts],
        begin=1,
        end=2,
        vocabulary_size=256 + BYTE_OFFSET,
        fingerprint="byte-259",
        save=_save_byte_tokenizer,
    )


def folder_tokenizer(folder: str) -> Tokenizer:
    """The Hugging Face tokenizer in a local folder. Raises InputError where there is none."""
    path = Path(folder)
    files = sorted(
        file for file in path.glob("*") if file.is_file() and file.suffix in (".json", ".model", ".txt", ".jinja")
    )
    if not any(file.name in ("tokenizer.json", "tokenizer.model") for file in files):
        raise InputError(
            f"{folder} holds no tokenizer.json or tokenizer.model.",
            "--tokenizer is `byte` or the folder of a Hugging Face tokenizer on this machine",
            "download it first (hf download ORGANISATION/NAME --include 'tokenizer*' --local-dir FOLDER)",
        )
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # noqa: BLE001  # the library raises whatever its parsers do
        raise InputError(f"{folder} cannot be read as a tokenizer: {error}", "", "check the folder's files") from None

    def save(to: Path) -> None:
        to.mkdir()
        for file in files:
            if file.name.startswith(("token", "special", "vocab", "merges", "added", "config", "chat")):
                (to / file.name).write_bytes(file.read_bytes())

    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return Tokenizer(
        encode=lambda texts: tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"],
        # One mark between documents is enough where begin and end are the same one (GPT-2).
        begin=tokenizer.bos_token_id if tokenizer.bos_token_id != tokenizer.eos_token_id else None,
        end=tokenizer.eos_token_id,
        vocabulary_size=max(tokenizer.get_vocab().values()) + 1,
        fingerprint=digest.hexdigest(),
        save=save,
    )


def token_stream(documents: Iterable[str], tokenizer: Tokenizer) -> Iterator[Sequence[int]]:
    """The ids of all documents one after the other, each between the tokenizer's marks for begin and end."""
    begin = [] if tokenizer.begin is None else [tokenizer.begin]
    end = [] if tokenizer.end is None else [tokenizer.end]
    for batch in _batches(_parts(documents)):
        encoded = tokenizer.encode([text for text, _, _ in batch])
        for (_, first, last), ids in zip(batch, encoded, strict=True):
            yield [*(begin if first else []), *ids, *(end if last else [])]


def sequences(stream: Iterable[Sequence[int]], length: int) -> Iterator[Sequence[int]]:
    """The stream cut every `length` tokens. Only the last sequence may be shorter.

    MaxText fills that one up, and what it adds has no weight in the loss.
    """
    pending: list[int] = []
    for ids in stream:
        pending.extend(ids)
        cut = len(pending) - len(pending) % length
        for start in range(0, cut, length):
            yield pending[start : start + length]
        del pending[:cut]
    if pending:
        yield pending


class RecordWriter:
    """Writes sequences to `folder`/`name`-00000.array_record and on. `digest` is of the records' content."""

    def __init__(self, folder: Path, name: str, vocabulary_size: int, shard_tokens: int = SHARD_TOKENS) -> None:
        self.files: list[str] = []
        self.sequences = self.tokens = self.last_sequence_tokens = 0
        self.digest = hashlib.sha256()
        self._folder, self._name = folder, name
        self._shard_tokens = shard_tokens
        self._in_shard = shard_tokens
        self._varints = [_varint(token) for token in range(vocabulary_size)]
        self._writer: Any = None

    def write(self, ids: Sequence[int]) -> None:
        if self._in_shard >= self._shard_tokens:
            self._next_shard()
        record = _example(b"".join([self._varints[token] for token in ids]))
        self._writer.write(record)
        self.digest.update(len(record).to_bytes(8, "little") + record)
        self._in_shard += len(ids)
        self.sequences += 1
        self.tokens += len(ids)
        self.last_sequence_tokens = len(ids)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _next_shard(self) -> None:
        from array_record.python.array_record_module import ArrayRecordWriter

        self.close()
        name = f"{self._name}-{len(self.files):05}.array_record"
        # Grain reads single records: one per compressed group.
        self._writer = ArrayRecordWriter(str(self._folder / name), "group_size:1")
        self.files.append(name)
        self._in_shard = 0


def _parts(documents: Iterable[str]) -> Iterator[tuple[str, bool, bool]]:
    """Documents in parts of PART_LETTERS or a little more, cut after lines: (text, begins one, ends one)."""
    for document in documents:
        start = 0
        while start < len(document):
            stop = document.find("\n", start + PART_LETTERS) + 1 or len(document)
            yield document[start:stop], start == 0, stop == len(document)
            start = stop


def _batches(parts: Iterable[tuple[str, bool, bool]]) -> Iterator[list[tuple[str, bool, bool]]]:
    """As many parts at a time as keep all cores of the tokenizer busy and the memory small."""
    batch: list[tuple[str, bool, bool]] = []
    letters = 0
    for part in parts:
        batch.append(part)
        letters += len(part[0])
        if letters >= 4 * PART_LETTERS:
            yield batch
            batch, letters = [], 0
    if batch:
        yield batch


def _example(packed_ids: bytes) -> bytes:
    """tf.train.Example {features {feature {key: "text" value {int64_list {value: ids}}}}}, field by field.

    https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/example/feature.proto
    """
    feature = _field(3, _field(1, packed_ids))
    return _field(1, _field(1, _field(1, b"text") + _field(2, feature)))


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _save_byte_tokenizer(to: Path) -> None:
    """The tokenizer as a Hugging Face folder, written out so that no library's version changes a byte of it."""
    specials = ["<pad>", "<bos>", "<eos>"]
    vocabulary = {token: index for index, token in enumerate(specials)}
    vocabulary |= {letter: byte + BYTE_OFFSET for byte, letter in enumerate(_byte_letters())}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index, token in enumerate(specials)
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    names = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names}
    to.mkdir()
    (to / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=True, indent=1) + "\n")
    (to / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")


def _byte_letters() -> list[str]:
    """A printable character for each byte, as in GPT-2's vocabulary, which the ByteLevel type maps bytes to."""
    plain = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]
