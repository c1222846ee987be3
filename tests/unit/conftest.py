import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from driver import commands


@pytest.fixture
def add_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Adds a module to the commands: add_command("sow", function)."""
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])

    def add(name: str, command: click.Command) -> None:
        (tmp_path / f"{name}.py").touch()
        module = ModuleType(f"driver.commands.{name}")
        module.command = command  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return add
