"""What is opened for a plan: which results it may use, and what it leaves behind. No compiler starts."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from driver.plan import environment, opening
from driver.plan.compiling import CachedCompiler
from tests.run_files import content


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """opened(python, packages): the compiler for a run, in an environment that is said to be there."""
    monkeypatch.setattr(environment, "compiler_python", lambda given: given or Path(sys.executable))
    monkeypatch.setattr(environment, "versions", lambda python: {"maxtext": "0.2.5"})
    monkeypatch.setattr(environment, "maxtext_configs", lambda python: tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def within(python=None, packages=("", True)):
        monkeypatch.setattr(environment, "packages", lambda python: packages)
        return opening.compiler(content(), python, 1)

    return within


def kept_in(compiler: CachedCompiler) -> Path:
    return compiler._cache._folder


def test_results_are_kept_in_the_users_cache(opened, tmp_path):
    with opened() as (_, compiler, _):
        assert kept_in(compiler).is_relative_to(tmp_path / "cache")


def test_an_interpreter_of_one_s_own_keys_the_results_by_all_its_packages(opened, tmp_path):
    with opened(Path(sys.executable), ("digest", True)) as (site, compiler, _):
        assert kept_in(compiler).is_relative_to(tmp_path / "cache")
        assert compiler._keyed_by == {"maxtext": "0.2.5", "packages": "digest"}
        assert site.compiled_by == {"maxtext": "0.2.5"}


def test_of_packages_that_may_be_edited_nothing_is_kept(opened, tmp_path):
    with opened(Path(sys.executable), ("digest", False)) as (_, compiler, _):
        assert not kept_in(compiler).is_relative_to(tmp_path / "cache")


def test_the_dumps_of_a_driver_that_was_killed_a_day_ago_are_removed_and_those_in_use_are_not(opened, tmp_path):
    old = tmp_path / "driver-plan-old"
    old.mkdir()
    os.utime(old, (1, 1))
    with opened():
        assert not old.exists()
        (used,) = tmp_path.glob("driver-plan-*")
        os.utime(used, (1, 1))
        with opened():
            assert used.exists()
    assert list(tmp_path.glob("driver-plan-*")) == []
