"""What a run is followed by, read with the Kubernetes client from an API server of the tests."""

import pytest

from driver.errors import DriverError
from driver.kube.following import GoneError
from driver.kube.gauges import reporting_hosts
from driver.kube.source import ClusterSource
from tests.kube import manifests
from tests.kube.stage import job, pod, snapshot


def submitter(name, created):
    return pod(name, role="submitter", created=created)


def put_submitter(api, name, *said, phase="Succeeded"):
    """Its pod, and what it has printed."""
    api.put("pods", manifests.submitter(name))
    api.logs.say(name, *said)
    api.logs.end(name, phase)


def words(api, *submitters):
    return ClusterSource(api.connection(), "demo").words(snapshot(job(), submitters=submitters))


def test_the_words_are_those_of_all_submitters_the_newest_last(api):
    put_submitter(api, "b", "run failed: second")
    put_submitter(api, "a", "run failed: first")
    both = (submitter("b", "2026-11-30T12:05:00Z"), submitter("a", "2026-11-30T12:00:00Z"))
    assert words(api, *both).split("\n") == ["run failed: first", "", "run failed: second", ""]


def test_a_submitter_that_has_not_begun_has_no_words(api):
    put_submitter(api, "a", phase="Pending")
    assert words(api, submitter("a", "")) == ""


def test_a_log_that_may_not_be_read_says_which_right_is_missing(api):
    put_submitter(api, "a")
    api.faults.denied.add(("get", "pods/log"))
    with pytest.raises(DriverError, match="pods/log"):
        words(api, submitter("a", ""))


def test_figures_that_may_not_be_read_are_trouble_and_do_not_end_the_following(api):
    api.put_all(manifests.whole())
    api.faults.denied.add(("get", "pods/portforward"))
    source = ClusterSource(api.connection(), "demo")
    seen = source.snapshot()
    assert seen is not None
    assert source.gauges(seen) == {}
    assert "pods/portforward" in source.trouble


def test_an_api_server_that_is_away_is_no_error(api):
    source = ClusterSource(api.connection(), "demo")
    api.stop()
    assert source.snapshot() is None


def test_a_release_that_is_not_there_is_told_apart(api):
    with pytest.raises(GoneError):
        ClusterSource(api.connection(), "demo").snapshot()


def test_a_cluster_without_kuberay_says_so(api):
    api.without.add("rayjobs")
    with ClusterSource(api.connection(), "demo") as source, pytest.raises(DriverError, match="knows no rayjobs"):
        any(not source.wait(5) for _ in range(100))


def test_the_first_hosts_of_the_slices_may_report(api):
    assert [host.name for host in reporting_hosts(snapshot(job()))] == ["demo-0-0", "demo-1-0"]


def test_where_the_numbers_are_not_known_every_host_of_a_slice_may(api):
    unnumbered = snapshot(job())
    slices = tuple(
        type(one)(one.number, one.size, tuple(pod(host.name, one.number) for host in one.hosts))
        for one in unnumbered.slices
    )
    assert len(reporting_hosts(snapshot(job(), slices=slices))) == 4


def test_a_host_that_is_not_ready_does_not_report():
    assert [host.name for host in reporting_hosts(snapshot(job(), ready=(0, 2)))] == ["demo-1-0"]
