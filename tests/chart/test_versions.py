"""The oldest supported Helm and the newest make the same of the chart."""

import shutil
from pathlib import Path

import pytest

from tests.chart.rendering import CHART, HelmError, helm
from tests.chart.shapes import EVERYTHING, helm_of, manifests
from tests.chart.test_rejected import REJECTED


@pytest.mark.parametrize("file", EVERYTHING, ids=lambda path: path.stem)
def test_the_oldest_helm_renders_what_the_newest_does_notes_included(file, chart_with_notes):
    oldest = manifests(file, "oldest", chart_with_notes)
    assert oldest == manifests(file, "newest", chart_with_notes)
    (notes,) = [document["data"]["notes"] for document in oldest if document["metadata"]["name"] == "notes"]
    assert notes.startswith("Run ")


@pytest.mark.parametrize("file", REJECTED, ids=lambda path: path.stem)
def test_the_oldest_helm_refuses_what_the_newest_does_and_says_why(file):
    expected = file.read_text().splitlines()[0].removeprefix("# ")
    with pytest.raises(HelmError) as refused:
        manifests(file, "oldest")
    if file.stem.startswith("schema-"):
        # The validator of the schema, and with it the wording, is another one in Helm 4.
        assert "values don't meet the specifications of the schema" in str(refused.value)
    else:
        assert expected in str(refused.value)


@pytest.mark.parametrize(("version", "begins"), [("oldest", "v3.16."), ("newest", "v4.")])
def test_the_versions_are_what_they_are_taken_for(version, begins):
    assert helm("version", "--template", "{{.Version}}", program=helm_of(version)).startswith(begins)


@pytest.fixture(scope="module")
def chart_with_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart with its NOTES.txt in a manifest, since Helm 3 asks a cluster before it prints notes."""
    chart = tmp_path_factory.mktemp("notes") / "chart"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("__pycache__"))
    notes = chart / "templates" / "NOTES.txt"
    (chart / "templates" / "notes.yaml").write_text(
        f'{{{{- define "notes" }}}}{notes.read_text()}{{{{ end -}}}}\n'
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: notes\ndata:\n"
        '  notes: {{ include "notes" . | quote }}\n'
    )
    notes.unlink()
    return chart
