"""The run's gauges, from the host that has them."""

import contextlib

import pytest

from driver.errors import DriverError
from driver.kube import snapshot
from driver.kube.gauges import RunGauges
from tests.kube import manifests
from tests.kube.server.api import Api
from tests.kube.server.pages import serving

FIRST, SECOND = manifests.worker_name(0, 0), manifests.worker_name(1, 0)
"""The first hosts of the slices."""

METRICS = """\
# TYPE ray_maxtext_step gauge
ray_maxtext_step{attempt="1",run="demo"} 12.0
# TYPE ray_tasks gauge
ray_tasks{State="RUNNING"} 3.0
"""


class Watched:
    """A release of two slices of two hosts, a clock, and the hosts' metrics."""

    def __init__(self, api: Api, stack: contextlib.ExitStack) -> None:
        self.connection = api.connection()
        self.now = 100.0
        self.gauges = RunGauges(self.connection, lambda: self.now)
        self.pods = {}
        for number in range(2):
            for host in range(2):
                name = api.put("pods", manifests.worker(number, host))["metadata"]["name"]
                self.pods[name] = stack.enter_context(serving(api, name, 8080, {"/metrics": ""}))
        api.put("rayclusters", manifests.ray_cluster())
        self.seen = snapshot.read(self.connection, "demo")

    def read(self) -> dict[str, float]:
        found = dict(self.gauges.read(self.seen))
        self.now += 1.0
        return found

    def asked(self) -> dict[str, int]:
        return {name: len(pod.asked) for name, pod in self.pods.items() if pod.asked}


@pytest.fixture
def watched(api):
    with contextlib.ExitStack() as stack:
        yield Watched(api, stack)


def test_process_0_is_on_the_first_host_of_the_first_slice(watched):
    watched.pods[FIRST].pages["/metrics"] = METRICS
    assert watched.read() == {"step": 12.0}
    assert watched.asked() == {FIRST: 1}


def test_within_a_second_nobody_is_asked_again(watched):
    watched.pods[FIRST].pages["/metrics"] = METRICS
    watched.read()
    watched.now -= 0.5
    assert watched.read() == {"step": 12.0}
    assert watched.asked() == {FIRST: 1}


def test_where_slice_0_does_not_train_the_next_ones_are_asked_one_a_second(watched):
    watched.pods[SECOND].pages["/metrics"] = METRICS
    assert [watched.read() for _ in range(3)] == [{}, {"step": 12.0}, {"step": 12.0}]
    assert watched.asked() == {FIRST: 1, SECOND: 2}


def test_a_host_that_reports_no_more_makes_the_search_begin_anew(watched):
    watched.pods[SECOND].pages["/metrics"] = METRICS
    watched.read()
    watched.read()
    watched.pods[SECOND].pages["/metrics"] = ""
    watched.pods[FIRST].pages["/metrics"] = METRICS
    assert watched.read() == {}
    assert watched.read() == {"step": 12.0}


def test_a_pod_that_cannot_be_asked_is_no_error_and_said(watched, api):
    del api.ports[FIRST, 8080]
    assert watched.read() == {}
    assert watched.gauges.trouble == f"nothing listens on port 8080 of {FIRST} yet"
    api.ports[FIRST, 8080] = watched.pods[FIRST].port


def test_who_may_not_forward_ports_is_told_so(watched, api):
    api.faults.denied.add(("get", "pods/portforward"))
    with pytest.raises(DriverError, match="pods/portforward"):
        watched.read()
