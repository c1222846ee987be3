"""Reads Ray's dashboard: the nodes of the cluster and the state of a job. Plain HTTP, never through a proxy."""

import json
import urllib.request
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Dashboard:
    """The dashboard of a cluster that asks for a token."""

    address: str
    token: str

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
            answer = json.loads(text(self.address + path, {"Authorization": f"Bearer {self.token}"}))
        except ValueError:
            return None
        return answer if isinstance(answer, dict) else None


def text(url: str, headers: dict[str, str] | None = None) -> str:
    """What an address answers, or nothing when it does not."""
    try:
        with _DIRECTLY.open(urllib.request.Request(url, headers=headers or {}), timeout=_TIMEOUT_SECONDS) as answer:
            return bytes(answer.read()).decode(errors="replace")
    except OSError:
        return ""
