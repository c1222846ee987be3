"""`--save-executable`: the compiled training step for each number of slices, with what it was compiled from.

MaxText loads such a file as its `compiled_trainstep_file`. It is for exactly the versions, chips, flags and arguments
that it was compiled with, so each has a manifest beside it, by which a worker can tell before it loads it
(trainer/saved_trainstep.py). That a TPU loads it is unverified: there was none.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.errors import USAGE, DriverError
from driver.plan.request import Configuration
from driver.plan.session import Answer, Compiler, Job

SCHEMA_VERSION = 1
"""trainstep_manifest.SCHEMA_VERSION of the trainer, as file_name is its file_name."""


def file_name(configuration: Configuration) -> str:
    """v6e-4x4-x2.trainstep"""
    shape = configuration.slice
    return f"{shape.type}-{shape.topology}-x{configuration.slices}.trainstep"


def save(
    compiler: Compiler, configurations: Sequence[Configuration], folder: Path, versions: Mapping[str, str]
) -> Iterator[Answer]:
    """Compiles each configuration into a file in `folder`, and passes on the answers, the job's `failed` among them.

    Whatever was there before for the same chips is replaced when the new one is complete. Raises a DriverError when the
    folder cannot be written, or no worker could load what would be in it.
    """
    for configuration in configurations:
        _require_use(configuration.run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for configuration in configurations:
            (folder / f"{file_name(configuration)}.new").write_bytes(b"")
    except OSError as error:
        raise DriverError(
            f"{folder} cannot be written: {error.strerror or error}.",
            rule="--save-executable names a folder for one file per number of slices.",
            fix="name one that you may write to",
            exit_code=USAGE,
        ) from error
    new = {
        compiler.submit(each, "executable", folder / f"{file_name(each)}.new").name: folder / file_name(each)
        for each in configurations
    }
    try:
        for answer in compiler.answers():
            if answer.event == "done" and answer.job.name in new:
                _complete(answer, new[answer.job.name], versions)
            yield answer
    finally:
        for path in new.values():
            path.with_name(f"{path.name}.new").unlink(missing_ok=True)


def manifest(answer: Answer, digest: str, versions: Mapping[str, str]) -> dict[str, Any]:
    """All that must be the same for the executable to be this run's: what the compiler's side says of the program
    (trainer/trainstep_manifest.py, which the workers compare with as well), the versions, and the file's digest."""
    return {"schemaVersion": SCHEMA_VERSION, "versions": dict(versions), **answer.facts["program"], "sha256": digest}


def _require_use(run: Mapping[str, Any]) -> None:
    if run["data"]["evalEverySteps"]:
        raise DriverError(
            f"data.evalEverySteps is {run['data']['evalEverySteps']}, and no worker would load a saved step.",
            rule="MaxText has no evaluation step beside a training step that it loaded.",
            fix="--set data.evalEverySteps=0 for the plan and the run, or leave --save-executable out",
            exit_code=USAGE,
        )


def _complete(answer: Answer, path: Path, versions: Mapping[str, str]) -> None:
    job: Job = answer.job
    assert job.save is not None
    digest = _digest(job.save)
    # The manifest first: an executable with another's manifest is refused by its digest, one without is used by nobody.
    written = path.with_name(f"{path.name}.json")
    written.write_text(json.dumps(manifest(answer, digest, versions), indent=2, sort_keys=True) + "\n")
    job.save.replace(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
