"""The run file's `data` section: as MaxText arguments, the rules that it must keep, and whether its files fit the run.

Needs neither JAX nor MaxText, so that the head and the driver can ask before anything is started. What the input
pipeline does with the arguments, and what of it has to be mended, is in data_iterator.py.
"""

import glob
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KINDS = ("synthetic", "grain", "hf")
FILE_TYPES = ("arrayrecord", "parquet", "tfrecord")

HUB_PREFIX = "hf://"
"""Marks a tokenizer path that is a repository on the Hugging Face hub and not a folder."""

ENDLESS = 1_000_000
"""Passes over the data where the steps say when to stop. (MaxText wants a number; Grain would take None.)"""

MANIFEST = "dataset.json"
"""What `driver data prepare` writes beside the files: the sequence length, the vocabulary size and more."""

OWNED = frozenset(
    {
        *("dataset_type", "data_shuffle_seed", "num_epoch", "packing", "expansion_factor_real_data"),
        *("tokenizer_type", "tokenizer_path", "tokenize_train_data", "tokenize_eval_data"),
        *("grain_train_files", "grain_eval_files", "grain_train_mixture_config_path", "grain_file_type"),
        "grain_use_elastic_iterator",
        *("hf_path", "hf_name", "hf_train_files", "hf_eval_files", "hf_eval_split"),
        *("eval_interval", "eval_steps", "generate_padding_batch_train", "generate_padding_batch_eval"),
    }
)
"""MaxText arguments that only the `data` section may set."""

DEFAULTS: Mapping[str, object] = {
    # Threads of the training process read and tokenize. A reader process of its own (MaxText's default is 1) imports
    # JAX and MaxText once more on every host and buys nothing for text.
    "grain_worker_count": 0,
    "grain_worker_count_eval": 0,
}
"""Arguments with a better value than MaxText's own; a run's `maxtext` section may replace them."""


def arguments(data: Mapping[str, Any], *, slices: int, max_slices: int, elastic: bool) -> dict[str, object]:
    """The MaxText arguments that `data` decides, for a start with `slices` of `max_slices` slices.

    Every size of an elastic run evaluates on the same held-out sequences: evalSteps counts batches at full size, and
    MaxText's evaluation batch shrinks with the number of devices (gradient accumulation does not apply to it).

    Raises ValueError as `validate` does.
    """
    validate(data, elastic=elastic)
    every = data["evalEverySteps"]
    result: dict[str, object] = {
        "dataset_type": data["kind"],
        "data_shuffle_seed": data["shuffleSeed"],
        "eval_interval": every or -1,
        "eval_steps": -(-data["evalSteps"] * max_slices // slices) if every else -1,
    }
    if data["kind"] == "synthetic":
        return result
    tokenizer = data["tokenizer"]
    result |= {
        "tokenizer_type": tokenizer["type"] or "huggingface",
        "tokenizer_path": tokenizer["path"].removeprefix(HUB_PREFIX),
        "tokenize_train_data": not data["tokenized"],
        "tokenize_eval_data": not data["tokenized"],
        "packing": data["packing"],
        # A host whose share of the held-out data ends first would leave the others waiting in a collective; padding
        # carries no weight in the loss.
        "generate_padding_batch_eval": bool(every),
    }
    if data["kind"] == "grain":
        return result | {
            "grain_train_files": data["trainFiles"],
            # MaxText reads an empty value as None, and refuses it.
            **({"grain_eval_files": data["evalFiles"]} if data["evalFiles"] else {}),
            "grain_file_type": data["fileType"],
            "grain_use_elastic_iterator": resizable(data),
            "num_epoch": data["epochs"] or ENDLESS,
        }
    hub = data["hf"]
    return result | {
        "hf_path": hub["path"],
        "hf_name": hub["name"],
        "hf_train_files": hub["trainFiles"],
        "hf_eval_files": hub["evalFiles"],
        "hf_eval_split": hub["evalSplit"],
        # MaxText lays all passes out in memory before the first step, so "as many as needed" cannot be had here.
        "num_epoch": data["epochs"] or 1,
    }


def check_files(data: Mapping[str, Any], maxtext: Mapping[str, Any]) -> None:
    """Looks whether the files are there, and whether they fit the model as far as `maxtext`, the run's own, tells.

    Only what is below a mounted path is looked at. Raises ValueError; on a worker the same mistake would be tried as
    often as failures are allowed.
    """
    if data["kind"] == "synthetic":
        return
    if data["kind"] == "grain":
        for key in ("trainFiles", "evalFiles") if data["evalEverySteps"] else ("trainFiles",):
            for pattern in data[key].split(";"):
                pattern = pattern.rpartition(",")[0] or pattern  # of a mixture: PATTERN,WEIGHT
                _require(
                    "://" in pattern or bool(glob.glob(pattern)),  # noqa: PTH207  # as MaxText does
                    f"data.{key} is {pattern}, and no file matches it",
                    "it is a pattern of files below storage.mountPath",
                    "copy the data there, or correct the pattern",
                )
        check_manifest(
            data["trainFiles"], maxtext.get("max_target_length"), maxtext.get("vocab_size"), bool(data["tokenized"])
        )
    tokenizer = data["tokenizer"]["path"]
    _require(
        not tokenizer.startswith("/") or Path(tokenizer).exists(),
        f"data.tokenizer.path is {tokenizer}, which does not exist",
        "it is below storage.mountPath, or hf://ORGANISATION/NAME on the hub",
        "copy the tokenizer there, or correct the path",
    )


def check_manifest(files: str, sequence_length: int | None, vocab_size: int | None, tokenized: bool) -> None:
    """Compares what `driver data prepare` noted beside the files with the model; without a note nothing is checked.

    Raises ValueError: MaxText cuts longer sequences off and JAX clamps token ids that are out of range, in silence.
    """
    path = Path(files).parent / MANIFEST
    if not path.is_file():
        return
    manifest = json.loads(path.read_text())
    length, vocabulary = manifest["sequenceLength"], manifest["vocabularySize"]
    _require(
        tokenized,
        f"{path} says that the records hold token ids, and data.tokenized is false",
        "MaxText would look for text",
        "set data.tokenized: true",
    )
    _require(
        sequence_length is None or sequence_length >= length,
        f"{path}: sequences have {length} tokens, and the model reads {sequence_length}",
        "the rest of each would be lost",
        f"set job.maxtext.max_target_length: {length}, or prepare the data with --sequence-length {sequence_length}",
    )
    _require(
        vocab_size is None or vocab_size >= vocabulary,
        f"{path}: the tokenizer has {vocabulary} token ids, and the model {vocab_size}",
        "the model needs one for each",
        f"set job.maxtext.vocab_size: {-(-vocabulary // 128) * 128}, or take the tokenizer that belongs to the model",
    )


def resizable(data: Mapping[str, Any]) -> bool:
    """Whether a checkpoint's place in the data can be taken up by another number of hosts."""
    if data["kind"] == "synthetic":
        return True
    return not _obstacles(data)


def validate(data: Mapping[str, Any], *, elastic: bool) -> None:
    """Raises ValueError (what was found, the rule, the fix) where `data` contradicts itself or the run."""
    kind = data["kind"]
    _require(kind in KINDS, f"data.kind is {kind!r}", f"it is one of {', '.join(KINDS)}", "set data.kind")
    every, steps = data["evalEverySteps"], data["evalSteps"]
    _require(
        not every or steps >= 1,
        f"data.evalEverySteps is {every} and data.evalSteps is {steps}",
        "an evaluation reads a fixed number of batches, at least 1, or hosts that run out of data early would wait for "
        "each other for ever",
        "set data.evalSteps, or data.evalEverySteps: 0 for no evaluation",
    )
    _require(data["epochs"] >= 0, f"data.epochs is {data['epochs']}", "it is 0 or more", "set data.epochs: 0")
    if kind != "synthetic":
        _validate_real(data)
    if elastic and kind != "synthetic":
        for found, fix in _obstacles(data):
            _require(
                False,
                f"{found} in an elastic run (elastic.enabled)",
                "the place in the data can then not be taken up by another number of hosts: examples would be "
                "repeated or skipped",
                f"{fix}, or set elastic.enabled: false",
            )


def _validate_real(data: Mapping[str, Any]) -> None:
    kind, every = data["kind"], data["evalEverySteps"]
    files = data if kind == "grain" else data["hf"]
    _require(
        bool(data["tokenizer"]["path"]),
        f"data.kind is {kind} and data.tokenizer.path is empty",
        "real text needs a tokenizer: a folder with tokenizer.json, or hf://ORGANISATION/NAME on the hub",
        "set data.tokenizer.path (`driver data prepare` makes a tokenizer and the values for it)",
    )
    if kind == "grain":
        file_type = data["fileType"]
        _require(
            file_type in FILE_TYPES,
            f"data.fileType is {file_type!r}",
            f"it is one of {', '.join(FILE_TYPES)}",
            "set data.fileType",
        )
        _require(
            bool(data["trainFiles"]),
            "data.kind is grain and data.trainFiles is empty",
            "it is a file pattern below storage.mountPath",
            "set data.trainFiles, for example my-text/train-*.array_record",
        )
        _require(
            not every or bool(data["evalFiles"]),
            f"data.evalEverySteps is {every} and data.evalFiles is empty",
            "evaluation reads files of its own",
            "set data.evalFiles, or data.evalEverySteps: 0 for no evaluation",
        )
        return
    _require(
        bool(files["path"]),
        "data.kind is hf and data.hf.path is empty",
        "it is a data set on the Hugging Face hub, or json, parquet, csv or text for files of one's own",
        "set data.hf.path",
    )
    _require(
        data["tokenizer"]["type"] in ("", "huggingface"),
        f"data.tokenizer.type is {data['tokenizer']['type']!r} with data.kind hf",
        "MaxText's hf pipeline reads Hugging Face tokenizers only",
        "set data.tokenizer.type: huggingface, or data.kind: grain",
    )
    _require(
        not every or bool(files["evalSplit"]),
        f"data.evalEverySteps is {every} and data.hf.evalSplit is empty",
        "evaluation needs the name of a split (train, where data.hf.evalFiles names files of one's own)",
        "set data.hf.evalSplit, or data.evalEverySteps: 0 for no evaluation",
    )


def _obstacles(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What ties the place in the data to one number of hosts, each with what would lift it."""
    if data["kind"] == "hf":
        return [("data.kind is hf, whose place in the data MaxText does not save", "set data.kind: grain")]
    found = []
    if data["fileType"] != "arrayrecord":
        found.append((f"data.fileType is {data['fileType']}", "set data.fileType: arrayrecord"))
    if data["packing"]:
        found.append(
            (
                "data.packing is true",
                "set data.packing: false (what `driver data prepare` writes needs no packing)",
            )
        )
    if ";" in data["trainFiles"]:
        found.append(("data.trainFiles is a mixture (it has a `;`)", "name one pattern"))
    return found


def _require(holds: bool, found: str, rule: str, fix: str) -> None:
    if not holds:
        raise ValueError(f"{found}: {rule}. Fix: {fix}.")
