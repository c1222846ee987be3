"""The compiler's Python environment on this machine: MaxText, JAX and libtpu as in the trainer's image, without Ray.

Made once from its lock and kept in the user's cache. libtpu is published for Linux on x86-64 alone.
"""

import contextlib
import fcntl
import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from driver import locked_environment, resources
from driver.errors import USAGE, DriverError
from driver.local.machine import DIES_WITH_PARENT, environment
from driver.output import stderr

LOCK = "requirements-plan.txt"
CONTAINER = (
    'docker run --rm -it --platform linux/amd64 -v "$PWD":/work -w /work python:3.12-bookworm'
    " sh -c 'pip install . && python scripts/fetch-tools helm && driver plan ...'"
)
"""From a checkout, on a machine whose containers may be of another platform than its own."""

_PACKAGES = ("maxtext", "jax", "jaxlib", "libtpu", "flax")  # trainstep_manifest.PACKAGES

# By the installer's own list (RECORD), whose sizes tell a file that was cut off. Longer ones are let be: some add their
# certificates to certifi's. Distribution.files leaves out what is missing.
_VERIFY = """
import csv, importlib.metadata as m, json, os, re
def normal(name): return re.sub("[-_.]+", "-", name).lower()
def verify(wanted):
    found = {normal(d.name): d for d in m.distributions()}
    wrong = []
    for name, version in wanted:
        there = found.get(normal(name))
        if there is None or there.version != version:
            wrong.append(f"{name} {version} is not there")
            continue
        for path, _, size in csv.reader((there.read_text("RECORD") or "").splitlines()):
            file = str(there.locate_file(path))
            if not os.path.exists(file):
                wrong.append(f"{file} is missing")
            elif size and os.path.getsize(file) < int(size):
                wrong.append(f"{file} has {os.path.getsize(file)} bytes of {size}")
    print(json.dumps(wrong))
"""
_PACKAGES_OF = """
import importlib.metadata as m, json
def tell(names):
    found = sorted({f"{d.name} {d.version}" for d in m.distributions()})
    print(json.dumps([found, [n for n in names if m.distribution(n).read_text("direct_url.json")]]))
"""


def require_platform() -> None:
    """Raises a DriverError where libtpu's compiler does not run, with the command that makes it run."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        raise DriverError(
            f"driver plan needs Linux on x86-64; this is {system} on {machine}.",
            rule="The TPU compiler (libtpu) is published for that platform alone.",
            fix=f"in a checkout: {CONTAINER}",
        )


def is_installed() -> bool:
    """Whether a compilation could begin at once."""
    return (_folder() / "complete").exists()


def compiler_python(given: Path | None = None) -> Path:
    """The interpreter that compiles: the given one, or that of the cached environment.

    The first call after the lock has changed installs it, with progress on stderr. An interrupted installation is begun
    again, and two at once wait for each other. Raises a DriverError when it cannot be had.
    """
    require_platform()
    if given is not None:
        return given
    with _alone():
        if not is_installed():
            _make()
    return _python()


def install() -> bool:
    """Installs the cached environment, or verifies the one that is there, and sets it up anew where it is damaged.

    Returns whether it was installed now. Raises a DriverError when it cannot be had.
    """
    require_platform()
    with _alone():
        if is_installed():
            try:
                verify(_python())
            except DriverError as damage:
                stderr().print(damage.found, markup=False, soft_wrap=True)
            else:
                return False
        _make()
    return True


def verify(python: Path) -> None:
    """Raises a DriverError where a package of the lock, or one of its files, is not there or cut off."""
    wanted = re.findall(
        r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;]+)", (resources.trainer_dir() / LOCK).read_text(), re.MULTILINE
    )
    wrong = json.loads(_ask(python, f"{_VERIFY}\nverify({wanted!r})"))
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise DriverError(f"The compiler's environment is damaged: {wrong[0]}{more}.", fix="driver plan --install")


def packages(python: Path) -> tuple[str, bool]:
    """A digest of the names and versions of all that is installed there, and whether these say what MaxText, JAX and
    libtpu are: what was installed from a folder or an address may be edited, or be another one, under the same version.
    """
    names, moved = json.loads(_ask(python, f"{_PACKAGES_OF}\ntell({_PACKAGES!r})"))
    return hashlib.sha256(json.dumps(names).encode()).hexdigest(), not moved


def versions(python: Path) -> dict[str, str]:
    """The versions of what decides about a compiled program. Raises a DriverError when one is missing."""
    code = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {_PACKAGES!r}}}))"
    found: dict[str, str] = json.loads(_ask(python, code))
    return found


def maxtext_configs(python: Path) -> Path:
    """The folder of MaxText's own configuration files: base.yml, models/*.yml. Raises a DriverError without MaxText."""
    code = "import importlib.util as u; print(list(u.find_spec('maxtext').submodule_search_locations)[0])"
    folder = Path(_ask(python, code).strip()) / "configs"
    if not (folder / "base.yml").is_file():
        raise DriverError(
            f"{python} is of no environment with MaxText: there is no {folder / 'base.yml'}.",
            rule="The model's sizes are read from MaxText's own configurations.",
            fix="the interpreter of a virtual environment that has MaxText, or leave --compiler-python out",
            exit_code=USAGE,
        )
    return folder


def check_versions(run: Mapping[str, Any], found: Mapping[str, str]) -> None:
    """Raises a DriverError when the run is for another MaxText than the one that compiles it: what is made for the
    cluster (an executable, a team file) would be of no use there."""
    wanted = run["versions"]["maxtext"]
    if wanted != found["maxtext"]:
        raise DriverError(
            f"The run is for MaxText {wanted}, and the compiler's environment has {found['maxtext']}.",
            rule="Another version is another program, with other memory and time.",
            fix=f"--set maxtextVersion={found['maxtext']}, or name an environment with MaxText {wanted} with"
            " --compiler-python",
            exit_code=USAGE,
        )


def _folder() -> Path:
    lock = resources.trainer_dir() / LOCK
    return resources.cache_dir() / "compiler" / hashlib.sha256(lock.read_bytes()).hexdigest()[:12]


def _python() -> Path:
    return _folder() / "venv" / "bin" / "python"


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Two drivers do not install at once."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _make() -> None:
    complete = _folder() / "complete"
    complete.unlink(missing_ok=True)
    fix = "name an environment that has MaxText and libtpu with --compiler-python"
    lock = resources.trainer_dir() / LOCK
    locked_environment.install(lock, _folder() / "venv", "the TPU compiler's environment", fix)
    complete.touch()


def _ask(python: Path, code: str) -> str:
    command = [*DIES_WITH_PARENT, str(python), "-c", code]
    result = subprocess.run(command, env=environment(python), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DriverError(
            f"{python} cannot compile for TPUs: {last}",
            rule=f"It needs {', '.join(_PACKAGES)}.",
            fix=f"driver plan --install for the environment in the cache; another one has to have the trainer's {LOCK}",
            exit_code=USAGE,
        )
    return result.stdout
