"""Calls of the API, and what they are answered with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import yaml

from tests.gcp import kubernetes_protobuf

Object = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request. target: the path with its query, as it was sent. headers: names in lower case."""

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw: bytes = b""

    @property
    def accept(self) -> str:
        return self.headers.get("accept", "")

    @property
    def body(self) -> Any:
        """Of JSON, of YAML as Helm applies it, or of the binary format in which Helm writes secrets."""
        return kubernetes_protobuf.secret(self.raw) or yaml.safe_load(self.raw)


@dataclass(frozen=True)
class Reply:
    """A whole answer: JSON."""

    body: Object
    code: int = HTTPStatus.OK

    def as_bytes(self) -> bytes:
        return json.dumps(self.body).encode()


@dataclass(frozen=True)
class Stream:
    """An answer that goes on: a watch, a log."""

    parts: Iterator[bytes]


@dataclass(frozen=True)
class Upgrade:
    """The connection becomes a WebSocket to a port of loopback, which is a pod's port; None: nothing listens there."""

    port: int
    backend: int | None


class StatusError(Exception):
    """A refusal as Kubernetes writes it."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.body = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason or _REASONS.get(code, "InternalError"), "code": code,
        }  # fmt: skip


# https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/types.go
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "AlreadyExists",
    410: "Expired",
    503: "ServiceUnavailable",
}
