"""Forwarded ports: what a client on this machine sees of a pod's port while pods come and go.

The API server is tests/kube/server. That kube-apiserver, the kubelet and containerd do the same:
tests/cluster/test_watching.py.
"""

import contextlib
import hashlib
import http.client
import socket
import threading
import urllib.request

import pytest

from driver.errors import DriverError
from driver.kube import forwarding, ray_api, tunnel
from driver.kube.forwarding import Forward, http_get
from driver.kube.tunnel import Tunnel, TunnelError
from tests.kube import manifests
from tests.kube.server.api import Api
from tests.kube.server.objects import NAMESPACE
from tests.kube.server.pages import serving

HEAD, NEXT_HEAD = manifests.HEAD, f"{manifests.CLUSTER}-head-b"


@pytest.fixture
def quick(monkeypatch):
    """Looks for replaced pods, and tries again, often."""
    monkeypatch.setattr(forwarding, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(forwarding, "_RETRY_SECONDS", 0.02)


def put_head(api: Api, name: str = HEAD) -> None:
    api.put("pods", manifests.head(name=name))


@contextlib.contextmanager
def forward(api: Api, port: int = 0, told: list[str] | None = None):
    connection = api.connection()
    said: list[str] = [] if told is None else told
    with Forward(connection, lambda: ray_api.head(connection, "demo"), port, said.append) as made:
        yield made


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def test_one_request_reaches_the_pod_and_brings_back_its_answer(api):
    put_head(api)
    with serving(api, HEAD, 8265, {"/api": "yes"}):
        answer = http_get(api.connection(), NAMESPACE, HEAD, 8265, "/api")
    assert (answer.status, answer.body) == (200, b"yes")


def test_a_large_answer_comes_whole(api):
    put_head(api)
    large = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(60_000))
    with serving(api, HEAD, 8265, {"/large": large}):
        assert http_get(api.connection(), NAMESPACE, HEAD, 8265, "/large").body.decode() == large


def test_over_tls_nothing_waits_in_what_is_decrypted_already(api):
    put_head(api)
    large = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(20_000))
    with serving(api, HEAD, 8265, {"/large": large}), forward(api) as made:
        # Kept open: an end of the connection would bring the rest along.
        kept = http.client.HTTPConnection("127.0.0.1", made.port, timeout=10)
        kept.request("GET", "/large")
        assert kept.getresponse().read().decode() == large


@pytest.mark.parametrize("pod", [HEAD, "another"], ids=["nothing listens", "the pod is gone"])
def test_what_may_pass_is_told_apart(api, pod):
    put_head(api)
    with pytest.raises(TunnelError, match=f"nothing listens on port 8265 of {HEAD} yet|is gone"):
        http_get(api.connection(), NAMESPACE, pod, 8265, "/")


def test_a_refusal_says_which_right_is_missing(api):
    put_head(api)
    api.faults.denied.add(("get", "pods/portforward"))
    with pytest.raises(DriverError, match="pods/portforward"):
        http_get(api.connection(), NAMESPACE, HEAD, 8265, "/")


def test_a_pod_that_does_not_answer_is_given_up(api):
    put_head(api)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        api.ports[HEAD, 8265] = deaf.getsockname()[1]
        with pytest.raises(TunnelError, match="timed out"):
            http_get(api.connection(), NAMESPACE, HEAD, 8265, "/", seconds=0.2)


def test_an_api_server_that_accepts_and_says_nothing_is_given_up(api, monkeypatch):
    monkeypatch.setattr(tunnel, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"wss://127.0.0.1:{deaf.getsockname()[1]}/"
        monkeypatch.setattr("kubernetes.stream.ws_client.get_websocket_url", lambda _: url)
        with pytest.raises(TunnelError, match="cannot be reached: .*timed out"):
            http_get(api.connection(), NAMESPACE, HEAD, 8265, "/")


def test_the_port_leads_to_the_pod(api):
    put_head(api)
    with serving(api, HEAD, 8265, {"/": "dashboard"}), forward(api) as made:
        assert page(made.url) == "dashboard"


def test_many_connections_at_once_do_not_mix(api):
    put_head(api)
    pages = {f"/{number}": str(number) * 50_000 for number in range(8)}
    got: dict[str, str] = {}
    with serving(api, HEAD, 8265, pages), forward(api) as made:
        threads = [
            threading.Thread(target=lambda path=path: got.update({path: page(made.url + path)})) for path in pages
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert got == pages


def test_the_port_leads_to_the_pod_that_takes_the_place_of_another(api, quick):
    put_head(api)
    told: list[str] = []
    with serving(api, HEAD, 8265, {"/": "old"}), forward(api, told=told) as made:
        assert page(made.url) == "old"
        api.remove("pods", HEAD)
        put_head(api, NEXT_HEAD)
        with serving(api, NEXT_HEAD, 8265, {"/": "new"}):
            assert page(made.url) == "new"
    assert told == [f"connected to {HEAD}", f"connected to {NEXT_HEAD}"]


def test_a_connection_to_a_replaced_pod_is_closed(api, quick):
    """A node that is lost closes nothing: the browser would wait for ever."""
    put_head(api)
    with serving(api, HEAD, 8265, {"/": "old"}), forward(api) as made:
        kept = http.client.HTTPConnection("127.0.0.1", made.port, timeout=10)
        kept.request("GET", "/")
        assert kept.getresponse().read() == b"old"
        assert kept.sock is not None
        api.remove("pods", HEAD)
        put_head(api, NEXT_HEAD)
        assert kept.sock.recv(1) == b""


def test_a_client_that_comes_while_there_is_no_pod_waits_for_it(api, quick):
    told: list[str] = []
    arrived = threading.Event()
    connection = api.connection()

    def tell(what: str) -> None:
        told.append(what)
        arrived.set()

    with Forward(connection, lambda: ray_api.head(connection, "demo"), tell=tell) as made:
        got: list[str] = []
        client = threading.Thread(target=lambda: got.append(page(made.url)))
        client.start()
        assert arrived.wait(10)
        with serving(api, HEAD, 8265, {"/": "here"}):
            put_head(api)
            client.join(10)
    assert got == ["here"]
    assert told == ["waiting for the pod, which is not there yet", f"connected to {HEAD}"]


def test_a_broken_stream_closes_the_clients_connection_and_the_next_one_works(api, quick):
    put_head(api)
    with serving(api, HEAD, 8265, {"/": "here"}), forward(api) as made:
        kept = http.client.HTTPConnection("127.0.0.1", made.port, timeout=10)
        kept.request("GET", "/")
        kept.getresponse().read()
        assert kept.sock is not None
        api.cut_streams()
        assert kept.sock.recv(1) == b""
        assert page(made.url) == "here"


def test_the_port_is_free_again_at_the_end_also_with_connections_open(api):
    put_head(api)
    with serving(api, HEAD, 8265, {"/": "here"}):
        with forward(api) as made:
            kept = http.client.HTTPConnection("127.0.0.1", made.port, timeout=10)
            kept.request("GET", "/")
            kept.getresponse().read()
        with forward(api, made.port) as again:
            assert page(again.url) == "here"


def test_no_thread_is_left(api):
    put_head(api)
    with serving(api, HEAD, 8265, {"/": "here"}) as pod:
        with forward(api) as made:
            page(made.url)
        assert pod.asked
    left = [each for each in threading.enumerate() if each.name.startswith("port ")]
    for each in left:
        each.join(5)
    assert not any(each.is_alive() for each in left)


def test_a_port_that_is_taken_is_said(api):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DriverError, match=f"Port {port} of this machine cannot be used"):
            Forward(api.connection(), lambda: None, port)


CONTAINERD = (
    "error forwarding port 8265 to pod 93fade4c, uid : failed to execute portforward in network namespace "
    '"/var/run/netns/cni-5b2": failed to connect to localhost:8265 inside namespace "93fade4c", IPv4: dial tcp4 '
    "127.0.0.1:8265: {} IPv6 dial tcp6: address localhost: no suitable address found"
)


@pytest.mark.parametrize(
    ("said", "trouble", "not_listening"),
    [
        (CONTAINERD.format("connect: connection refused"), "connection refused", True),
        (CONTAINERD.format("i/o timeout"), "i/o timeout", False),
        ("error forwarding port 8265 to pod x, uid : failed to find sandbox x: not found", "not found", False),
    ],
)
def test_of_what_the_node_says_only_the_cause_is_kept(said, trouble, not_listening):
    here, there = socket.socketpair()
    with here, there:
        tunnel = Tunnel(None, here)
        for data in (b"\x49\x20", said.encode()):
            tunnel._take(1, data)
    assert (tunnel.trouble, tunnel.not_listening) == (trouble, not_listening)
