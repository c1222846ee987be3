"""A place of its own for each `driver local`: the folder it works in, and the run that is its alone.

Locks belong to the process and vanish with it, so a killed driver's folder is told from a living one's and removed by
the next.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from driver import resources
from driver.errors import DriverError

_PREFIX = "driver-local-"


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """A new temporary folder, removed at the end, after those that killed drivers left have been removed."""
    cache = resources.cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "local.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            if left.stat().st_uid == os.geteuid() and _is_free(left / "lock"):
                shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = _locked(folder / "lock")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.close()


@contextlib.contextmanager
def sole_user(run_folder: Path) -> Iterator[None]:
    """Holds a run's folder against other drivers, and makes it if need be.

    Raises a DriverError when it cannot be written or another `driver local` trains this run.
    """
    try:
        run_folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(run_folder / ".driver-local.lock")
    except OSError as error:
        raise DriverError(
            f"{run_folder} cannot be written: {error.strerror or error}.",
            rule="Checkpoints, progress and logs of the run go there.",
            fix="--out FOLDER, one that you may write to",
        ) from error
    if lock is None:
        raise DriverError(
            f"Another `driver local` is training this run: {run_folder} is in use.",
            rule="Two jobs must not write one run.",
            fix="wait for it, or choose another --out or --set job.runName=NAME",
        )
    with lock:
        yield


def _locked(path: Path) -> IO[str] | None:
    """The open and locked file; None when another process holds it."""
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _is_free(path: Path) -> bool:
    lock = _locked(path)
    if lock is not None:
        lock.close()
    return lock is not None
