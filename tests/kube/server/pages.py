"""What listens in a pod: a small HTTP server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.kube.server.api import Api


class Pages:
    """An HTTP server on loopback. pages: what it answers by path, else 404. asked: paths with their Authorization."""

    def __init__(self, pages: dict[str, str]) -> None:
        self.pages = pages
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization", "")))
                body = outer.pages.get(self.path, "").encode()
                self.send_response(200 if self.path in outer.pages else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Pages.asked is the log."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.port: int = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@contextlib.contextmanager
def serving(api: Api, pod: str, port: int, pages: dict[str, str]) -> Iterator[Pages]:
    """The pod's port answers with these pages in the block."""
    made = Pages(pages)
    api.ports[pod, port] = made.port
    try:
        yield made
    finally:
        del api.ports[pod, port]
        made.server.shutdown()
        made.server.server_close()
