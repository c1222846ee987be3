"""What Helm keeps of a release, measured as scripts/bench/chart.py does, has room in the Secret that it is kept in."""

import base64
import json

from scripts.bench.chart import LIMIT_BYTES, release, secret_bytes
from tests.chart.rendering import REPOSITORY
from tests.chart.shapes import CI_VALUES

OPERATED = next(file for file in CI_VALUES if file.name == "operated-values.yaml")


def test_the_release_with_the_most_objects_takes_less_than_half_of_what_a_secret_may_hold():
    assert secret_bytes(OPERATED)["data"] < LIMIT_BYTES / 2


def test_what_is_measured_is_the_whole_release_with_chart_values_and_manifests():
    kept = json.loads(release(REPOSITORY / "values" / "llama3-70b.yaml"))
    assert kept["config"]["job"]["maxtext"]["model_name"] == "llama3-70b"
    assert "kind: RayCluster" in kept["manifest"]
    files = {file["name"]: base64.b64decode(file["data"]).decode() for file in kept["chart"]["files"]}
    assert files["files/trainer/train.py"] == (REPOSITORY / "trainer" / "train.py").read_text()


def test_the_data_is_in_base64_and_the_api_shows_it_in_base64_again():
    sizes = secret_bytes(REPOSITORY / "values" / "llama3-70b.yaml")
    assert sizes["data"] == (sizes["gzip"] + 2) // 3 * 4
    assert sizes["shown"] == (sizes["data"] + 2) // 3 * 4
