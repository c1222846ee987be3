import sys
from pathlib import Path
from typing import Any

import pytest

from driver.plan.request import Configuration
from driver.plan.session import Compiler
from tests.run_files import content

FAKE_SERVER = Path(__file__).with_name("fake_server.py")


@pytest.fixture
def configuration():
    """A configuration of 2 x v6e-16, with changes: configuration(act="fail")."""

    def make(slices: int = 2, **changes: Any) -> Configuration:
        return Configuration(content(), slices, changes)

    return make


@pytest.fixture
def compiler(tmp_path):
    """A Compiler whose servers are fake ones: compiler(servers=1)."""
    made: list[Compiler] = []

    def make(*arguments: str, servers: int = 1) -> Compiler:
        command = [sys.executable, str(FAKE_SERVER), *arguments]
        made.append(Compiler(Path(sys.executable), tmp_path / f"work-{len(made)}", servers=servers, command=command))
        return made[-1]

    yield make
    for each in made:
        each.close()
