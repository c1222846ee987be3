"""The GitHub workflow for the chart is well formed, may write nothing, and takes its actions in versions that stay."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import REPOSITORY, tool

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yaml"))


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def workflow(request) -> Path:
    path: Path = request.param
    return path


def test_actionlint_finds_nothing_wrong(workflow):
    # Without the checkers of scripts that a machine may or may not have.
    command = [tool("actionlint"), "-shellcheck=", "-pyflakes=", str(workflow)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_a_workflow_may_only_read(workflow):
    content = yaml.safe_load(workflow.read_text())
    assert content["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in content["jobs"].values())


def test_every_action_is_named_with_a_full_version(workflow):
    used = [step["uses"] for step in _steps(workflow) if "uses" in step]
    assert used
    assert [action for action in used if not re.search(r"@v\d+\.\d+\.\d+$", action)] == []


def test_the_files_that_a_workflow_names_exist(workflow):
    commands = "\n".join(step.get("run", "") for step in _steps(workflow))
    named = set(re.findall(r"(?<![\w/])(?:tests|charts|scripts|requirements)/[\w./-]*\w", commands))
    assert named
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def _steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]
