"""The trainer's environment, which the tests of this folder share."""

import os
from pathlib import Path

import pytest

from driver.local import environment


@pytest.fixture(scope="session")
def trainer_python() -> Path:
    """The Python that runs the trainer: TRAINER_PYTHON, or the driver's own environment, installed if need be."""
    given = os.environ.get("TRAINER_PYTHON")
    return environment.trainer_python(Path(given) if given else None)
