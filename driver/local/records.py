"""A run's own records (docs/progress.md), read with the trainer's reader."""

import importlib.util
import sys
from pathlib import Path
from typing import Any


def read(work: Path, run_folder: Path) -> Any:
    """The history of a run (`metrics.History`). work: the folder with the trainer's files."""
    specification = importlib.util.spec_from_file_location("maxtext_multislice_metrics", work / "metrics.py")
    if specification is None or specification.loader is None:
        raise ImportError(str(work / "metrics.py"))
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up there
    specification.loader.exec_module(module)
    return module.read(run_folder / "progress")
