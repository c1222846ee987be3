"""What can go wrong with a call, on request: an error, a delay, a cut connection, a killed process, a stock-out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.gcp.errors import GoogleError


@dataclass(frozen=True)
class Refuse:
    """The call is answered with this error, and not applied."""

    error: GoogleError

    @classmethod
    def with_code(cls, code: int) -> Refuse:
        """One of the errors that any call can meet."""
        return cls(PASSING[code])


PASSING = {
    409: GoogleError("ABORTED", "The operation was aborted, try it again.", legacy="conflict"),
    429: GoogleError("RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'"
                     " of service 'stand-in'.", reason="RATE_LIMIT_EXCEEDED"),
    500: GoogleError("INTERNAL", "Internal error encountered."),
    503: GoogleError("UNAVAILABLE", "The service is currently unavailable."),
    504: GoogleError("DEADLINE_EXCEEDED", "Deadline exceeded."),
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """The call is applied, and answered with this error all the same."""

    error: GoogleError


@dataclass(frozen=True)
class Delay:
    """The call is applied, and answered only after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """The call is applied, and the connection is cut in the middle of the reply."""


@dataclass(frozen=True)
class Run:
    """Something is done before the call is applied, or after that and before the reply: a SIGKILL to the caller,
    another person's change. Where it killed the caller, the call that it came before is not applied."""

    action: Callable[[], Any]
    before: bool
    apply: bool = True


def kill(process: Callable[[], Any], *, before: bool) -> Run:
    """process: kills the caller and waits for its end (a Popen's kill and wait)."""
    return Run(process, before, apply=not before)


@dataclass(frozen=True)
class Fail:
    """The call is accepted, and its operation ends with this error (GoogleError), e.g. STOCK_OUT."""

    error: GoogleError


STOCK_OUT = GoogleError(
    "RESOURCE_EXHAUSTED",
    "Google Compute Engine: Not all instances running in IGM after 10m0s. Expected 4, running 0, transitioning 4."
    " Current errors: [GCE_STOCKOUT]: Instance 'gke-tpu-0' creation failed: The zone"
    " 'projects/demo-project/zones/us-east5-b' does not have enough resources available to fulfill the request."
    " Try a different zone, or try again later.",
    reason="GCE_STOCKOUT",
    domain="container.googleapis.com",
)

Fault = Refuse | Answer | Delay | Cut | Run | Fail
When = int | Callable[[str, str], bool]


@dataclass
class Faults:
    """when: the nth mutating call from now on (1 is the next), or a predicate on (method, path); a predicate holds for
    the first `times` calls that it is true of."""

    _waiting: list[tuple[When, Fault, int]] = field(default_factory=list)
    _mutating: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, when: When, what: Fault, times: int = 1) -> None:
        with self._lock:
            self._waiting.append((when + self._mutating if isinstance(when, int) else when, what, times))

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()

    @property
    def left(self) -> int:
        """How many have not come true: a test that asked for a fault can see that it came."""
        return len(self._waiting)

    def of(self, method: str, path: str, mutating: bool) -> Fault | None:
        """The fault of this very call. Each call is asked about once."""
        with self._lock:
            self._mutating += mutating
            for place, (when, what, times) in enumerate(self._waiting):
                hit = mutating and when == self._mutating if isinstance(when, int) else when(method, path)
                if hit:
                    self._waiting[place : place + 1] = [(when, what, times - 1)] if times > 1 else []
                    return what
            return None
