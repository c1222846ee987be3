"""Each `driver local` has a place of its own, and a killed one's is cleared away."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from driver.errors import DriverError
from driver.local.session import sole_user, working_folder

HOLD = """
import sys, time
from pathlib import Path
from driver.local.session import sole_user, working_folder
with sole_user(Path(sys.argv[1])), working_folder() as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def other(tmp_path):
    """Another driver that trains the run in `tmp_path/run`, and the folder it works in."""
    repository = str(Path(__file__).parents[2])
    environ = os.environ | {"PYTHONPATH": repository}
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    yield process, Path(process.stdout.readline().strip())
    process.kill()


def test_the_working_folder_is_gone_in_the_end():
    with working_folder() as folder:
        (folder / "file").touch()
    assert not folder.exists()


def test_a_living_drivers_folder_is_left_alone(other):
    _, folder = other
    with working_folder():
        assert folder.is_dir()


def test_a_killed_drivers_folder_is_removed_by_the_next(other):
    process, folder = other
    process.kill()
    process.wait()
    assert folder.is_dir()
    with working_folder():
        assert not folder.exists()


def test_a_run_has_one_driver_at_a_time(other, tmp_path):
    process, _ = other
    with pytest.raises(DriverError, match="Another `driver local` is training this run"), sole_user(tmp_path / "run"):
        pass
    process.kill()
    process.wait()
    with sole_user(tmp_path / "run"):
        time.sleep(0)


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DriverError, match="cannot be written: Not a directory"), sole_user(tmp_path / "file" / "run"):
        pass
