"""Every value is explained, the schema knows every value, and what is generated from the comments is up to date."""

import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, PROFILES, REPOSITORY, HelmError, helm, template, tool

VALUES = CHART / "values.yaml"
SCHEMA = CHART / "values.schema.json"


def _comments() -> dict[str, str]:
    """The text after `# --` of each value, by its path."""
    found: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    block: list[str] = []
    for line in VALUES.read_text().splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- "):
            block = [stripped.removeprefix("# -- ")]
        elif stripped.startswith("#") and block:
            block.append(stripped.removeprefix("#").strip())
        elif match := re.match(r"( *)([\w.-]+):", line):
            indent = len(match[1])
            parents = [parent for parent in parents if parent[0] < indent] + [(indent, match[2])]
            if block:
                found[".".join(name for _, name in parents)] = " ".join(block)
            block = []
        else:
            block = []
    return found


def _leaves(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each value that is not a section of named values, with its schema."""
    for name, value in values.items():
        section = schema["properties"][name]
        where = f"{path}{name}"
        if "properties" in section and not _is_resources(section):
            yield from _leaves(value, section, f"{where}.")
        else:
            yield where, section


def _is_resources(section: dict[str, Any]) -> bool:
    return set(section["properties"]) == {"requests", "limits"}


def _schema() -> dict[str, Any]:
    return dict(json.loads(SCHEMA.read_text()))


def _described() -> str:
    """The schema with the comments as its descriptions and the values as its defaults, for editors."""
    schema, values, comments = _schema(), yaml.safe_load(VALUES.read_text()), _comments()
    for path, section in _leaves(values, schema):
        default: Any = values
        for name in path.split("."):
            default = default[name]
        section.update(description=comments.get(path, ""), default=default)
    return json.dumps(schema, indent=2) + "\n"


def test_the_schema_has_the_comments_as_descriptions():
    """Written anew by `UPDATE_GOLDEN=1 scripts/test tests/chart`."""
    if os.environ.get("UPDATE_GOLDEN"):
        SCHEMA.write_text(_described())
    assert SCHEMA.read_text() == _described()


def test_the_readme_has_the_table_of_values(tmp_path):
    """Written anew by `UPDATE_GOLDEN=1 scripts/test tests/chart`."""
    for name in ("Chart.yaml", "values.yaml", "README.md.gotmpl"):
        shutil.copy(CHART / name, tmp_path)
    command = [tool("helm-docs"), "--sort-values-order=file", "--log-level=error", "--template-files=README.md.gotmpl"]
    subprocess.run(command, check=True, cwd=tmp_path)
    written = (tmp_path / "README.md").read_text()
    if os.environ.get("UPDATE_GOLDEN"):
        (CHART / "README.md").write_text(written)
    assert (CHART / "README.md").read_text() == written


def test_every_value_is_explained():
    explained = _comments()
    paths = [path for path, _ in _leaves(yaml.safe_load(VALUES.read_text()), _schema())]
    assert [path for path in paths if len(explained.get(path, "")) < 10] == []
    table = (CHART / "README.md").read_text()
    assert [
        path for path in paths if not re.search(rf"^\| {re.escape(path)} \| .* \| [^|]{{10,}} \|$", table, re.M)
    ] == []


def test_the_schema_knows_every_value_and_no_other():
    def compare(values: dict[str, Any], section: dict[str, Any], path: str) -> None:
        assert set(section["properties"]) == set(values), path
        assert section["additionalProperties"] is False, path
        for name, inner in section["properties"].items():
            if "properties" in inner and not _is_resources(inner) and path != "guards.":
                compare(values[name], inner, f"{path}{name}.")

    compare(yaml.safe_load(VALUES.read_text()), _schema(), "")


def test_every_level_of_ours_refuses_unknown_keys_and_every_open_map_is_open():
    def closed(section: Any) -> Iterator[dict[str, Any]]:
        if isinstance(section, dict):
            if "properties" in section and section.get("type") == "object":
                yield section
            for inner in section.values():
                yield from closed(inner)

    assert all(section.get("additionalProperties") is False for section in closed(_schema()))
    for path in (
        "job.maxtext",
        "job.libtpuFlags",
        "job.env",
        "worker.nodeSelector",
        "head.env",
        "storage.mountOptions",
    ):
        template(sets=[f"{path}.anything=1"])


def test_the_packaged_chart_renders_the_same_away_from_the_repository(tmp_path):
    helm("package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.glob("*.tgz")
    for profile in PROFILES:
        assert template(profile, chart=package).objects == template(profile).objects
    with tarfile.open(package) as archive:
        names = {member.name.removeprefix("maxtext-multislice/") for member in archive.getmembers()}
    modules = {f"files/trainer/{name}" for name in template()["ConfigMap"]["data"] if name != "run.yaml"}
    assert {name for name in names if name.startswith("files/trainer")} == {
        *modules,
        "files/trainer/cluster_check.py",
        "files/trainer/drain.py",
    }
    assert {name for name in names if name.startswith("files/profiles")} == {
        f"files/profiles/{p.name}" for p in PROFILES
    }
    assert package.stat().st_size < 200_000, "Helm keeps the chart in a secret of 1 MiB"


def test_leftovers_in_the_trainers_folder_change_nothing(tmp_path):
    chart = shutil.copytree(CHART, tmp_path / "chart")
    (chart / "files" / "trainer" / "__pycache__").mkdir(exist_ok=True)
    for name in ("__pycache__/run.cpython-312.pyc", "notes.txt", "Dockerfile", "out.log", ".run.py.swp"):
        (chart / "files" / "trainer" / name).write_text("left over")
    assert template(chart=chart).objects == template().objects


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_a_profile_begins_by_saying_what_it_is(profile):
    assert profile.read_text().startswith("# ")


def test_versions_of_the_defaults_are_those_of_the_trainers_lock():
    values = yaml.safe_load(VALUES.read_text())
    lock = (REPOSITORY / "trainer" / "requirements.txt").read_text()
    assert re.search(rf"^maxtext(\[\w+\])?=={values['maxtextVersion']}\b", lock, re.MULTILINE)
    assert re.search(rf"^ray(\[[\w,]+\])?=={values['rayVersion']}\b", lock, re.MULTILINE)
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == values["maxtextVersion"]


EVERY_VALUE = [path for path, _ in _leaves(yaml.safe_load(VALUES.read_text()), _schema())]


@pytest.mark.parametrize("path", EVERY_VALUE)
def test_null_for_a_value_empties_it_or_is_refused_by_name(path):
    """Helm drops the key then, and a template that reads it may not end in an error of its own."""
    try:
        template(sets=[f"{path}=null", "rayJob.ownCluster=false"] if path != "rayJob.ownCluster" else [f"{path}=null"])
    except HelmError as refused:
        assert "values don't meet the specifications of the schema" in str(refused)  # noqa: PT017
        assert path.rpartition(".")[2] in str(refused)  # noqa: PT017
