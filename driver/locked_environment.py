"""Makes a Python environment in the user's cache from a lock of the trainer's, with uv and progress on stderr."""

import subprocess
import sys
from pathlib import Path

import uv

from driver.errors import DriverError
from driver.local.machine import DIES_WITH_PARENT
from driver.output import stderr

_PYTHON = (3, 12)  # the locks are for this one


def install(lock: Path, venv: Path, name: str, fix: str) -> None:
    """Makes the environment anew, whatever is there.

    Args:
        lock: requirements, as uv writes them.
        name: what it is called in front of people: `the trainer's environment`.
        fix: what else one can do, for when it cannot be made.

    Raises:
        DriverError: with uv's own words.
    """
    packages = sum("==" in line for line in lock.read_text().splitlines() if line[:1].isalnum())
    python = sys.executable if sys.version_info[:2] == _PYTHON else ".".join(map(str, _PYTHON))
    console = stderr()
    console.print(f"Installing {name}, once: {packages} packages, into {venv}", soft_wrap=True)
    with console.status("uv") as status:
        for step in (
            ["venv", "--clear", "--no-project", "--python", python, str(venv)],
            # Compiled now, or all processes of the first start compile the same modules at once.
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
                    rule="It needs Python 3.12, a package index and room on the disk.",
                    fix=f"mend what uv names; or {fix}",
                )
