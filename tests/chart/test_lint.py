"""chart-testing and Helm lint the chart with every ci/*-values.yaml, with the oldest and the newest Helm."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, REPOSITORY, helm, tool
from tests.chart.shapes import CI_VALUES, NEWEST_FIRST, helm_of


@pytest.mark.parametrize("version", NEWEST_FIRST)
def test_chart_testing_finds_nothing_wrong(version):
    result = _ct_lint(REPOSITORY, version)
    assert result.returncode == 0, _told(result)
    assert "Validation success" in result.stdout, "yamale checked Chart.yaml"
    for file in CI_VALUES:
        assert f'Linting chart with values file "charts/maxtext-multislice/ci/{file.name}"' in result.stdout


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("Chart.yaml", "type: library\n", "not in ('application',)"),
        ("values.yaml", "twice: 1\ntwice: 2\n", "duplication of key"),
        ("ci/spot-values.yaml", "misspelt: true\n", "additional properties 'misspelt' not allowed"),
    ],
)
def test_chart_testing_finds_what_is_wrong(file, text, complaint, tmp_path):
    repository = _copy(tmp_path)
    with (repository / "charts" / "maxtext-multislice" / file).open("a") as stream:
        stream.write(text)
    result = _ct_lint(repository, "newest")
    assert result.returncode != 0
    assert complaint in _told(result)


@pytest.mark.parametrize("file", CI_VALUES, ids=lambda path: path.stem)
def test_helm_lint_does_not_even_warn_of_a_shape(file):
    helm("lint", str(CHART), "--strict", "--values", str(file), program=helm_of("newest"))


def test_chart_testing_reads_the_chart_where_it_is():
    settings = yaml.safe_load((REPOSITORY / "ct.yaml").read_text())
    assert [REPOSITORY / folder for folder in settings["chart-dirs"]] == [CHART.parent]
    for setting in ("lint-conf", "chart-yaml-schema"):
        assert (REPOSITORY / settings[setting]).is_file()


def _ct_lint(repository: Path, version: str) -> subprocess.CompletedProcess[str]:
    """`ct` calls helm, yamale and yamllint by their names; the latter two are installed beside Python."""
    path = os.pathsep.join([str(Path(helm_of(version)).parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [tool("ct"), "lint", "--config", "ct.yaml", "--all"]
    environment = {**os.environ, "PATH": path}
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)


def _told(result: subprocess.CompletedProcess[str]) -> str:
    lines = (result.stdout + result.stderr).splitlines()
    return "\n".join(line for line in lines if "found symbolic link in path" not in line)


def _copy(folder: Path) -> Path:
    """What chart-testing reads, as a repository of its own."""
    for name in ("charts", "trainer", "values", ".ct"):
        shutil.copytree(REPOSITORY / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "ct.yaml", folder)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder
