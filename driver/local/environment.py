"""The trainer's Python environment on this machine: made once from the trainer's lock, kept in the user's cache."""

import fcntl
import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver import locked_environment, resources
from driver.errors import USAGE, DriverError
from driver.local.machine import DIES_WITH_PARENT, environment

LOCK = "requirements-local.txt"


def trainer_python(given: Path | None = None) -> Path:
    """The interpreter that runs Ray and the trainer: the given one, or that of the cached environment.

    The first call after the lock changed installs it, with progress on stderr. An interrupted installation is begun
    again, and two at once wait for each other. Raises a DriverError when it cannot be installed.
    """
    if given is not None:
        if not (given.parent / "ray").is_file():
            raise DriverError(
                f"{given} has no `ray` beside it.",
                rule="--trainer-python is the interpreter of an environment with Ray and MaxText.",
                fix=f"install the trainer's {LOCK} there, or leave the option out",
                exit_code=USAGE,
            )
        return given
    lock = resources.trainer_dir() / LOCK
    key = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    folder = resources.cache_dir() / "trainer" / key
    complete = folder / "complete"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not complete.exists():
            fix = "name an environment that has Ray and MaxText with --trainer-python"
            locked_environment.install(lock, folder / "venv", "the trainer's environment, 1.4 GB", fix)
            complete.touch()
    return folder / "venv" / "bin" / "python"


def versions(python: Path) -> dict[str, str]:
    """The versions of Ray and MaxText in an environment. Raises a DriverError when one is missing."""
    code = "import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in ('ray', 'maxtext')}))"
    result = _run([str(python), "-c", code], python)
    if result.returncode != 0:
        raise DriverError(
            f"{python} lacks Ray or MaxText: {_last_line(result.stderr)}",
            fix=f"install the trainer's {LOCK} there, or leave --trainer-python out",
        )
    found: dict[str, str] = json.loads(result.stdout)
    return found


def check(python: Path, work: Path) -> Mapping[str, Any]:
    """What `train.py --check` says of the run in the folder `work`: `hostMemoryGib` among others.

    Raises a DriverError with the trainer's own words when the run cannot work.
    """
    result = _run([str(python), "train.py", "--check", "run.yaml"], python, work)
    if result.returncode == 0:
        report: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
        return report
    _, told, message = result.stderr.rpartition("run failed: ")
    if told:
        raise DriverError(message.strip(), exit_code=USAGE)
    raise DriverError(f"The trainer could not check the run: {_last_line(result.stderr)}")


def _run(command: list[str], python: Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DIES_WITH_PARENT, *command], cwd=folder, env=environment(python), capture_output=True, text=True, check=False
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
