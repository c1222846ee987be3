"""The trainer's Python environment on this machine: made once from the trainer's lock, kept in the user's cache."""

import fcntl
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uv

from driver import resources
from driver.errors import USAGE, DriverError
from driver.local.machine import DIES_WITH_PARENT, environment
from driver.output import stderr

LOCK = "requirements-local.txt"
_PYTHON = (3, 12)  # the lock is for this one


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
            _install(lock, folder / "venv")
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


def _install(lock: Path, venv: Path) -> None:
    packages = sum("==" in line for line in lock.read_text().splitlines() if line[:1].isalnum())
    python = sys.executable if sys.version_info[:2] == _PYTHON else ".".join(map(str, _PYTHON))
    console = stderr()
    console.print(
        f"Installing the trainer's environment, once: {packages} packages, 1.4 GB, into {venv}", soft_wrap=True
    )
    with console.status("uv") as status:
        for step in (
            ["venv", "--clear", "--no-project", "--python", python, str(venv)],
            # Compiled now, or a dozen processes compile the same modules at once when the first run starts.
            ["pip", "install", "--compile-bytecode", "--python", str(venv / "bin" / "python"), "-r", str(lock)],
        ):
            said = ""
            command = [*DIES_WITH_PARENT, uv.find_uv_bin(), *step]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
                for line in process.stderr or ():
                    said += line
                    if line.startswith("Installed"):
                        status.update("Compiling what was installed")
                    elif line.strip() and not line.startswith(" +"):
                        status.update(line.strip())
            if process.returncode != 0:
                raise DriverError(
                    f"uv could not install {lock}:\n{said.strip()}",
                    rule="It needs Python 3.12 and a package index.",
                    fix="mend what uv names; or name an environment that has Ray and MaxText with --trainer-python",
                )


def _run(command: list[str], python: Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DIES_WITH_PARENT, *command], cwd=folder, env=environment(python), capture_output=True, text=True, check=False
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
