"""What the trainer's image is built from."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from driver import resources
from driver.errors import DriverError
from driver.gcp import build_source

TRAINER = resources.trainer_dir()


@pytest.fixture
def folder(tmp_path):
    copy = tmp_path / "trainer"
    copy.mkdir()
    for name in build_source.FILES:
        shutil.copy(TRAINER / name, copy)
    return copy


def test_it_has_everything_that_the_dockerfile_copies():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (TRAINER / "Dockerfile").read_text(), re.MULTILINE)
    assert copied
    assert {name for line in copied for name in line.split()} | {"Dockerfile"} == set(build_source.FILES)


def test_the_same_contents_have_the_same_bytes_and_hash_whatever_their_times_and_modes(folder):
    first = build_source.pack(TRAINER)
    for file in folder.iterdir():
        os.utime(file, (1, 1))
        file.chmod(0o600)
    assert build_source.pack(folder) == first


def test_another_content_has_another_hash(folder):
    first = build_source.pack(folder)
    with (folder / "requirements.txt").open("a") as file:
        file.write("\n")
    assert build_source.pack(folder).hash != first.hash


def test_other_files_of_the_trainer_do_not_change_it(folder):
    first = build_source.pack(folder)
    (folder / "train.py").write_text("print()\n")
    assert build_source.pack(folder) == first


def test_the_script_lays_out_the_very_files(folder, tmp_path):
    place = tmp_path / "workspace"
    place.mkdir()
    subprocess.run(["bash", "-c", build_source.pack(folder).unpack_script()], cwd=place, check=True)
    assert {file.name: file.read_bytes() for file in place.iterdir()} == {
        file.name: file.read_bytes() for file in folder.iterdir()
    }


def test_the_script_is_small_enough_for_a_request():
    """Cloud Build refuses arguments of more than 10,000 characters; of scripts it has no such rule, and this holds that
    one too."""
    assert len(build_source.pack(TRAINER).unpack_script()) < 10_000


def test_a_folder_without_a_dockerfile_is_told_with_what_mends_it(tmp_path):
    with pytest.raises(DriverError) as told:
        build_source.pack(Path(tmp_path))
    assert str(tmp_path / "Dockerfile") in told.value.found
    assert "install" in told.value.fix
