"""A Kubernetes API server for the tests of the programs: objects in a dictionary, over HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
WAIT_SECONDS = 10.0
COLLECTIONS = ("pods", "resourceclaims", "resourceslices")


class FakeApi:
    """Objects by their path, such as /api/v1/namespaces/team/pods/one; a collection's path lists what is below it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.token = "a-token"
        self._objects: dict[str, Object] = {}
        self._changed = threading.Condition()

    def put(self, path: str, **content: Any) -> Object:
        """Sets an object, whatever was there."""
        with self._changed:
            self._objects[path] = content
            self._changed.notify_all()
        return content

    def remove(self, path: str) -> None:
        with self._changed:
            del self._objects[path]

    def wait_for(self, path: str, condition: Any = bool) -> Object:
        """The object, once it is there and meets the condition."""
        with self._changed:
            met = self._changed.wait_for(lambda: condition(self._objects.get(path)), WAIT_SECONDS)
            assert met, f"{path} is {self._objects.get(path)}"
            return self._objects[path]

    def kubeconfig(self, folder: Path) -> Path:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def answer(self, method: str, url: str, body: bytes) -> tuple[int, Object]:
        """The status and content that answer a request."""
        parts = urlsplit(url)
        with self._changed:
            if method == "GET":
                return self._read(parts.path, parse_qs(parts.query).get("labelSelector", [""])[0])
            content: Object = json.loads(body)
            path = parts.path if method == "PUT" else f"{parts.path}/{content['metadata']['name']}"
            if method == "POST" and path in self._objects:
                return 409, {"message": "already exists"}
            version = int(self._objects.get(path, {}).get("metadata", {}).get("resourceVersion", 0))
            if method == "PUT" and content["metadata"].get("resourceVersion") != str(version):
                return 409, {"message": "the object has been modified"}
            content["metadata"]["resourceVersion"] = str(version + 1)
            self._objects[path] = content
            self._changed.notify_all()
            return 200, content

    def _read(self, path: str, selector: str) -> tuple[int, Object]:
        if path in self._objects:
            return 200, self._objects[path]
        if path.rpartition("/")[2] not in COLLECTIONS:
            return 404, {"message": f"{path} not found"}
        wanted = dict(term.split("=") for term in selector.split(",") if term)
        below = [item for key, item in self._objects.items() if key.rpartition("/")[0] == path]
        found = [item for item in below if wanted.items() <= item["metadata"].get("labels", {}).items()]
        return 200, {"items": found}


@contextmanager
def fake_api() -> Iterator[FakeApi]:
    """A server on a free port, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, content = 401, {"message": "the token is missing"}
            if self.headers.get("Authorization") == f"Bearer {api.token}":
                status, content = api.answer(self.command, self.path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _serve  # noqa: N815, the names are http.server's

        def log_message(self, *_: Any) -> None:
            """A test needs no log of it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api = FakeApi(server.server_address[1])
    threading.Thread(target=server.serve_forever, args=[0.02]).start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
