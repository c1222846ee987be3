"""Values that cannot work never reach the API server: Helm itself refuses them."""

import pytest

from tests.chart.test_rejected import REJECTED
from tests.cluster.release import FailedError, Release


@pytest.mark.full
def test_nothing_of_a_rejected_values_file_reaches_the_cluster(demo: Release):
    for file in REJECTED:
        with pytest.raises(FailedError, match=r"problems? in the values of demo|values don't meet the specifications"):
            demo.install(files=[file])
    demo.await_empty(10)
