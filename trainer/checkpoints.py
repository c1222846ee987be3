"""Which checkpoints of a run are whole. Reads files only, so that the head needs neither JAX nor Orbax."""

import json
from pathlib import Path


def last_complete(folder: Path) -> int:
    """The newest step with a whole checkpoint below `folder`, or -1.

    Whole means: Orbax (0.11 and 0.12) has given it its final name, stamped its commit time, and its items carry
    their metadata. A save that was cut short keeps a temporary name or lacks the stamp.
    """
    return max((step for step in _steps(folder) if is_complete(folder / str(step))), default=-1)


def is_complete(checkpoint: Path) -> bool:
    try:
        metadata = json.loads((checkpoint / "_CHECKPOINT_METADATA").read_text())
    except (OSError, ValueError):
        return False
    if not isinstance(metadata, dict) or not metadata.get("commit_timestamp_nsecs"):
        return False
    items = checkpoint / "items"
    return _has_content(items / "_METADATA") and (_has_content(items / "manifest.ocdbt") or _has_arrays(items))


def _steps(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _has_arrays(items: Path) -> bool:
    """Checkpoints with checkpoint_storage_use_ocdbt=false keep one folder an array."""
    return any(path.is_dir() for path in items.iterdir())
