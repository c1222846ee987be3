"""Training steps that `driver plan --save-executable` compiled: which one a worker loads, or why it loads none.

A file that does not match is no failure: MaxText then compiles as it always does, and one line says what differs. All
processes of a group must do the same, since a program that was loaded and one that was compiled need not meet in their
collectives. Each process reads the folder, because MaxText does so too and a mount may fail on one host alone; then
they exchange what they found, and load only if all found the same file. The head decides nothing: it knows neither what
the workers have mounted nor what is installed there.

That a TPU loads such a file is unverified: there was none.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import emulation
import trainstep_manifest
from run import Run

_LONGEST = 1000
"""Bytes of what one process tells the others."""

Exchange = Callable[[str], Sequence[str]]
"""Gives a process the texts of all processes, its own among them."""


class Found(NamedTuple):
    """path: the file for this number of slices. digest: its sha256. refused: why it may not be loaded, else empty."""

    path: Path
    digest: str
    refused: str


def choose(run: Run, slices: int) -> str:
    """MaxText's compiled_trainstep_file for this group, the same on all of its processes; empty to compile.

    To be called by every process of the group, after jax.distributed has begun. Process 0 prints the choice.
    """
    if not run.compiled_trainsteps_directory:
        return ""
    refused = _never(run)
    if refused:
        _tell(f"compiled here, because {refused}")
        return ""
    found = find(run, slices)
    refused = agree(found, _process(), exchange)
    _tell(f"compiled here, because {refused}" if refused else f"loaded from {found.path}")
    return "" if refused else str(found.path)


def find(run: Run, slices: int) -> Found:
    """What this process finds for so many slices. What cannot be read is refused, not raised."""
    folder = Path(run.compiled_trainsteps_directory)
    path = folder / trainstep_manifest.file_name(run, slices)
    manifest = path.with_name(f"{path.name}.json")
    own = trainstep_manifest.program(run, slices)
    try:
        content = json.loads(manifest.read_text())
        differs = trainstep_manifest.difference(content, own)
        if differs:
            return Found(path, "", f"{path} is another program: {differs}")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        refused = "" if digest == content["sha256"] else f"{path} is not the file that {manifest.name} was written for"
    except FileNotFoundError as error:
        missing = f"{folder} has no {Path(error.filename).name}" if folder.is_dir() else f"there is no folder {folder}"
        return Found(path, "", missing)
    except OSError as error:
        return Found(path, "", f"{error.filename or path} cannot be read: {error.strerror or error}")
    except (ValueError, LookupError, TypeError, AttributeError):
        return Found(path, "", f"{manifest} is not the manifest of a training step")
    return Found(path, digest, refused)


def agree(found: Found, process: int, exchange: Exchange) -> str:
    """Why the group compiles, the same on every process; empty if all of them found the same file."""
    texts = exchange(f"{process}\n{found.digest}\n{found.refused}")
    answers = sorted((int(number), digest, refused) for number, digest, refused in (t.split("\n", 2) for t in texts))
    for number, _, refused in answers:
        if refused:
            return refused if number == 0 else f"{refused} (on process {number})"
    if len({digest for _, digest, _ in answers}) > 1:
        return f"{found.path} is not the same file on all hosts"
    return ""


def install() -> None:
    """Lets MaxText compile where it cannot load the file that was chosen: then no process loads it, and one line says
    why. What fails later, in the first step, is not caught. Made for MaxText 0.2.5."""
    from maxtext.utils import train_utils

    load = train_utils.jit_train_step
    if getattr(load, "_compiles_instead", False):
        return

    def load_or_compile(config: Any, *rest: Any, **named: Any) -> Any:
        if not config.compiled_trainstep_file:
            return load(config, *rest, **named)
        path = Path(config.compiled_trainstep_file)
        try:
            step, refused = load(config, *rest, **named), ""
        except Exception as error:  # noqa: BLE001  # whatever pickle, JAX, PJRT and libtpu raise
            step, refused = None, f"{path} cannot be loaded: {type(error).__name__}: {' '.join(str(error).split())}"
        refused = agree(Found(path, "", refused), _process(), exchange)
        if not refused:
            return step
        _tell(f"compiled here after all, because {refused}")
        return load(_without_file(config), *rest, **named)

    load_or_compile._compiles_instead = True  # type: ignore[attr-defined]
    train_utils.jit_train_step = load_or_compile


def exchange(text: str) -> list[str]:
    """The texts of all processes, cut to 1000 bytes each. A collective: every process must call it."""
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    own = np.zeros(_LONGEST, np.uint8)
    said = text.encode()[:_LONGEST]
    own[: len(said)] = list(said)
    rows = np.asarray(multihost_utils.process_allgather(own)).reshape(jax.process_count(), _LONGEST)
    return [bytes(row).rstrip(b"\0").decode(errors="ignore") for row in rows]


def _never(run: Run) -> str:
    """Why this run could load no file whatever; empty if it could."""
    if run.tpu.emulated:
        return emulation.NO_SAVED_STEP
    if run.data.eval_every_steps:  # MaxText 0.2.5 then has no evaluation step, and calls it (train_utils.jit_eval_step)
        return "MaxText cannot evaluate (data.evalEverySteps) beside a step that it loaded"
    return ""


def _without_file(config: Any) -> Any:
    return type(config)(config._pydantic_config.model_copy(update={"compiled_trainstep_file": ""}))


def _process() -> int:
    import jax

    return int(jax.process_index())


def _tell(choice: str) -> None:
    if _process() == 0:
        print(f"training step: {choice}", flush=True)
