"""Hosts that are taken away, with the Kubernetes client against an API server of the tests."""

import pytest

from driver.errors import DriverError
from driver.kube import taking
from tests.kube import manifests
from tests.kube.stage import pod

NAMES = [manifests.worker_name(1, host) for host in range(2)]
HOSTS = [pod(name, 1, host) for host, name in enumerate(NAMES)]


@pytest.fixture(autouse=True)
def hosts(api):
    """Slice 1, whose pods have 15 s to end."""
    for host in range(2):
        manifest = manifests.worker(1, host)
        manifest["spec"]["terminationGracePeriodSeconds"] = 15
        api.put("pods", manifest)


def deletions(api):
    return [call.target for call in api.calls if call.method == "DELETE"]


def test_a_pods_own_grace_holds_where_it_is_less_than_the_notice(api):
    taking.take(api.connection(), HOSTS, 30)
    assert deletions(api) == [f"/api/v1/namespaces/team/pods/{name}?gracePeriodSeconds=15" for name in NAMES]


def test_without_grace_the_hosts_vanish(api):
    taking.take(api.connection(), HOSTS, 0)
    assert deletions(api)
    assert all(path.endswith("gracePeriodSeconds=0") for path in deletions(api))


def test_a_pod_that_is_gone_already_is_no_error(api):
    api.faults.refuse(404, f'pods "{NAMES[0]}" not found', method="DELETE", part=NAMES[0])
    taking.take(api.connection(), HOSTS, 30)
    assert len(deletions(api)) == 2


def test_a_refusal_is_explained(api):
    api.faults.denied.add(("delete", "pods"))
    with pytest.raises(DriverError, match="delete pods"):
        taking.take(api.connection(), HOSTS, 30)


def test_who_may_delete_pods_goes_on(api):
    taking.check_right(api.connection())
    asked = api.calls[0].body["spec"]["resourceAttributes"]
    assert (asked["namespace"], asked["verb"], asked["resource"]) == ("team", "delete", "pods")


def test_who_may_not_is_told_what_gives_the_right(api):
    api.faults.denied.add(("delete", "pods"))
    with pytest.raises(DriverError) as error:
        taking.check_right(api.connection())
    assert "create role preempt --verb=delete --resource=pods" in error.value.fix
