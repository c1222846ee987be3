"""HTTP: requests into calls, replies into bytes, and connections that are cut in the middle."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.gcp.routing import Call, Reply

Answer = Callable[[Call], tuple[Reply, bool]]


class Listener:
    """A server on a free port of loopback. tls: for HTTPS."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._server = _Server(("127.0.0.1", 0), _handler(answer))
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{'https' if tls else 'http'}://{self.address}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def defects(self) -> list[BaseException]:
        return self._server.defects

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Connections that are kept alive end with the process, not with the server.
    block_on_close = False
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.defects: list[BaseException] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Callers that went away are part of the tests; anything else is a defect of the server."""
        error = sys.exception()
        if error and not isinstance(error, ConnectionError | TimeoutError | ssl.SSLError):
            self.defects.append(error)
            super().handle_error(request, client_address)


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            reply, cut = answer(_call(self))
            _send(self, reply, cut)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Google.calls is the log."""

    return Handler


def _call(handler: BaseHTTPRequestHandler) -> Call:
    url = urlsplit(handler.path)
    raw = _body(handler)
    headers = {key.lower(): value for key, value in handler.headers.items()}
    # Kubernetes' own client may name no type.
    is_json = "json" in headers.get("content-type", "json")
    body = json.loads(raw) if raw and is_json else {}
    query: dict[str, str] = {}
    for key, value in parse_qsl(url.query, keep_blank_values=True):
        query[key] = f"{query[key]},{value}" if key in query else value  # a repeated field is a list
    return Call(handler.command, url.path, query, body, raw, headers, target=handler.path)


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("Transfer-Encoding", "").lower() == "chunked":
        raw = b""
        while size := int(handler.rfile.readline().strip() or b"0", 16):
            raw += handler.rfile.read(size)
            handler.rfile.readline()
        handler.rfile.readline()
    else:
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    return gzip.decompress(raw) if handler.headers.get("Content-Encoding") == "gzip" else raw


def _send(handler: BaseHTTPRequestHandler, reply: Reply, cut: bool) -> None:
    body = reply.as_bytes()
    handler.send_response(reply.code)
    headers = {"Content-Type": "application/json; charset=UTF-8"} | reply.headers
    for name, value in headers.items():
        if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
            handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2] if cut else body)
    if cut:
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True
