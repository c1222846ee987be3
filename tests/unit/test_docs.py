"""The documents speak of what is there."""

import pkgutil
import re
from pathlib import Path
from typing import get_args

import metrics
import pytest
from pydantic import BaseModel
from run import Run

from driver import commands

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
CHART = REPOSITORY / "charts" / "maxtext-multislice"
TEXTS = [
    *DOCUMENTS,
    *(REPOSITORY / name for name in ("CHANGELOG.md", "trainer/Dockerfile")),
    *(CHART / name for name in ("README.md", "README.md.gotmpl", "values.yaml", "values.schema.json")),
    *sorted(path for path in (CHART / "templates").rglob("*") if path.is_file()),
    *sorted((REPOSITORY / "values").glob("*.yaml")),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)[^)]*\)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_of_the_project_exist(document):
    """Code spans that begin with one of the project's folders."""
    named = re.findall(r"`((?:charts|docs|driver|scripts|tests|trainer|values)/[\w./-]*)`", document.read_text())
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_named_commands_of_the_driver_exist(text):
    """`driver X` in a code span, or at the beginning of a line of a code block."""
    named = re.findall(r"(?:`|^[ #$]*)driver ([a-z][\w-]*)", text.read_text(), re.MULTILINE)
    known = {module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__)}
    assert [name for name in named if name not in known] == []


def test_every_key_of_the_run_file_is_documented():
    text = (REPOSITORY / "docs" / "run-file.md").read_text()
    assert [key for key in _keys(Run) if not re.search(rf"\b{key.rsplit('.', 1)[-1]}\b", text)] == []


def test_every_gauge_and_kind_of_record_is_documented():
    text = (REPOSITORY / "docs" / "progress.md").read_text()
    assert [name for name in metrics.GAUGES if f"`ray_maxtext_{name}`" not in text] == []
    assert [kind for kind in get_args(metrics.Kind) if f"| `{kind}` |" not in text] == []


def _keys(model: type[BaseModel], above: str = "") -> list[str]:
    """All keys of the run file, with dots between a section and its keys."""
    keys = []
    for field in model.model_fields.values():
        key = f"{above}{field.alias}"
        keys.append(key)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            keys += _keys(field.annotation, f"{key}.")
    return keys
