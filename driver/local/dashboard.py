"""Reads Ray's dashboard: the nodes of the cluster and the state of a job. Standard HTTP, never through a proxy."""

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


def nodes(dashboard: str) -> list[dict[str, Any]]:
    """The nodes that Ray knows, dead ones too; none while the dashboard does not answer."""
    answer = _get(f"{dashboard}/api/v0/nodes?detail=1&limit=10000")
    return list(answer["data"]["result"]["result"]) if answer and answer.get("result") else []


def job_state(dashboard: str, submission_id: str) -> JobState | None:
    """The state of a job, or None while the dashboard does not answer."""
    answer = _get(f"{dashboard}/api/jobs/{submission_id}")
    return JobState(answer["status"], answer.get("message") or "") if answer else None


def text(url: str) -> str:
    """What an address answers, or nothing when it does not."""
    try:
        with _DIRECTLY.open(url, timeout=_TIMEOUT_SECONDS) as answer:
            return bytes(answer.read()).decode(errors="replace")
    except (OSError, ValueError):
        return ""


def _get(url: str) -> dict[str, Any] | None:
    try:
        answer = json.loads(text(url))
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
