"""What a run left in its folder (docs/progress.md), read with the trainer's own modules, which need only Python."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def read(work: Path, run_folder: Path) -> Any:
    """The history of a run (`metrics.History`). work: the folder with the trainer's files."""
    return trainer_module(work, "metrics").read(run_folder / "progress")


def last_checkpoint(work: Path, run_folder: Path) -> int:
    """The step of the newest checkpoint that is whole, or -1."""
    return int(trainer_module(work, "checkpoints").last_complete(run_folder / "checkpoints"))


def trainer_module(folder: Path, name: str) -> ModuleType:
    """One of the trainer's modules from this folder, under a name that no other module has."""
    path = folder / f"{name}.py"
    specification = importlib.util.spec_from_file_location(f"maxtext_multislice_{name}", path)
    if specification is None or specification.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up there
    specification.loader.exec_module(module)
    return module
