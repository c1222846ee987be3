"""What Ray's dashboard says of nodes and jobs, through the API server."""

import json

import pytest

from driver.errors import DriverError
from driver.kube import parsing, ray_api
from tests.kube import manifests
from tests.kube.server.pages import serving

NODES = "/api/v0/nodes?detail=1&limit=10000"
LABELS = {"ray.io/tpu-slice-name": "workers-1", "ray.io/tpu-worker-id": "3", "ray.io/tpu-topology": "4x4"}
NODE = {
    "node_id": "ab", "node_ip": "10.0.1.3", "state": "ALIVE", "is_head_node": False, "state_message": None,
    "labels": LABELS, "resources_total": {"TPU": 4.0}, "start_time_ms": 1_000, "end_time_ms": 0,
}  # fmt: skip


@pytest.fixture
def head(api):
    api.put("pods", manifests.head())
    with serving(api, manifests.HEAD, 8265, {}) as pages:
        yield pages


@pytest.fixture
def nodes(api, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a-token")
    return lambda: ray_api.nodes(api.connection(), "demo", manifests.CLUSTER)


def test_a_node_has_its_place_in_a_slice(head, nodes):
    head.pages[NODES] = json.dumps({"result": True, "data": {"result": {"result": [NODE]}}})
    (node,) = nodes()
    assert (node.slice_name, node.slice, node.worker_id, node.topology) == ("workers-1", 1, 3, "4x4")
    assert (node.alive, node.resources["TPU"]) == (True, 4.0)
    assert head.asked == [(NODES, "Bearer a-token")]


@pytest.mark.parametrize("answer", ['{"data": null}', "[]"])
def test_a_dashboard_that_starts_has_no_nodes(head, nodes, answer):
    head.pages[NODES] = answer
    assert nodes() == []


def test_an_answer_that_cannot_be_read_is_told(head, nodes):
    head.pages[NODES] = "<html>"
    with pytest.raises(DriverError, match="Ray's nodes cannot be read"):
        nodes()


def test_without_a_head_the_dashboard_is_not_up_yet(nodes):
    with pytest.raises(DriverError, match="not up yet: no Ray head is running"):
        nodes()


def test_a_head_that_starts_has_no_dashboard_yet(api, nodes):
    api.put("pods", manifests.head())
    with pytest.raises(DriverError, match=f"nothing listens on port 8265 of {manifests.HEAD} yet.*\n.*\n.*look again"):
        nodes()


@pytest.mark.parametrize(("spec", "name"), [({}, manifests.CLUSTER), ({"secretName": "mine"}, "mine")])
def test_the_token_is_in_the_secret_that_the_pods_have(api, monkeypatch, spec, name):
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    cluster = parsing.ray_cluster(manifests.ray_cluster(authOptions={"mode": "token", **spec}))
    api.faults.refuse(403, part=f"/secrets/{name}")
    with pytest.raises(DriverError, match=f"secrets/{name}"):
        ray_api.token(api.connection(), cluster.token_secret)


def test_a_token_in_the_environment_needs_no_secret(api, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "given")
    assert ray_api.token(api.connection(), "demo") == "given"


def test_what_an_editor_puts_behind_a_token_is_not_of_it(api, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "given\n")
    assert ray_api.token(api.connection(), "demo") == "given"


def test_a_token_that_no_header_takes_is_refused_and_not_shown(api, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "se\ncret")
    with pytest.raises(DriverError) as refused:
        ray_api.token(api.connection(), "demo")
    assert "cret" not in str(refused.value)


def test_a_cluster_without_a_token_needs_none(api):
    assert ray_api.token(api.connection(), parsing.ray_cluster(manifests.ray_cluster()).token_secret) == ""
