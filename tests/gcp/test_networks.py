"""Networks, subnets, firewall rules and APIs against the stand-in for Google Cloud."""

import threading

import pytest
from google.api_core import exceptions

from driver.errors import DriverError
from driver.gcp import operations
from driver.gcp.kinds.firewall import Firewall
from driver.gcp.kinds.network import Network
from driver.gcp.kinds.services import APIS, Services
from driver.gcp.kinds.subnet import Subnet
from driver.gcp.resource import Resource
from driver.gcp.waiting import Waiting, WaitStoppedError
from tests.gcp.clients import PROJECT
from tests.gcp.errors import GoogleError
from tests.gcp.faults import Fail
from tests.gcp.looking import look
from tests.gcp.sites import site

SITE = site()
NETWORK = Network(SITE, "multislice-net-1")
SUBNET = Subnet(SITE, "multislice-tpu-subnet-1", network=NETWORK, range="10.50.0.0/16")
FIREWALL = Firewall(SITE, "multislice-net-1-internal", network=NETWORK, range="10.50.0.0/16")
SCOPES: dict[type[Resource], str] = {
    Network: "global/networks", Subnet: "regions/us-east5/subnetworks", Firewall: "global/firewalls",
}  # fmt: skip
KINDS = pytest.mark.parametrize("resource", [NETWORK, SUBNET, FIREWALL], ids=lambda one: one.kind)


def make(resource, cloud):
    """With what it needs."""
    for one in [NETWORK] if resource is not NETWORK else []:
        one.create(cloud, Waiting())
    resource.create(cloud, Waiting())


def path(resource):
    return f"projects/{PROJECT}/{SCOPES[type(resource)]}/{resource.name}"


@KINDS
def test_nothing_is_found_before_it_is_made(cloud, resource):
    assert resource.describe(cloud) is None


@KINDS
def test_what_was_made_is_ours_and_as_wanted(google, cloud, resource):
    google.delays = {"network": 0.2, "subnet": 0.2, "firewall": 0.2}
    make(resource, cloud)
    there = look(resource, cloud)
    assert there.ours
    assert there.differences == ()


@KINDS
def test_what_carries_the_mark_is_listed(google, cloud, resource):
    make(resource, cloud)
    assert [one.name for one in type(resource).marked(SITE, cloud)] == [resource.name]
    other = site(cluster={"name": "multislice-2"})
    assert list(type(resource).marked(other, cloud)) == []


@KINDS
def test_what_is_deleted_is_gone_and_deleting_it_again_is_no_error(google, cloud, resource):
    make(resource, cloud)
    resource.delete(cloud, Waiting())
    assert path(resource) not in google.resources
    resource.delete(cloud, Waiting())


@KINDS
def test_what_others_made_is_not_ours(google, cloud, resource):
    make(resource, cloud)
    google.resources[path(resource)]["description"] = "the one of the other team"
    assert not look(resource, cloud).ours
    assert list(type(resource).marked(SITE, cloud)) == []


@KINDS
def test_an_operation_that_fails_raises_googles_error(google, cloud, resource):
    if resource is not NETWORK:
        NETWORK.create(cloud, Waiting())
    google.faults.add(1, Fail(GoogleError("PERMISSION_DENIED", "Quota 'X' exceeded.", reason="QUOTA_EXCEEDED")))
    with pytest.raises(exceptions.Forbidden, match="QUOTA_EXCEEDED: Quota 'X' exceeded"):
        resource.create(cloud, Waiting())


@KINDS
def test_the_permissions_that_it_names_are_enough(google, cloud, resource):
    if resource is not NETWORK:
        NETWORK.create(cloud, Waiting())
    allowed = resource.permissions
    google.permissions = set(allowed.describe + allowed.create)
    resource.create(cloud, Waiting())
    google.permissions = set(allowed.describe + allowed.delete)
    assert list(type(resource).marked(SITE, cloud)) != []
    resource.delete(cloud, Waiting())


def test_a_wait_can_be_stopped(google, cloud):
    google.delays = {"network": 3600}
    stop = threading.Event()
    with pytest.raises(WaitStoppedError):
        NETWORK.create(cloud, Waiting(lambda _: stop.set(), stop))


def test_a_network_is_in_custom_mode_with_the_large_mtu(google, cloud):
    NETWORK.create(cloud, Waiting())
    made = google.resources[path(NETWORK)]
    assert (made["autoCreateSubnetworks"], made["mtu"]) == (False, 8896)


def test_another_mtu_is_a_difference_that_cannot_be_changed(google, cloud):
    NETWORK.create(cloud, Waiting())
    google.resources[path(NETWORK)]["mtu"] = 1460
    (difference,) = look(NETWORK, cloud).differences
    assert (difference.found, difference.wanted, difference.in_place) == ("1460", "8896", False)


def test_an_existing_network_may_be_in_auto_mode_and_ours_may_not(google, cloud):
    small = site(network={"mtu": 1460})
    assert look(Network(small, "default", existing=True), cloud).differences == ()
    assert [one.field for one in look(Network(small, "default"), cloud).differences] == ["subnet mode"]


def test_an_existing_subnet_of_another_network_is_a_difference(google, cloud):
    subnet = Subnet(SITE, "default", network=Network(SITE, "mine", existing=True), existing=True)
    (difference,) = look(subnet, cloud).differences
    assert (difference.field, difference.found, difference.wanted) == ("network", "default", "mine")


def test_secondary_ranges_are_a_difference(google, cloud):
    make(SUBNET, cloud)
    google.resources[path(SUBNET)]["secondaryIpRanges"] = [{"rangeName": "pods", "ipCidrRange": "10.70.0.0/16"}]
    (difference,) = look(SUBNET, cloud).differences
    assert (difference.field, difference.found) == ("secondary ranges", "10.70.0.0/16")


def test_a_firewall_rule_that_was_narrowed_is_opened_again(google, cloud):
    make(FIREWALL, cloud)
    google.resources[path(FIREWALL)] |= {"allowed": [{"IPProtocol": "tcp", "ports": ["80"]}], "disabled": True}
    there = look(FIREWALL, cloud)
    assert [(one.field, one.in_place) for one in there.differences] == [("allowed", True), ("enforcement", True)]
    FIREWALL.update(cloud, there, Waiting())
    assert look(FIREWALL, cloud).differences == ()


def test_a_firewall_rule_for_some_hosts_only_is_a_difference(google, cloud):
    make(FIREWALL, cloud)
    google.resources[path(FIREWALL)]["targetTags"] = ["web"]
    assert [(one.field, one.found) for one in look(FIREWALL, cloud).differences] == [("target tags", "web")]


def test_a_network_is_deleted_when_what_uses_it_has_gone(google, cloud):
    make(FIREWALL, cloud)
    told = []

    def tell(text):
        told.append(text)
        if "in use" in text:
            google.resources.pop(path(FIREWALL), None)

    NETWORK.delete(cloud, Waiting(tell))
    assert any("already being used by" in text for text in told)
    assert path(NETWORK) not in google.resources


def test_a_network_that_stays_in_use_is_given_up_with_what_uses_it(google, cloud, monkeypatch):
    make(FIREWALL, cloud)
    monkeypatch.setattr(operations, "IN_USE_SECONDS", 0.2)
    with pytest.raises(DriverError, match=f"still in use.*{FIREWALL.name}"):
        NETWORK.delete(cloud, Waiting())
    assert {path(NETWORK), path(FIREWALL)} <= set(google.resources)


def test_what_another_is_still_making_is_waited_for_before_it_is_deleted(google, cloud):
    google.delays = {"network": 0.3}
    cloud.networks.insert_unary(
        request={"project": PROJECT, "network_resource": {"name": NETWORK.name, "auto_create_subnetworks": False}}
    )
    NETWORK.delete(cloud, Waiting())
    assert path(NETWORK) not in google.resources


def test_the_apis_that_are_off_are_enabled_in_one_call(google, cloud):
    for api in ("container", "cloudquotas"):
        del google.resources[f"projects/{PROJECT}/services/{api}.googleapis.com"]
    google.delays = {"services": 0.2}
    services = Services(SITE)
    there = look(services, cloud)
    assert {one.field for one in there.differences} == {"container.googleapis.com", "cloudquotas.googleapis.com"}
    assert all(one.in_place for one in there.differences)
    services.update(cloud, there, Waiting())
    assert look(services, cloud).differences == ()
    assert len(google.mutating_calls) == 1


def test_all_apis_fit_into_one_call():
    assert len(APIS) <= 20


def test_deleting_the_apis_leaves_them_enabled(google, cloud):
    Services(SITE).delete(cloud, Waiting())
    assert google.calls == []
