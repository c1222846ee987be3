"""The lock files agree with one another and with what they lock."""

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TRAINER = REPOSITORY / "trainer"
LOCKS = [
    TRAINER / "requirements.txt",
    TRAINER / "requirements-local.txt",
    REPOSITORY / "requirements" / "driver.txt",
    REPOSITORY / "requirements" / "dev.txt",
]


def test_the_emulation_runs_a_part_of_what_the_image_holds_in_the_same_versions():
    image, local = _pins(TRAINER / "requirements.txt"), _pins(TRAINER / "requirements-local.txt")
    assert local.items() <= image.items()
    assert "libtpu" in image
    assert "libtpu" not in local


def test_the_tests_run_with_the_versions_that_the_driver_is_locked_to():
    driver, dev = (_pins(REPOSITORY / "requirements" / name) for name in ("driver.txt", "dev.txt"))
    assert driver.items() <= dev.items()


@pytest.mark.parametrize("source", ["requirements.in", "requirements-local.in"])
def test_the_trainer_locks_hold_what_their_sources_ask_for(source):
    pins = _pins((TRAINER / source).with_suffix(".txt"))
    for name, version in _named(TRAINER / source).items():
        assert name in pins
        assert version in ("", pins[name])


def test_the_driver_lock_holds_every_dependency_in_setup_cfg():
    settings = ConfigParser()
    settings.read(REPOSITORY / "setup.cfg")
    required = re.findall(r"^([\w.-]+)", settings["options"]["install_requires"], re.MULTILINE)
    assert {_normal(name) for name in required} <= set(_pins(REPOSITORY / "requirements" / "driver.txt"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_names_exact_versions_and_no_address(lock):
    for line in lock.read_text().splitlines():
        if line and not line.lstrip().startswith("#"):
            assert re.match(r"[\w.\[\],-]+==\S+", line), line
    assert "://" not in lock.read_text()


def _pins(lock: Path) -> dict[str, str]:
    """Package name (normal form, without extras) to version."""
    found = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)", lock.read_text(), re.MULTILINE)
    return {_normal(name): version for name, version in found}


def _named(source: Path) -> dict[str, str]:
    """The same for an `.in` file, where the version may be missing."""
    found = re.findall(r"^([a-z][\w.-]*)(?:\[[\w,-]+\])?(?:==(\S+))?$", source.read_text(), re.MULTILINE)
    return {_normal(name): version for name, version in found}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
