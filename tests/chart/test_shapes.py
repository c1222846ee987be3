"""ci/*-values.yaml: one file per supported shape, each of which Kubernetes and KubeRay would take."""

import subprocess
from itertools import product

import pytest
import yaml

from tests.chart import schemas
from tests.chart.rendering import CHART, tool
from tests.chart.shapes import CI_VALUES, manifests

VALUES = {file.stem.removesuffix("-values"): yaml.safe_load(file.read_text()) for file in CI_VALUES}


@pytest.fixture(scope="module")
def schema_location(tmp_path_factory: pytest.TempPathFactory) -> str:
    return schemas.write(tmp_path_factory.mktemp("schemas"))


@pytest.mark.parametrize("file", CI_VALUES, ids=lambda path: path.stem)
def test_a_shape_is_valid_for_kubernetes_and_kuberay(file, schema_location):
    documents = manifests(file, "newest")
    result = subprocess.run(
        [tool("kubeconform"), "-strict", "-summary", "-schema-location", schema_location, "-"],
        input=yaml.safe_dump_all(documents),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Valid: {len(documents)}," in result.stdout


@pytest.mark.parametrize("file", CI_VALUES, ids=lambda path: path.stem)
def test_a_shape_says_what_it_is(file):
    assert file.read_text().startswith("# ")


def test_there_is_a_shape_for_every_type_of_tpu():
    known = yaml.safe_load((CHART / "files" / "tpu-types.yaml").read_text())
    assert {values.get("tpu", {}).get("type", "v6e") for values in VALUES.values()} == set(known)


def test_there_is_a_shape_for_every_kind_of_storage_and_of_data():
    properties = yaml.safe_load((CHART / "values.schema.json").read_text())["properties"]
    for section, default in (("storage", "bucket"), ("data", "synthetic")):
        kinds = set(properties[section]["properties"]["kind"]["enum"])
        assert {values.get(section, {}).get("kind", default) for values in VALUES.values()} == kinds


def test_there_is_a_shape_for_each_cluster_with_and_without_elastic_slices():
    found = {
        (values.get("elastic", {}).get("enabled", False), values.get("rayJob", {}).get("ownCluster", False))
        for values in VALUES.values()
    }
    assert found == set(product([False, True], repeat=2))


def test_the_shape_for_a_cluster_without_tpus_runs_nothing_that_needs_them():
    """`ct install` waits for hooks and runs `helm test`."""
    documents = manifests(CHART / "ci" / "kind-values.yaml", "newest")
    assert [d["kind"] for d in documents if "helm.sh/hook" in d["metadata"].get("annotations", {})] == []
    assert {"RayCluster"} <= {document["kind"] for document in documents}
    assert "RayJob" not in {document["kind"] for document in documents}
