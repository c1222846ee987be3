"""Which function answers which call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from tests.gcp.google import Google

MUTATING = {"POST", "PUT", "PATCH", "DELETE"}
# Domain-scoped projects have a colon: example.com:name.
_PARTS = {"project": r"(?:[^/:]+\.[^/:]+:)?[^/:]+"}


@dataclass
class Call:
    """One request. target: the path with its query; parts: the path's named parts; body: its JSON; raw: its bytes;
    account: who asks."""

    method: str
    path: str
    query: dict[str, str]
    body: dict[str, Any]
    raw: bytes
    headers: dict[str, str]
    target: str = ""
    account: str = ""
    parts: dict[str, str] = field(default_factory=dict)
    google: Google = field(init=False)
    fail_with: Any = None
    """The error that the operation begun by this call will end with."""

    @property
    def project(self) -> str:
        """The project's id, also where the path has its number."""
        return self.google.project_id(self.parts["project"])


@dataclass
class Reply:
    """code: of HTTP. body: JSON, or bytes as they are."""

    body: dict[str, Any] | bytes
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def as_bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class NotYetError(Exception):
    """Ask this route again at that time of the server's clock: for the `wait` of Compute Engine's operations."""

    at: float


@dataclass(frozen=True)
class Route:
    method: str
    pattern: re.Pattern[str]
    answer: Callable[[Call], Any]
    api: str
    permission: str
    mutating: bool


@dataclass
class Routes:
    """The routes of one API. service: as Service Usage names it; title: as the console does."""

    service: str
    title: str
    prefix: str = ""
    routes: list[Route] = field(default_factory=list)

    def on(self, method: str, path: str, permission: str = "", *, reads: bool = False) -> Callable[[Any], Any]:
        """path: with {parts}, or {parts=regular expression}. permission: what the caller needs on the project."""
        pattern = re.compile(_expression(self.prefix + path))

        def keep(answer: Callable[[Call], Any]) -> Callable[[Call], Any]:
            mutating = method in MUTATING and not reads
            self.routes.append(Route(method, pattern, answer, self.service, permission, mutating))
            return answer

        return keep


def find(apis: list[Routes], method: str, path: str) -> tuple[Routes, Route, dict[str, str]] | None:
    for api in apis:
        for route in api.routes:
            match = route.pattern.fullmatch(path)
            if match and route.method == method:
                return api, route, {key: unquote(value) for key, value in match.groupdict().items()}
    return None


def _expression(path: str) -> str:
    pieces = re.split(r"\{(\w+)(?:=([^{}]+))?\}", path)
    text = re.escape(pieces[0])
    for name, expression, rest in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        text += f"(?P<{name}>{expression or _PARTS.get(name, '[^/:]+')})" + re.escape(rest)
    return text
