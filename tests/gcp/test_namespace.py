"""The namespace, through the cluster's own Kubernetes API and with Google's token."""

import base64

import pytest
import trustme

from driver.errors import DriverError
from driver.gcp import apply
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.namespace import Namespace
from driver.gcp.resource import MARK, Found
from driver.gcp.waiting import Waiting
from tests.gcp.clients import PROJECT
from tests.gcp.errors import GoogleError
from tests.gcp.faults import Refuse
from tests.gcp.looking import look
from tests.gcp.sites import site

CLUSTER = f"projects/{PROJECT}/locations/us-east5-b/clusters/multislice"


@pytest.fixture
def namespace(cloud):
    cluster = Cluster(site())
    cluster.create(cloud, Waiting())
    return Namespace(site(), cluster)


def test_it_is_made_with_our_mark(cloud, google, namespace):
    assert namespace.describe(cloud) is None
    namespace.create(cloud, Waiting())
    assert look(namespace, cloud).ours
    assert google.resources[f"{CLUSTER}/namespaces/maxtext"]["metadata"]["labels"] == namespace.labels


def test_one_of_others_is_used_and_not_touched(cloud, google, namespace):
    google.kubernetes.add(CLUSTER, "namespaces", "", "maxtext")
    before = len(google.mutating_calls)
    found = look(namespace, cloud)
    assert not found.ours
    assert not found.differences
    assert namespace.shared
    assert len(google.mutating_calls) == before


def test_one_that_another_made_meanwhile_is_as_good(cloud, google, namespace, monkeypatch):
    looks = iter([None, Found(ours=False)])
    monkeypatch.setattr(namespace, "describe", lambda cloud: next(looks))
    google.kubernetes.add(CLUSTER, "namespaces", "", "maxtext")
    apply.make(namespace, cloud, Waiting())
    monkeypatch.undo()
    assert not look(namespace, cloud).ours


def test_one_that_is_leaving_is_unfinished(cloud, google, namespace):
    google.kubernetes.add(CLUSTER, "namespaces", "", "maxtext", status={"phase": "Terminating"})
    assert look(namespace, cloud).unfinished == "Terminating"


def test_it_is_deleted_and_may_be_gone_before(cloud, namespace):
    namespace.create(cloud, Waiting())
    namespace.delete(cloud, Waiting())
    assert namespace.describe(cloud) is None
    namespace.delete(cloud, Waiting())


def test_without_a_cluster_there_is_none_to_see_and_none_to_delete(cloud):
    namespace = Namespace(site(), Cluster(site()))
    assert namespace.describe(cloud) is None
    namespace.delete(cloud, Waiting())
    with pytest.raises(DriverError, match="GKE cluster multislice is not there"):
        namespace.create(cloud, Waiting())


def test_in_a_cluster_of_others_ours_are_found_under_earlier_names_too(cloud, google, namespace):
    existing = site(cluster={"existing": True})
    for name, labels in (("earlier", {MARK: existing.id}), ("other", {MARK: "other_us-east5-b"}), ("plain", {})):
        google.kubernetes.add(CLUSTER, "namespaces", "", name, metadata={"labels": labels})
    assert [one.key for one in Namespace.marked(existing, cloud)] == ["namespace earlier"]


def test_our_own_cluster_takes_its_namespaces_along(cloud, namespace):
    namespace.create(cloud, Waiting())
    assert Namespace.marked(site(), cloud) == ()


def test_a_refusal_names_the_right_that_is_missing(cloud, google, namespace):
    google.faults.add(1, Refuse(GoogleError("PERMISSION_DENIED", "forbidden")))
    with pytest.raises(DriverError, match=r"container\.namespaces\.create"):
        namespace.create(cloud, Waiting())


def test_a_cluster_out_of_reach_is_said(cloud, google, namespace):
    google.resources[CLUSTER]["endpoint"] = "127.0.0.1:9"
    with pytest.raises(DriverError, match="cannot be reached") as caught:
        namespace.describe(cloud)
    assert "authorized networks" in caught.value.fix


def test_the_clusters_certificate_is_checked(cloud, google, namespace):
    google.resources[CLUSTER]["masterAuth"] = {"clusterCaCertificate": _another_authority()}
    with pytest.raises(DriverError, match="certificate"):
        namespace.describe(cloud)


def test_kubectl_makes_the_same_one():
    commands = Namespace(site(), Cluster(site())).gcloud()
    assert [command.arguments[:2] for command in commands] == [
        ("gcloud", "container"),
        ("kubectl", "--context=gke_demo-project_us-east5-b_multislice"),
        ("kubectl", "--context=gke_demo-project_us-east5-b_multislice"),
    ]
    assert commands[0].arguments[2:] == (
        *("clusters", "get-credentials", "multislice"),
        *("--project=demo-project", "--location=us-east5-b"),
    )
    assert commands[1].arguments[2:] == ("create", "namespace", "maxtext")


def _another_authority():
    return base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
