"""One connection to a port of a pod, through the API server: bytes of a local socket over a WebSocket.

The wire format is Kubernetes' own (v4.channel.k8s.io): a frame begins with its channel's number, 0 for the data and 1
for the kubelet's complaint, and the first frame of each channel repeats the port. The client library's PortForward
(kubernetes 37) speaks it too, but leaves its caller waiting for ever when the API server breaks the connection, and
prints the stack trace of its thread.
"""

from __future__ import annotations

import selectors
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kubernetes import client
from kubernetes.client import ApiException
from kubernetes.stream import ws_client
from websocket import ABNF, WebSocket, WebSocketBadStatusException, WebSocketException

from driver.kube.connection import CONNECT_SECONDS

if TYPE_CHECKING:
    from driver.kube.connection import Connection

_DATA, _ERROR = 0, 1
_REFUSED = "connection refused"
_BUFFER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_FRAME_SECONDS = 30.0
# A client that has said all may still read; one that is gone cannot be told from it until something is sent.
_LINGER_SECONDS = 5.0


class TunnelError(Exception):
    """The connection was not made or broke; another one may do better. The message says why."""


class NotListeningError(TunnelError):
    """The pod is there, or is about to be, and nothing listens on its port yet."""


def opened(connection: Connection, namespace: str, pod: str, port: int) -> Any:
    """A WebSocket to a port of a pod.

    Raises an ApiException where the API server refuses (403, 404, ...), and a TunnelError where it is not reached.
    """
    configuration = connection.api.configuration
    headers = {"sec-websocket-protocol": ws_client.V4_CHANNEL_PROTOCOL}
    bearer = configuration.auth_settings().get("BearerToken", {}).get("value")
    if bearer:
        headers["authorization"] = bearer
    url = f"{configuration.host}/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"
    try:
        return _websocket(configuration, ws_client.get_websocket_url(url), headers)
    except WebSocketBadStatusException as error:
        body = (error.resp_body or b"").decode(errors="replace")
        refused = ApiException(status=error.status_code, reason=body or str(error))
        refused.body = body
        raise refused from None
    except (OSError, WebSocketException) as error:
        raise TunnelError(f"the Kubernetes API cannot be reached: {error}") from error


def _websocket(configuration: client.Configuration, url: str, headers: Mapping[str, str]) -> WebSocket:
    """As the client library's create_websocket, which waits for ever for a server that accepts and says nothing."""
    tls: dict[str, Any] = {"cert_reqs": ssl.CERT_NONE}
    if configuration.verify_ssl:
        tls["cert_reqs"] = ssl.CERT_REQUIRED
        if configuration.ssl_ca_cert:
            tls["ca_certs"] = configuration.ssl_ca_cert
        if configuration.assert_hostname is not None:
            tls["check_hostname"] = configuration.assert_hostname
    named = {
        "certfile": configuration.cert_file,
        "keyfile": configuration.key_file,
        "server_hostname": configuration.tls_server_name,
    }
    websocket = WebSocket(sslopt=tls | {name: value for name, value in named.items() if value})
    options: dict[str, Any] = {"header": [f"{name}: {value}" for name, value in headers.items()]}
    if configuration.proxy or configuration.proxy_headers:
        options = ws_client.websocket_proxycare(options, configuration, url, dict(headers))
    connect: Any = websocket.connect  # it has no types
    connect(url, timeout=CONNECT_SECONDS, **options)
    return websocket


class Tunnel:
    """Carries bytes between `local` and a WebSocket of `opened`, in one thread, with bounded buffers.

    trouble: why it ended, empty where one of the ends was simply done. not_listening: whether the pod has refused it.
    """

    def __init__(self, websocket: Any, local: socket.socket) -> None:
        self.trouble = ""
        self.not_listening = False
        self._websocket, self._local = websocket, local
        self._to_local = bytearray()
        self._seen: set[int] = set()
        self._local_done = self._remote_done = self._cut = False

    def cut(self) -> None:
        """Ends it, from another thread."""
        self._cut = True
        _shut(self._local)

    def run(self) -> None:
        """Until either end is done or breaks; both are closed then."""
        try:
            self._local.setblocking(False)
            self._websocket.settimeout(_FRAME_SECONDS)
            while self._step():
                pass
        except (OSError, WebSocketException) as error:
            if not self._cut:
                self.trouble = self.trouble or str(error) or type(error).__name__
        finally:
            _shut(self._local)
            self._local.close()
            self._websocket.shutdown()

    def _step(self) -> bool:
        if self._cut or (self._remote_done and not self._to_local):
            return False
        with selectors.DefaultSelector() as selector:
            events = 0 if self._local_done else selectors.EVENT_READ
            events |= selectors.EVENT_WRITE if self._to_local else 0
            if events:
                selector.register(self._local, events)
            if not self._remote_done and len(self._to_local) < _BUFFER_BYTES:
                selector.register(self._websocket.sock, selectors.EVENT_READ)
            ready = selector.select(_LINGER_SECONDS if self._local_done else None)
        if not ready:
            return False
        for key, mask in ready:
            if key.fileobj is self._websocket.sock:
                self._receive()
            elif not self._exchange(mask):
                return False
        return True

    def _exchange(self, mask: int) -> bool:
        """Writes to and reads from the local end; False when it is gone, which is no trouble."""
        data = b""
        try:
            if mask & selectors.EVENT_WRITE:
                del self._to_local[: self._local.send(self._to_local[:_CHUNK_BYTES])]
            if mask & selectors.EVENT_READ:
                data = self._local.recv(_CHUNK_BYTES)
                self._local_done = not data
        except ConnectionError:
            return False
        if data:
            self._websocket.send_binary(bytes((_DATA,)) + data)
        return True

    def _receive(self) -> None:
        pending = True
        while pending and not self._remote_done:
            opcode, frame = self._websocket.recv_data_frame(True)
            if opcode == ABNF.OPCODE_CLOSE:
                self._remote_done = True
            elif opcode == ABNF.OPCODE_BINARY and frame.data:
                self._take(frame.data[0], frame.data[1:])
            wire = self._websocket.sock
            # What TLS has decrypted already, no selector sees.
            pending = isinstance(wire, ssl.SSLSocket) and wire.pending() > 0

    def _take(self, channel: int, data: bytes) -> None:
        if channel not in self._seen:
            self._seen.add(channel)
        elif channel == _DATA:
            self._to_local += data
        elif channel == _ERROR:
            said = data.decode(errors="replace").strip()
            self.trouble, self.not_listening = _last_clause(said), _REFUSED in said.lower()
            self._remote_done = True


def _last_clause(said: str) -> str:
    """The cause in a sentence of the node's container runtime, which names namespaces and sockets before it. Of a
    connection that was tried over both, containerd (2.1) tells how it went over IPv4, and then over IPv6."""
    return said.partition(" IPv6 dial ")[0].rpartition(": ")[2]


def _shut(wire: socket.socket) -> None:
    try:
        wire.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is shut already
