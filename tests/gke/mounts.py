"""Mounting and unmounting, by the kernel's own calls."""

import ctypes
import os
import re
from pathlib import Path

READ_ONLY = 1
NO_SET_UID = 2
NO_DEVICES = 4
REMOUNT = 32
BIND = 4096
DETACH = 2

_LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError."""
    result = _LIBC.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode() or None
    )
    _raise_for(result, target)


def bind(source: Path, target: Path, read_only: bool) -> None:
    """Shows a folder at another place. Raises OSError, with nothing mounted."""
    mount(str(source), target, flags=BIND)
    try:
        # The kernel takes the flags of a bind mount in a second call only.
        flags = REMOUNT | BIND | NO_SET_UID | NO_DEVICES | (READ_ONLY if read_only else 0)
        mount("", target, flags=flags)
    except OSError:
        unmount(target)
        raise


def unmount(target: Path, flags: int = 0) -> None:
    """umount2(2). Raises OSError."""
    _raise_for(_LIBC.umount2(os.fsencode(target), flags), target)


def mounted(target: Path) -> bool:
    """Whether something is mounted here. os.path.ismount is blind to a bind mount within one file system."""
    return str(target) in mount_points()


def mount_points() -> list[str]:
    """All mount points of this mount namespace; one that has two mounts on it is here twice."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line.split(" ")[4]) for line in lines]


def _raise_for(result: int, target: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))
