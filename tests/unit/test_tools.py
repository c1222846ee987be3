"""The tools that are built with Go are built from what scripts/tools pins, and are the versions that they say."""

import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
MODULES = sorted(path.parent for path in SCRIPTS.glob("tools/*/go.mod"))


@pytest.mark.parametrize("folder", MODULES, ids=lambda path: path.name)
def test_a_module_requires_the_version_of_a_tool(folder, fetch_tools):
    """Of the tool of its name, where there is one; a module may also build several tools."""
    named = fetch_tools.TOOLS.get(folder.name)
    versions = {f"v{tool.version}" for tool in ([named] if named else fetch_tools.TOOLS.values())}
    text = (folder / "go.mod").read_text()
    for package in _packages(text):
        required = [version for name, version in _requirements(text).items() if package.startswith(f"{name}/")]
        assert required
        assert set(required) <= versions


@pytest.mark.parametrize("folder", MODULES, ids=lambda path: path.name)
def test_a_module_pins_the_sum_of_everything_it_requires(folder):
    sums = {f"{name} {version.removesuffix('/go.mod')}" for name, version, _ in _sums(folder)}
    text = (folder / "go.mod").read_text()
    replaced = dict(re.findall(r"^(?:replace )?\t?(\S+)(?: v\S+)? => (\S+ v\S+)$", text, re.MULTILINE))
    required = _requirements(text)
    assert required
    assert {replaced.get(name, f"{name} {version}") for name, version in required.items()} - sums == set()


@pytest.mark.parametrize("name", ["actionlint", "ct", "helm-3.16", "helm-unittest"])
def test_a_tool_of_the_charts_tests_is_built_from_a_module(name, fetch_tools):
    assert SCRIPTS / "tools" / name in MODULES
    assert name in fetch_tools.TOOLS


@pytest.mark.parametrize(("version", "used"), [("go1.19.8", False), ("go1.26.0", True), ("go2.0", True), ("", False)])
def test_a_go_of_the_machine_is_used_unless_it_is_too_old(version, used, fetch_tools, tmp_path, monkeypatch):
    own = tmp_path / "go"
    own.write_text(f"#!/bin/sh\necho '{version}'\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(fetch_tools, "fetch", lambda tool: Path("fetched") / tool.name)
    assert fetch_tools._go() == (str(own) if used else "fetched/go")


def test_no_module_needs_a_newer_go_than_is_looked_for(fetch_tools):
    for folder in MODULES:
        needed = re.search(r"^go (\d+)\.(\d+)", (folder / "go.mod").read_text(), re.MULTILINE)
        assert needed
        assert (int(needed[1]), int(needed[2])) <= fetch_tools.GO_OLDEST


def _sums(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "go.sum").read_text().splitlines()]


def _packages(text: str) -> list[str]:
    """Those of the `tool` lines."""
    return re.findall(r"^(?:tool )?\t?([\w.]+\.\w+/\S+)$", text, re.MULTILINE)


def _requirements(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\t?(?:require )?([\w./-]+) (v\S+)(?: // indirect)?$", text, re.MULTILINE))


@pytest.fixture
def fetch_tools(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """scripts/fetch-tools as a module."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("fetch_tools_of_go", str(SCRIPTS / "fetch-tools"))
    spec = importlib.util.spec_from_loader("fetch_tools_of_go", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fetch_tools_of_go", module)
    loader.exec_module(module)
    return module
