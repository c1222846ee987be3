"""Whether processes are still there."""

import time
from pathlib import Path


def runs(pid: int) -> bool:
    """Whether the process is there, and not only waiting to be asked for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pid: int, seconds: float = 10) -> None:
    """The kernel's own way to end a process takes a moment."""
    deadline = time.monotonic() + seconds
    while runs(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)
