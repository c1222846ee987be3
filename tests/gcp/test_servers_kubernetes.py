"""The Kubernetes APIs of the clusters."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3
from google.auth.transport.requests import Request
from google.oauth2 import service_account
from kubernetes import client

from tests.gcp.clients import CLUSTER, PROJECT, Clients
from tests.gcp.google import Google
from tests.gcp.tokens import TOKEN

Connect = Callable[[str], Any]


@pytest.fixture
def connect(google: Google, clients: Clients, tmp_path: Path) -> Connect:
    """A client for the cluster, as its kubeconfig entry would make it, with that token."""

    def with_token(token: str) -> Any:
        cluster = clients.clusters.get_cluster(name=CLUSTER)
        authority = tmp_path / "ca.crt"
        authority.write_bytes(base64.b64decode(cluster.master_auth.cluster_ca_certificate))
        configuration = client.Configuration(host=f"https://{cluster.endpoint}")
        configuration.ssl_ca_cert = str(authority)
        configuration.api_key = {"authorization": f"Bearer {token}"}
        return client.ApiClient(configuration)

    return with_token


def test_a_cluster_has_no_endpoint_until_it_runs(google: Google, clients: Clients) -> None:
    google.delays["cluster"] = 3600
    clients.make_cluster()
    assert clients.clusters.get_cluster(name=CLUSTER).endpoint == ""
    google.finish_all()
    assert clients.clusters.get_cluster(name=CLUSTER).endpoint


def test_a_namespace_is_made_once_read_labelled_and_deleted(clients: Clients, connect: Connect) -> None:
    clients.make_cluster()
    core: Any = client.CoreV1Api(connect(TOKEN))
    body = client.V1Namespace(metadata=client.V1ObjectMeta(name="maxtext", labels={"team": "a"}))
    core.create_namespace(body)
    assert core.read_namespace("maxtext").metadata.labels == {"team": "a"}
    with pytest.raises(client.ApiException) as refused:
        core.create_namespace(body)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    core.patch_namespace("maxtext", {"metadata": {"labels": {"owner": "b"}}})
    assert core.read_namespace("maxtext").metadata.labels == {"team": "a", "owner": "b"}
    core.delete_namespace("maxtext")
    assert [one.metadata.name for one in core.list_namespace().items] == ["default", "kube-system"]


def test_a_namespace_is_part_of_the_state_and_the_log(google: Google, clients: Clients, connect: Connect) -> None:
    clients.make_cluster()
    client.CoreV1Api(connect(TOKEN)).create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="maxtext")))
    assert f"{CLUSTER}/namespaces/maxtext" in google.state()
    assert google.mutating_calls[-1].path == "/api/v1/namespaces"


def test_rays_objects_are_listed(google: Google, clients: Clients, connect: Connect) -> None:
    clients.make_cluster()
    google.kubernetes.add(CLUSTER, "rayclusters", "maxtext", "demo")
    custom: Any = client.CustomObjectsApi(connect(TOKEN))
    everywhere = custom.list_cluster_custom_object("ray.io", "v1", "rayclusters")["items"]
    assert [one["metadata"]["namespace"] for one in everywhere] == ["maxtext"]
    assert custom.list_namespaced_custom_object("ray.io", "v1", "other", "rayclusters")["items"] == []


def test_rays_objects_come_with_the_addon(clients: Clients, connect: Connect) -> None:
    clients.make_cluster(addons_config=None)
    with pytest.raises(client.ApiException) as refused:
        client.CustomObjectsApi(connect(TOKEN)).list_cluster_custom_object("ray.io", "v1", "rayjobs")
    assert refused.value.status == 404


def test_a_token_that_google_did_not_give_is_refused(clients: Clients, connect: Connect) -> None:
    clients.make_cluster()
    with pytest.raises(client.ApiException) as refused:
        client.CoreV1Api(connect("made-up")).list_namespace()
    assert refused.value.status == 401


def test_a_deleted_cluster_answers_no_more(clients: Clients, connect: Connect) -> None:
    clients.make_cluster()
    core: Any = client.CoreV1Api(connect(TOKEN))
    clients.clusters.delete_cluster(name=CLUSTER)
    clients.clusters.list_clusters(parent=CLUSTER.rpartition("/clusters")[0])
    with pytest.raises(urllib3.exceptions.MaxRetryError):
        core.list_namespace(_request_timeout=5)


def test_a_real_api_server_is_handed_out_with_the_token_that_it_knows(google: Google, clients: Clients) -> None:
    google.kubernetes.hand_out("203.0.113.7:6443", "Q0E=")
    google.tokens.granted = "known"
    clients.make_cluster()
    cluster = clients.clusters.get_cluster(name=CLUSTER)
    assert (cluster.endpoint, cluster.master_auth.cluster_ca_certificate) == ("203.0.113.7:6443", "Q0E=")
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    account: Any = service_account.Credentials
    credentials = account.from_service_account_info(google.tokens.key_file(PROJECT), scopes=scopes)
    credentials.refresh(Request())
    assert credentials.token == "known"
