"""HTTP and TLS on loopback: requests into calls, answers into bytes, and connections that are cut."""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.kube.server import port_forward
from tests.kube.server.calls import Call, Reply, Stream, Upgrade

Answer = Callable[[Call], Reply | Stream | Upgrade]


class Listener:
    """An HTTPS server on a free port, which it has again when it is started again. defects: what broke in it."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext) -> None:
        self.defects: list[BaseException] = []
        self._answer, self._tls = answer, tls
        self._port = 0
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self._port), _handler(self._answer), self._tls, self.defects)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """With all of its connections."""
        server, self._server = self._server, None
        if server:
            server.shutdown()
            server.server_close()
            _cut(server.connections)

    def cut_streams(self) -> None:
        """Ends the connections of answers that go on, in the middle."""
        if self._server:
            _cut(self._server.streaming)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Connections that are kept alive are cut, not waited for.
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: Any, handler: Any, tls: ssl.SSLContext, defects: list[BaseException]) -> None:
        super().__init__(address, handler)
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.connections: set[socket.socket] = set()
        self.streaming: set[socket.socket] = set()
        self._defects = defects

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    @contextlib.contextmanager
    def stream(self, wire: socket.socket) -> Iterator[None]:
        self.streaming.add(wire)
        try:
            yield
        finally:
            self.streaming.discard(wire)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that break are part of the tests; anything else is a defect of the server."""
        error = sys.exception()
        if error and not isinstance(error, ConnectionError | TimeoutError | ssl.SSLError):
            self._defects.append(error)
            super().handle_error(request, client_address)


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        server: _Server

        def _serve(self) -> None:
            match answer(_call(self)):
                case Reply() as reply:
                    self._send(reply)
                case Stream(parts):
                    with self.server.stream(self.connection):
                        self._send_parts(parts)
                case Upgrade(port, backend):
                    self._accept_websocket()
                    with self.server.stream(self.connection):
                        port_forward.forward(self.connection, port, backend)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815, the names are http.server's

        def _send(self, reply: Reply) -> None:
            data = reply.as_bytes()
            self.send_response(reply.code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _send_parts(self, parts: Iterator[bytes]) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in parts:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

        def _accept_websocket(self) -> None:
            self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", port_forward.accept_key(self.headers["Sec-WebSocket-Key"]))
            self.send_header("Sec-WebSocket-Protocol", port_forward.SUBPROTOCOL)
            self.end_headers()
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Api.calls is the log."""

    return Handler


def _call(handler: BaseHTTPRequestHandler) -> Call:
    url = urlsplit(handler.path)
    raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    headers = {name.lower(): value for name, value in handler.headers.items()}
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    return Call(handler.command, handler.path, url.path, query, headers, raw)


def _cut(connections: set[socket.socket]) -> None:
    for connection in list(connections):
        with contextlib.suppress(OSError):
            # Not SSLSocket.shutdown, which takes TLS away from the thread that is using it.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
