"""Folders of drivers that were killed: what they wrote for themselves is of no use to anyone, and can be large."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

_OLD_SECONDS = 24 * 3600.0


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Marks a folder as used; the kernel takes the mark away with this process, however it ends."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: there its age alone decides
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def sweep(within: Path, pattern: str) -> None:
    """Removes this user's folders of that pattern which nothing was added to for a day and nobody uses."""
    for folder in within.glob(pattern):
        with contextlib.suppress(OSError):  # somebody else was faster
            facts = folder.lstat()
            if facts.st_uid == os.getuid() and time.time() - facts.st_mtime > _OLD_SECONDS and not _used(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _used(folder: Path) -> bool:
    """Raises an OSError for what is no folder, or a link to one."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
