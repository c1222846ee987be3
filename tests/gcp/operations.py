"""Google's long-running operations: done when their time has come, whoever looks."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.gcp.errors import GoogleError

_numbers = itertools.count(1)


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


@dataclass
class Operation:
    """api: whose it is ("container"). deadline: on the server's clock. finish: what its end does to the state; it is
    given the error that the operation ends with, and may return one itself. facts: what the API's JSON is made of."""

    api: str
    project: str
    deadline: float
    finish: Callable[[GoogleError | None], GoogleError | None] = lambda error: error
    error: GoogleError | None = None
    done: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    started: str = field(default_factory=now)
    ended: str = ""
    number: int = field(default_factory=lambda: next(_numbers))
    name: str = field(default_factory=lambda: f"operation-{uuid.uuid4()}")

    def settle(self) -> None:
        self.error = self.finish(self.error) or self.error
        self.done = True
        self.ended = now()
