"""docs/google-cloud.md says what the site file and the commands have."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from driver.commands import bootstrap, image, teardown
from driver.gcp import image as trainer_image
from driver.gcp import roles, site_file
from driver.gcp.prerequisites import NEEDS
from driver.gcp.resource import Permissions
from driver.gcp.site import Site

ROLES = yaml.safe_load((Path(roles.__file__).parent / "roles.yaml").read_text())
TEXT = (Path(__file__).parents[2] / "docs" / "google-cloud.md").read_text()


def keys(model: type[BaseModel], above: str = "") -> list[str]:
    """All keys of a site file, dotted, those of a list's entries with []."""
    found = []
    for field in model.model_fields.values():
        name = f"{above}{field.alias}"
        inner = next((one for one in _types(field.annotation) if issubclass(one, BaseModel)), None)
        if inner is None or inner is not field.annotation:
            found.append(name)
        if inner is not None:
            found += keys(inner, f"{name}." if inner is field.annotation else f"{name}[].")
    return found


def _types(annotation: Any) -> list[type]:
    parts = get_args(annotation)
    if not parts:
        return [annotation] if isinstance(annotation, type) else []
    return [one for part in parts for one in _types(part)]


def test_every_key_of_the_site_file_is_documented_and_none_besides():
    table = TEXT.partition("| key | meaning |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\S+)` \|", table, re.MULTILINE) == keys(Site)


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL))
def test_the_examples_are_valid_site_files(example, tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text(example)
    assert site_file.read(path).project == yaml.safe_load(example)["project"]


@pytest.mark.parametrize("command", [bootstrap.command, image.command, teardown.command], ids=lambda one: one.name)
def test_every_option_is_documented_and_none_besides(command):
    section = TEXT.partition(f"## `driver {command.name}`")[2].partition("\n## ")[0]
    shared = {"--config", "--api-endpoint", "--output"}
    own = {option for one in command.params for option in one.opts if option.startswith("--")} - shared
    assert set(re.findall(r"^\| `(--[\w-]+)` \|", section, re.MULTILINE)) == own


def every(permissions: Permissions) -> tuple[str, ...]:
    return (*permissions.describe, *permissions.create, *permissions.update, *permissions.delete)


@pytest.mark.parametrize(
    ("row", "permissions"),
    [
        (
            "`driver preflight`",
            {one for kind in NEEDS if kind.kind != "Docker repository" for one in kind.permissions.describe},
        ),
        ("`driver bootstrap`, `driver teardown`", {one for kind in NEEDS for one in every(kind.permissions)}),
        ("`driver image`", {*trainer_image.PERMISSIONS, "iam.serviceAccounts.actAs"}),
    ],
)
def test_the_roles_are_enough(row, permissions):
    line = next(line for line in TEXT.splitlines() if line.startswith(f"| {row}") and "roles/" in line)
    named = re.findall(r"`(roles/[\w.]+)`", line)
    assert permissions - {one for role in named for one in ROLES[role]} == set()
