"""Makes a data set for data.kind grain out of texts, for `driver data prepare`: `data_prepare.py < request.json`.

Runs in the trainer's environment. The request: {"sources": [paths], "out": path, "tokenizer": "byte" or a folder,
"sequenceLength": 256, "evalFraction": 0.05, "seed": 0, "suffixes": [".txt", ...] or null, "without": [folder names],
"replace": false}. Prints JSON lines, of which the last is the result (exit code 0) or the error (1):

    {"event": "progress", "stage": "reading" or "writing", "done": bytes, "total": bytes or null}
    {"event": "result", "out": path, "unchanged": false, "skipped": {...}, "manifest": {...}}
    {"event": "error", "found": ..., "rule": ..., "fix": ...}

The folder holds train-*.array_record, eval-*.array_record, tokenizer/, data.values.yaml and dataset.json. The same
texts and settings give the same bytes on every machine, and the folder appears whole or not at all.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data_documents import SUFFIXES, Document, InputError, Skipped, Split, cut_end, find_files, read_documents, split
from data_records import RecordWriter, Tokenizer, byte_tokenizer, folder_tokenizer, sequences, token_stream

FORMAT = 1
"""Raised when the same input would give other files."""

MANIFEST = "dataset.json"
VALUES = "data.values.yaml"

Report = Callable[[dict[str, Any]], None]


def main() -> int:
    try:
        result = prepare(json.load(sys.stdin), _print_line)
        _print_line({"event": "result", **result})
    except InputError as error:
        _print_line({"event": "error", "found": error.found, "rule": error.rule, "fix": error.fix})
        return 1
    return 0


def prepare(request: dict[str, Any], report: Report) -> dict[str, Any]:
    """Makes the data set. Returns the result's fields. Raises InputError."""
    _check_numbers(request)
    out = Path(request["out"]).absolute()
    previous = _previous(out)
    tokenizer = byte_tokenizer() if request["tokenizer"] == "byte" else folder_tokenizer(request["tokenizer"])
    files, other_kinds = find_files(request["sources"], request["suffixes"] or SUFFIXES, request["without"])
    skipped = Skipped(other_kinds)
    documents = read_documents(files, request["seed"], skipped, _Progress("reading", None, report).advance)
    if not documents:
        raise InputError(*_nothing_found(request, files, skipped))
    settings = {
        "format": FORMAT,
        "sequenceLength": request["sequenceLength"],
        "evalFraction": request["evalFraction"],
        "seed": request["seed"],
        "tokenizer": tokenizer.fingerprint,
    }
    inputs = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for document in documents:
        inputs.update(document.order)
    unchanged = previous is not None and previous["inputs"] == inputs.hexdigest() and _complete(out, previous)
    if unchanged and previous is not None:
        manifest = previous
        _write_values(out, manifest, out.name)  # the folder may have been renamed
    else:
        if previous is not None and previous["inputs"] != inputs.hexdigest() and not request["replace"]:
            raise InputError(
                f"{out} holds a data set made from other texts or settings.",
                "a run may be reading it",
                "another --out, or --replace",
            )
        with _folder_beside(out) as folder:
            parts = split(documents, request["evalFraction"])
            written = _write(folder, parts, request, tokenizer, _Progress("writing", _size(documents), report))
            manifest = {"inputs": inputs.hexdigest(), **settings, **written}
            _check_sizes(manifest, request)
            tokenizer.save(folder / "tokenizer")
            _write_values(folder, manifest, out.name)
            _write_text(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
            _publish(folder, out)
    return {"unchanged": unchanged, "out": str(out), "skipped": asdict(skipped), "manifest": manifest}


def _write(
    folder: Path, parts: Split, request: dict[str, Any], tokenizer: Tokenizer, progress: "_Progress"
) -> dict[str, Any]:
    """Writes both parts. Returns the manifest's fields about them."""
    result: dict[str, Any] = {
        "vocabularySize": tokenizer.vocabulary_size,
        "tokenizerKind": "byte" if request["tokenizer"] == "byte" else "huggingface",
        "heldOut": "documents" if parts.by_document else "the end of each document",
    }
    for name, end in (("train", False), ("eval", True)):
        documents = parts.evaluation if end else parts.train
        writer = RecordWriter(folder, name, tokenizer.vocabulary_size)
        size = 0

        def texts(documents: Sequence[Document] = documents, end: bool = end) -> Iterator[str]:
            nonlocal size
            for document in documents:
                text = document.text()
                if not parts.by_document:
                    text = cut_end(text, request["evalFraction"])[end]
                content = len(text.encode())
                size += content
                yield text
                progress.advance(content)

        for sequence in sequences(token_stream(texts(), tokenizer), request["sequenceLength"]):
            writer.write(sequence)
        writer.close()
        result[name] = {
            "documents": len(documents),
            "bytes": size,
            "tokens": writer.tokens,
            "sequences": writer.sequences,
            "lastSequenceTokens": writer.last_sequence_tokens,
            "content": writer.digest.hexdigest(),
            "files": {file: (folder / file).stat().st_size for file in writer.files},
        }
    return result


def _check_numbers(request: dict[str, Any]) -> None:
    length, fraction = request["sequenceLength"], request["evalFraction"]
    if length < 2:
        raise InputError(
            f"The sequence length is {length}.",
            "a sequence has at least 2 tokens: one to read and one to predict",
            "--sequence-length 256",
        )
    if not 0 <= fraction < 1:
        raise InputError(
            f"The evaluation fraction is {fraction}.",
            "it is at least 0 (no evaluation) and less than 1",
            "--eval-fraction 0.05",
        )


def _check_sizes(manifest: dict[str, Any], request: dict[str, Any]) -> None:
    """Each part must fill one sequence, or it would be mostly filling."""
    length = request["sequenceLength"]
    for part, name, fix in (
        ("train", "training", "more text, or a smaller --sequence-length"),
        ("eval", "held-out", "more text, a larger --eval-fraction, or --eval-fraction 0 for no evaluation"),
    ):
        tokens = manifest[part]["tokens"]
        if tokens < length and (part == "train" or request["evalFraction"]):
            raise InputError(
                f"The {name} part has {tokens} tokens, and a sequence {length}.", "each part needs a full sequence", fix
            )


def _nothing_found(request: dict[str, Any], files: Sequence[Path], skipped: Skipped) -> tuple[str, str, str]:
    sources = ", ".join(request["sources"])
    if not files:
        suffixes = ", ".join(request["suffixes"] or SUFFIXES)
        return (
            f"No text in {sources}: no file there ends in {suffixes}"
            + (f" ({skipped.other_kinds} others do)." if skipped.other_kinds else "."),
            "of a folder, only files of these kinds are read",
            "name other folders, or the files themselves",
        )
    reasons = {
        "not UTF-8": skipped.not_utf8,
        "empty": skipped.empty,
        'without a "text" field': skipped.no_text_field,
    }
    found = "; ".join(f"{len(places)} {reason} ({places[0]}, ...)" for reason, places in reasons.items() if places)
    return (
        f"No text in {sources}: {found or 'nothing in it'}.",
        "texts are UTF-8",
        "convert them, for example with iconv -t UTF-8",
    )


def _previous(out: Path) -> dict[str, Any] | None:
    """The manifest of the data set that is there, None where the place is free. Raises InputError for all else."""
    manifest = out / MANIFEST
    if manifest.is_file():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            content: dict[str, Any] = json.loads(manifest.read_text())
            _ = content["inputs"], content["train"]["files"], content["eval"]["files"]
            return content
    if out.is_dir() and not any(out.iterdir()):
        return None
    if out.exists() or out.is_symlink():
        raise InputError(
            f"{out} exists and is not a data set of this program.", "it would be overwritten", "another --out"
        )
    return None


def _complete(out: Path, manifest: dict[str, Any]) -> bool:
    files = {**manifest["train"]["files"], **manifest["eval"]["files"]}
    return (out / "tokenizer").is_dir() and all(
        (out / name).is_file() and (out / name).stat().st_size == size for name, size in files.items()
    )


@contextlib.contextmanager
def _folder_beside(out: Path) -> Iterator[Path]:
    """A new folder on the same file system as `out`, gone at the end, with those that killed processes left there."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for left in out.parent.glob(f".{out.name}.*.partial"):
            with contextlib.suppress(OSError), _locked(left):
                shutil.rmtree(left)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
    except OSError as error:
        raise InputError(f"{out.parent} cannot be written: {error.strerror}.", "", "another --out") from None
    try:
        with _locked(folder):
            folder.chmod(0o755)  # mkdtemp's is private, and other users' runs read it
            yield folder
    except OSError as error:
        raise InputError(f"{out} could not be written: {error}.", "", "free space, or another --out") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, which ends with the process. Raises OSError where another process has it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _publish(folder: Path, out: Path) -> None:
    """Puts the finished folder in the place of `out`, whose old content goes."""
    if out.exists():
        old = folder.with_suffix(".old")
        out.rename(old)
        folder.rename(out)
        shutil.rmtree(old)
    else:
        folder.rename(out)


def _write_values(folder: Path, manifest: dict[str, Any], name: str) -> None:
    def below(path: str) -> str:
        return json.dumps(f"{name}/{path}")

    _write_text(
        folder / VALUES,
        f"""\
# This data set, for `helm install -f` and `driver local -f`. The paths are below storage.mountPath: on a cluster, copy
# the folder into the bucket as it is called here (gcloud storage cp -r {name} gs://BUCKET/); for `driver local`, it
# belongs in the --out folder.
data:
  kind: grain
  trainFiles: {below("train-*.array_record")}
  evalFiles: {below("eval-*.array_record") if manifest["eval"]["files"] else '""'}
  fileType: arrayrecord
  tokenized: true
  packing: false
  tokenizer:
    type: huggingface
    path: {below("tokenizer")}
job:
  maxtext:
    max_target_length: {manifest["sequenceLength"]}
    # vocab_size must be at least {manifest["vocabularySize"]}; a model_name brings its own.
""",
    )


def _write_text(file: Path, content: str) -> None:
    if not file.exists() or file.read_text() != content:
        file.write_text(content)


def _size(documents: Sequence[Document]) -> int:
    return sum(document.text_bytes for document in documents)


class _Progress:
    """Reports at most ten times a second."""

    def __init__(self, stage: str, total: int | None, report: Report) -> None:
        self._line = {"event": "progress", "stage": stage, "done": 0, "total": total}
        self._report = report
        self._next = 0.0

    def advance(self, size: int) -> None:
        self._line["done"] += size  # type: ignore[operator]
        if time.monotonic() >= self._next:
            self._report(self._line)
            self._next = time.monotonic() + 0.1


def _print_line(line: dict[str, Any]) -> None:
    try:
        print(json.dumps(line), flush=True)
    except BrokenPipeError:  # whoever asked is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered
        raise SystemExit(1) from None


if __name__ == "__main__":
    sys.exit(main())
