"""helm-unittest runs the chart's own suites, which show what a value does to an object; every template has one."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, tool

SUITES = sorted((CHART / "tests").glob("*_test.yaml"))
TEMPLATES = sorted(
    path.relative_to(CHART / "templates").as_posix()
    for path in (CHART / "templates").rglob("*")
    if path.is_file() and not path.name.startswith("_")
)


@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_a_suite_passes(suite):
    result = _unittest(CHART, suite.name)
    assert result.returncode == 0, result.stdout
    assert re.search(r"^Tests: +[1-9]\d* passed, \d+ total$", result.stdout, re.MULTILINE), result.stdout


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_has_a_suite(template):
    """Asserts something of it, and not only renders it because another template includes from it."""
    assert template in {name for suite in SUITES for name in _asserted(suite)}


def test_a_suite_fails_when_a_template_is_wrong(tmp_path):
    chart = shutil.copytree(CHART, tmp_path / "chart", ignore=shutil.ignore_patterns("__pycache__"))
    account = chart / "templates" / "serviceaccount.yaml"
    account.write_text(account.read_text().replace("kind: ServiceAccount", "kind: ServiceAcount"))
    result = _unittest(chart, "serviceaccount_test.yaml")
    assert result.returncode != 0
    assert "ServiceAcount" in result.stdout


def _unittest(chart: Path, suite: str) -> subprocess.CompletedProcess[str]:
    command = [tool("helm-unittest"), "--strict", "--file", f"tests/{suite}", str(chart)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _asserted(suite: Path) -> set[str]:
    """The templates that a suite's tests make assertions of."""
    content = yaml.safe_load(suite.read_text())
    found = set()
    for test in content["tests"]:
        found |= {test["template"]} if "template" in test else set(test.get("templates", content["templates"]))
    return {name.removeprefix("templates/") for name in found}
