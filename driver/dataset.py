"""Text into a data set for data.kind grain: asks the trainer's environment, which has the libraries, to make it.

The work is in trainer/data_prepare.py, a program of its own that speaks JSON lines.
"""

import contextlib
import json
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from driver import resources
from driver.errors import DriverError
from driver.local.machine import DIES_WITH_PARENT, environment


@dataclass(frozen=True)
class Request:
    """What to make. Sizes are in tokens; suffixes None stands for the trainer's own list of text files."""

    sources: Sequence[str]
    out: str
    tokenizer: str = "byte"
    sequenceLength: int = 256  # noqa: N815  # the names are those of the request's JSON
    evalFraction: float = 0.05  # noqa: N815
    seed: int = 0
    replace: bool = False
    suffixes: Sequence[str] | None = None
    without: Sequence[str] = field(default=("__pycache__",))


def python_stdlib() -> dict[str, Any]:
    """The fields of a Request for the running Python's own library: 10 MB of text that every machine has."""
    return {
        "sources": [sysconfig.get_path("stdlib")],
        "suffixes": [".py"],
        "without": ["__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"],
    }


def prepare(request: Request, python: Path, progress: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
    """Makes the data set and returns the trainer's result: out, unchanged, skipped and manifest.

    progress is told {"stage": "reading" or "writing", "done": bytes, "total": bytes or None}. Raises a DriverError
    where the texts, the settings or the place do not allow it.
    """
    command = [*DIES_WITH_PARENT, str(python), "-B", str(resources.trainer_dir() / "data_prepare.py")]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(python, {"HF_HUB_OFFLINE": "1"}),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        last: dict[str, Any] = {}
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                json.dump(asdict(request), process.stdin)
            for line in process.stdout:
                if not line.startswith("{"):
                    continue  # a library has something to say
                last = json.loads(line)
                if last["event"] == "progress":
                    progress(last)
        finally:
            process.stdout.close()  # on an interrupt: it tidies up and ends
            process.wait()
        if last.get("event") == "result":
            return last
        if last.get("event") == "error":
            raise DriverError(last["found"], rule=last["rule"], fix=last["fix"])
        errors.seek(0)
        said = errors.read().strip().splitlines() or ["it said nothing"]
        raise DriverError(f"{python} could not make the data set: {said[-1]}", fix="see `driver data prepare --help`")
