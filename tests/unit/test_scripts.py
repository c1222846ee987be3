"""The scripts that set up a machine: what they find, what they refuse, and that they leave nothing half done."""

import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
SHELL_SCRIPTS = ["scripts/lock", "scripts/quickstart", "scripts/setup", "scripts/test", "scripts/bench/run", ".ci/run"]


@pytest.mark.parametrize("script", SHELL_SCRIPTS)
def test_shell_scripts_parse_and_are_strict(script):
    path = SCRIPTS.parent / script
    subprocess.run(["bash", "-n", path], check=True)
    assert script == "scripts/setup" or "\nset -euo pipefail\n" in path.read_text()
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "--external-sources", path], check=True, cwd=SCRIPTS.parent)


@pytest.mark.parametrize("script", ["quickstart", "test"])
def test_help_is_the_comment_at_the_top(script):
    result = subprocess.run([SCRIPTS / script, "--help"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("Sets up ")
    assert f"scripts/{script}" in result.stdout
    assert "#" not in result.stdout


@pytest.mark.parametrize(("version", "new_enough"), [("v3.15.4", 1), ("v3.16.0", 0), ("v3.19.2", 0), ("v4.3.1", 0)])
def test_helm_on_the_path_is_used_from_3_16_on(tmp_path, version, new_enough):
    _program(tmp_path / "helm", f"echo {version}")
    assert _in_setup("helm_is_new_enough", path=tmp_path).returncode == new_enough


def test_python_is_found_among_those_of_pyenv(tmp_path):
    _program(tmp_path / "uv", "exit 2")
    for version in ("3.11.7", "3.12.1", "3.13.0"):
        _program(tmp_path / "pyenv" / "versions" / version / "bin" / "python", "")
    result = _in_setup("python_path uv", path=tmp_path, PYENV_ROOT=str(tmp_path / "pyenv"))
    assert result.stdout.strip() == str(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python")


def test_no_python_to_be_had_is_an_error_with_a_fix(tmp_path):
    _program(tmp_path / "uv", "exit 2")
    result = _in_setup("python_path uv", path=tmp_path, PYENV_ROOT=str(tmp_path / "none"))
    assert result.returncode == 1
    assert "Error: There is no Python 3.12 or newer" in result.stderr
    assert "apt install python3.12" in result.stderr


def test_a_python_without_venv_is_an_error_with_a_fix_and_leaves_nothing(tmp_path):
    _program(tmp_path / "python3", "echo 'ensurepip is not available'; exit 1")
    result = _in_setup("install_uv 1.2.3 $CACHE/tools/uv-1.2.3", path=tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert result.returncode == 1
    assert "ensurepip is not available" in result.stderr
    assert "apt install python3-venv" in result.stderr
    assert list((tmp_path / "cache" / "maxtext-multislice" / "tools").iterdir()) == []


def test_a_tool_is_fetched_once_and_linked(fetch_tools):
    fetched = []

    def prepare(folder: Path) -> None:
        fetched.append(folder)
        _program(folder / "sow", "echo sown")

    tool = fetch_tools.Tool("sow", "1.0", prepare, "sow")
    assert fetch_tools.fetch(tool) == fetch_tools.fetch(tool) == fetch_tools.CACHE / "tools" / "sow-1.0" / "sow"
    assert len(fetched) == 1
    assert subprocess.run([fetch_tools.CACHE / "bin" / "sow"], capture_output=True, check=True).stdout == b"sown\n"


def test_a_newer_version_takes_over_the_link(fetch_tools):
    for version in ("1.0", "1.1"):
        tool = fetch_tools.Tool("sow", version, lambda folder: _program(folder / "sow", ""), "sow")
        path = fetch_tools.fetch(tool)
        assert (fetch_tools.CACHE / "bin" / "sow").resolve() == path


def test_a_tool_with_another_content_is_refused_and_not_kept(fetch_tools):
    wanted = hashlib.sha256(b"this").hexdigest()
    tool = fetch_tools.Tool("sow", "1.0", lambda folder: (folder / "sow").write_bytes(b"that"), "sow", wanted)
    with pytest.raises(fetch_tools.FetchError, match=f"not {wanted}; it was not kept"):
        fetch_tools.fetch(tool)
    assert list((fetch_tools.CACHE / "tools").iterdir()) == []


def test_an_interrupted_fetch_leaves_nothing(fetch_tools):
    def prepare(folder: Path) -> None:
        (folder / "sow").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_tools.fetch(fetch_tools.Tool("sow", "1.0", prepare, "sow"))
    assert list((fetch_tools.CACHE / "tools").iterdir()) == []


def test_another_process_may_be_faster(fetch_tools):
    home = fetch_tools.CACHE / "tools" / "sow-1.0"

    def prepare(folder: Path) -> None:
        _program(folder / "sow", "")
        _program(home / "sow", "")

    assert fetch_tools.fetch(fetch_tools.Tool("sow", "1.0", prepare, "sow")) == home / "sow"


def test_an_unknown_tool_lists_those_there_are(fetch_tools, capsys):
    assert fetch_tools.main(["plough"]) == 2
    usage = capsys.readouterr().err
    assert all(name in usage for name in fetch_tools.TOOLS)


@pytest.fixture
def fetch_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """scripts/fetch-tools as a module, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("fetch_tools", str(SCRIPTS / "fetch-tools"))
    spec = importlib.util.spec_from_loader("fetch_tools", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fetch_tools", module)
    loader.exec_module(module)
    return module


def _in_setup(command: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a function of scripts/setup with programs of `path` first."""
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail; source scripts/setup; {command}"],
        cwd=SCRIPTS.parent,
        env={**os.environ, **environment, "PATH": f"{path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def _program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
