"""Where the driver finds its chart, profiles and trainer in a checkout (test_package.py: from a wheel)."""

from pathlib import Path

import pytest

from driver import resources
from driver.errors import DriverError

REPOSITORY = Path(__file__).parents[2]


def test_a_checkout_uses_the_folders_that_are_edited():
    assert resources.chart_dir() == REPOSITORY / "charts" / "maxtext-multislice"
    assert resources.values_dir() == REPOSITORY / "values"
    assert resources.trainer_dir() == REPOSITORY / "trainer"


def test_the_profiles_are_the_files_in_values():
    assert {"tiny", "llama3-8b", "llama3-70b"} <= set(resources.profiles())


def test_an_incomplete_installation_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "driver")
    with pytest.raises(DriverError, match="installation of maxtext-multislice is incomplete: Chart.yaml is not in"):
        resources.chart_dir()


def test_the_cache_follows_xdg(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/somewhere")
    assert resources.cache_dir() == Path("/var/tmp/somewhere/maxtext-multislice")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert resources.cache_dir() == Path("/home/someone/.cache/maxtext-multislice")
