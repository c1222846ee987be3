"""What is built and installed works without the source tree."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
import uv
import yaml

from driver import resources

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist and the wheel that was built from that sdist."""
    scratch = tmp_path_factory.mktemp("package")
    # A copy of what git has or would add: building writes into the tree, and leftovers there must not matter.
    listed = _run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=REPOSITORY)
    for name in filter(None, listed.split("\0")):
        source, target = REPOSITORY / name, scratch / "source" / name
        if os.path.lexists(source):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", scratch / "dist", scratch / "source")
    return scratch / "dist"


def test_wheel_and_sdist_hold_the_chart_the_profiles_and_the_trainer_as_files(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        in_wheel = set(wheel.namelist())
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        in_sdist = {member.name.split("/", 1)[1] for member in sdist.getmembers() if member.isfile()}
    chart = resources.chart_dir()
    for path in _files(chart):
        name = path.relative_to(chart)
        assert f"driver/bundled/{name}" in in_wheel
        assert f"charts/{resources.CHART_NAME}/{name}" in in_sdist
    unwanted = re.compile(r"__pycache__|\.pyc$|/tests/.*_test\.yaml$|\.tgz$")
    assert [name for name in in_wheel | in_sdist if unwanted.search(name)] == []


def test_an_installed_wheel_finds_its_chart_from_another_folder(built, tmp_path):
    environment = _install(tmp_path, next(built.glob("*.whl")))
    assert _run(environment / "bin" / "driver", "--version", cwd=tmp_path).strip() == f"driver, version {_version()}"
    program = (
        "import json; from driver import resources as r;"
        "print(json.dumps([str(r.chart_dir()), r.profiles(), sorted(p.name for p in r.trainer_dir().iterdir())]))"
    )
    chart, profiles, trainer = json.loads(_run(environment / "bin" / "python", "-c", program, cwd=tmp_path))
    assert Path(chart).is_relative_to(environment)
    assert profiles == resources.profiles()
    assert {"train.py", "Dockerfile", "requirements-local.txt"} <= set(trainer)
    assert _packaged(Path(chart), tmp_path / "wheel") == _packaged(resources.chart_dir(), tmp_path / "checkout")


def test_every_folder_of_modules_is_a_package_that_is_shipped():
    folders = {path.parent.relative_to(REPOSITORY) for path in (REPOSITORY / "driver").rglob("*.py")}
    shipped = set(_settings()["options"]["packages"].split())
    assert {".".join(folder.parts) for folder in folders} == shipped - {"driver.bundled"}


# Modules to the distributions that have them, where the names differ.
DISTRIBUTIONS = {
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.artifactregistry_v1": "google-cloud-artifact-registry",
    "google.cloud.cloudquotas_v1": "google-cloud-quotas",
    "google.cloud.compute_v1": "google-cloud-compute",
    "google.cloud.container_v1": "google-cloud-container",
    "google.cloud.devtools.cloudbuild_v1": "google-cloud-build",
    "google.cloud.resourcemanager_v3": "google-cloud-resource-manager",
    "google.cloud.service_usage_v1": "google-cloud-service-usage",
    "google.cloud.storage": "google-cloud-storage",
    "google.oauth2": "google-auth",
    "prometheus_client": "prometheus-client",
    "websocket": "websocket-client",
    "yaml": "pyyaml",
}


def test_every_dependency_is_imported_and_every_import_is_a_dependency():
    required = set(re.findall(r"^([\w.-]+)", _settings()["options"]["install_requires"], re.MULTILINE))
    imported: set[str] = set()
    for path in (REPOSITORY / "driver").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.update(f"{node.module}.{alias.name}" for alias in node.names)
    trainer = {path.stem for path in (REPOSITORY / "trainer").glob("*.py")}
    own = {*sys.stdlib_module_names, *trainer, "driver"}
    assert {_distribution(name) for name in imported if name.partition(".")[0] not in own} == required


def _distribution(name: str) -> str:
    known = [module for module in DISTRIBUTIONS if f"{name}.".startswith(f"{module}.")]
    return DISTRIBUTIONS[known[0]] if known else name.partition(".")[0]


def test_the_chart_and_the_package_have_one_version():
    assert yaml.safe_load((resources.chart_dir() / "Chart.yaml").read_text())["version"] == _version()


def _install(folder: Path, wheel: Path) -> Path:
    """A new virtual environment with the wheel and the locked versions of what it asks for."""
    environment = folder / "environment"
    program = uv.find_uv_bin()
    _run(program, "venv", "--quiet", "--no-project", "--python", sys.executable, environment)
    lock = REPOSITORY / "requirements" / "driver.txt"
    _run(
        *(program, "pip", "install", "--quiet", "--python", environment / "bin" / "python"),
        *("--constraints", lock, wheel),
    )
    return environment


def _packaged(chart: Path, folder: Path) -> dict[str, bytes]:
    """Name to content of all files in the archive that `helm package` makes of a chart."""
    folder.mkdir()
    _run("helm", "package", chart, "--destination", folder)
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {member.name: content.read() for member in members if (content := archive.extractfile(member))}


def _files(folder: Path) -> list[Path]:
    """All files below the folder that are shipped, through links, but not the chart's tests."""
    names = _run("find", "-L", folder, "-type", "f").splitlines()
    left_out = re.compile(r"/__pycache__/|\.tgz$|_test\.yaml$|/__snapshot__/")
    return [Path(name) for name in names if not left_out.search(name)]


def _version() -> str:
    return _settings()["metadata"]["version"]


def _settings() -> ConfigParser:
    settings = ConfigParser()
    settings.read(REPOSITORY / "setup.cfg")
    return settings


def _run(*command: object, cwd: Path | None = None) -> str:
    """Runs a command and returns what it printed; a failure shows all of it."""
    result = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    return result.stdout
