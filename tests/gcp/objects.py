"""What is in the buckets: left to gcp-storage-emulator, behind this server's own routing and checks.

Its buckets are not used: it knows no projects, takes every location, has no hierarchical namespace, keeps policies
without looking at etags, and ignores ifGenerationMatch, which tests/gcp/storage.py checks for that reason. gcplocal
0.1.0 was looked at and left: its networks and buckets are kept, but nothing is refused except what is not there.
"""

from __future__ import annotations

import io
from email.message import Message
from typing import Any

from gcp_storage_emulator.server import Router
from gcp_storage_emulator.storage import Storage

from tests.gcp.routing import Call, Reply


class Objects:
    """What is in the buckets: gcp-storage-emulator's memory, without its server."""

    def __init__(self) -> None:
        self._storage = Storage(use_memory_fs=True, data_dir="/memory")

    def open(self, bucket: str) -> None:
        # Without soft deletion: what is deleted is gone, also from the listing of what is there.
        self._storage.create_bucket(bucket, {"name": bucket, "softDeletePolicy": {"retentionDurationSeconds": "0"}})

    def close(self, bucket: str) -> None:
        self._storage.delete_bucket(bucket)

    def names(self, bucket: str) -> list[str]:
        return sorted(self._storage.objects.get(bucket, {}))

    def generation(self, bucket: str, name: str) -> str:
        """0 where there is no such object, as ifGenerationMatch has it."""
        found = self._storage.objects.get(bucket, {}).get(name, {})
        return str(found.get("generation", 0))

    def state(self) -> dict[str, dict[str, Any]]:
        """Every object with its checksum."""
        return {
            f"buckets/{bucket}/{name}": {"md5Hash": one.get("md5Hash"), "size": one.get("size")}
            for bucket, objects in self._storage.objects.items()
            for name, one in objects.items()
        }

    def answer(self, call: Call) -> Reply:
        request = _Request(call, self._storage)
        Router(request).handle(call.method)
        return Reply(request.wfile.getvalue(), request.status, request.sent)


class _Request:
    """As much of an http.server's handler as the emulator's router looks at."""

    def __init__(self, call: Call, storage: Storage) -> None:
        self.path = call.target
        self.storage = storage
        self.server = self
        self.server_address = ("127.0.0.1", 0)
        self.headers = Message()
        for name, value in call.headers.items():
            # The body has been decoded already.
            if name not in ("content-encoding", "transfer-encoding", "content-length"):
                self.headers[name] = value
        self.headers["content-length"] = str(len(call.raw))
        self.rfile = io.BytesIO(call.raw)
        self.wfile = io.BytesIO()
        self.status = 200
        self.sent: dict[str, str] = {}

    def send_response(self, code: int, phrase: str = "") -> None:
        self.status = code

    def send_header(self, name: str, value: str) -> None:
        self.sent[name] = value

    def end_headers(self) -> None:
        """The headers are kept."""
