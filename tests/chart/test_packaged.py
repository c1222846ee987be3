"""`helm package` gives a chart that is the same away from the repository."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.chart.rendering import CHART, PROFILES, Manifest
from tests.chart.shapes import CI_VALUES, NEWEST_FIRST, helm_of, manifests, parsed


@pytest.fixture(scope="module", params=NEWEST_FIRST)
def away(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the package, as the oldest or the newest Helm makes it."""
    folder = tmp_path_factory.mktemp("away")
    _helm(folder, request.param, "package", str(CHART), "--destination", str(folder))
    return folder


@pytest.mark.parametrize("version", NEWEST_FIRST)
def test_a_package_renders_each_of_its_profiles_as_the_repository_does(away, version):
    (package,) = away.glob("*.tgz")
    profiles = _unpacked(package, "files/profiles/", away / "profiles")
    assert [file.name for file in profiles] == [file.name for file in PROFILES]
    for ours, theirs in zip(PROFILES, profiles, strict=True):
        assert _template(away, version, theirs) == manifests(ours, version), ours.stem


def test_a_package_renders_every_shape_as_the_repository_does(away):
    for file in CI_VALUES:
        assert _template(away, "newest", file) == manifests(file, "newest"), file.stem


def test_a_package_holds_what_a_release_needs_and_not_what_its_authors_do(away):
    (package,) = away.glob("*.tgz")
    with tarfile.open(package) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        assert members == archive.getmembers(), "a link would lead out of the package"
    names = {member.name.removeprefix("maxtext-multislice/") for member in members}
    assert {"Chart.yaml", "README.md", "values.yaml", "values.schema.json"} <= names
    assert {name.partition("/")[0] for name in names if "/" in name} == {"files", "templates"}


def _template(folder: Path, version: str, values: Path) -> list[Manifest]:
    (package,) = folder.glob("*.tgz")
    return parsed(_helm(folder, version, "template", "demo", package.name, "--values", str(values)))


def _helm(folder: Path, version: str, *arguments: str) -> str:
    command = [helm_of(version), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def _unpacked(package: Path, below: str, folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    with tarfile.open(package) as archive:
        for member in archive.getmembers():
            name = member.name.removeprefix("maxtext-multislice/")
            if name.startswith(below):
                content = archive.extractfile(member)
                assert content is not None
                (folder / name.removeprefix(below)).write_bytes(content.read())
    return sorted(folder.iterdir())
