"""Reads Ray's dashboard: the nodes of the cluster and the state of a job. Plain HTTP, never through a proxy."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from driver.errors import DriverError

_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class JobState:
    """status: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED, as Ray calls them. message: Ray's words for it."""

    status: str
    message: str

    @property
    def ended(self) -> bool:
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


@dataclass
class Dashboard:
    """The dashboard of a cluster that asks for a token.

    trouble: why the last question had no answer; empty when it had one. A token that is refused is a DriverError.
    """

    address: str
    token: str = field(repr=False)
    trouble: str = field(default="", init=False)

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes that Ray knows, dead ones too; none while the dashboard does not answer."""
        answer = self._get("/api/v0/nodes?detail=1&limit=10000")
        return list(answer["data"]["result"]["result"]) if answer and answer.get("result") else []

    def job_state(self, submission_id: str) -> JobState | None:
        """The state of a job, or None while the dashboard does not answer."""
        answer = self._get(f"/api/jobs/{submission_id}")
        return JobState(answer["status"], answer.get("message") or "") if answer else None

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            answer = json.loads(_fetch(self.address + path, {"Authorization": f"Bearer {self.token}"}))
            self.trouble = "" if isinstance(answer, dict) else "it answers something else than an object"
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise DriverError(
                    f"Ray's dashboard at {self.address} refuses its cluster's token (HTTP {error.code}):"
                    " something else may have taken the port.",
                    fix="another --dashboard-port, or none: then a free one is chosen",
                ) from error
            self.trouble = f"HTTP {error.code}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.trouble = str(error) or type(error).__name__
        return None if self.trouble else answer


def text(url: str) -> str:
    """What an address answers, or nothing when it does not."""
    try:
        return _fetch(url)
    except (OSError, http.client.HTTPException):
        return ""


def _fetch(url: str, headers: dict[str, str] | None = None) -> str:
    with _DIRECTLY.open(urllib.request.Request(url, headers=headers or {}), timeout=_TIMEOUT_SECONDS) as answer:
        return bytes(answer.read()).decode(errors="replace")
