"""Values that cannot work never reach the API server: Helm itself refuses them."""

import re
from pathlib import Path

import pytest

from tests.chart.rendering import CHART
from tests.chart.test_rejected import REJECTED
from tests.cluster.release import FailedError, Release


@pytest.mark.full
def test_nothing_of_a_rejected_values_file_reaches_the_cluster(demo: Release, tmp_path: Path):
    base = tmp_path / "base.yaml"
    base.write_text(f"storage: {{bucket: {demo.namespace}}}\n")  # without a bucket every install is refused
    for file in REJECTED:
        expected = file.read_text().splitlines()[0].removeprefix("# ")
        pattern = expected if file.stem.startswith("schema-") else re.escape(expected)
        with pytest.raises(FailedError, match=pattern):
            demo.helm("install", demo.name, str(CHART), "--values", str(base), "--values", str(file))
    demo.await_empty(10)
