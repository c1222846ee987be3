"""When the start of a run reached what, read from Kubernetes' objects and from the run's records (docs/progress.md).

Objects are dicts as the API has them. Times are Unix seconds; those of Kubernetes are cut to whole seconds, so a moment
may seem up to a second earlier than one before it whose clock is finer.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Object = Mapping[str, Any]

MOMENTS = {
    "helmReturned": "helm install has returned",
    "podsScheduled": "head and workers scheduled",
    "headStarted": "head's container started",
    "headReady": "head ready",
    "workersStarted": "workers' containers started",
    "workersReady": "workers ready",
    "clusterReady": "RayCluster ready",
    "submitterCreated": "RayJob submitted: submitter made",
    "submitterStarted": "submitter's container started",
    "jobTaken": "Ray has taken the job",
    "jobRunning": "job seen running",
    "groupStarted": "worker group started",
    "firstStep": "first step trained",
}
"""In the order of a run of a fixed size, each with its name for people. Of several pods the last one counts."""


class TimelineError(ValueError):
    """An object or the records lack a time that a run which has trained must have; the message says which."""


@dataclass(frozen=True)
class Start:
    """One start of a run.

    installed, returned: when `helm install` was begun and was back, Unix seconds.
    running: when the RayJob was first seen with the jobStatus RUNNING, which nobody writes down; KubeRay 1.5 asks Ray
        for it every 3 s.
    pods, cluster: head, workers and RayCluster when it was first ready: a probe that fails later moves their times.
    submitters: the pods of `submitter`, the Kubernetes Job by which KubeRay submits `job`, the RayJob.
    records: those of the run, of one attempt.
    """

    installed: float
    returned: float
    running: float
    pods: Sequence[Object]
    cluster: Object
    job: Object
    submitter: Object
    submitters: Sequence[Object]
    records: Sequence[Object]


def seconds_since_install(start: Start) -> dict[str, float]:
    """Seconds from `helm install` to each of MOMENTS. Raises a TimelineError."""
    heads, workers = (_of_type(start.pods, kind) for kind in ("head", "worker"))
    at = {
        "helmReturned": start.returned,
        "podsScheduled": max(condition(pod, "PodScheduled") for pod in (*heads, *workers)),
        "headStarted": max(map(container_started, heads)),
        "headReady": max(condition(pod, "Ready") for pod in heads),
        "workersStarted": max(map(container_started, workers)),
        "workersReady": max(condition(pod, "Ready") for pod in workers),
        "clusterReady": field(start.cluster, "status", "stateTransitionTimes", "ready"),
        "submitterCreated": field(start.submitter, "metadata", "creationTimestamp"),
        # Its first try, where it had to be made again.
        "submitterStarted": min(map(container_started, _some(start.submitters, "pod of the submitter"))),
        "jobTaken": field(start.job, "status", "rayJobInfo", "startTime"),
        "jobRunning": start.running,
        "groupStarted": _first_record(start.records, "session"),
        "firstStep": _first_record(start.records, "step"),
    }
    return {name: round(at[name] - start.installed, 1) for name in MOMENTS}


def medians(starts: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Of each moment over all starts: seconds `sinceInstall` and, from the moment before it, seconds `taken`.

    Both are medians, so that a sum of the seconds taken may differ a little from the time at the end.
    """
    found, before = {}, ""
    for name in MOMENTS:
        taken = [start[name] - start.get(before, 0.0) for start in starts]
        since = [start[name] for start in starts]
        found[name] = {
            "sinceInstall": round(statistics.median(since), 1),
            "taken": round(statistics.median(taken), 1),
        }
        before = name
    return found


def restarts(pods: Iterable[Object]) -> int:
    """Of all containers; above 0 a container's start is that of its last try."""
    return sum(int(each["restartCount"]) for pod in pods for each in pod["status"].get("containerStatuses", []))


def condition(pod: Object, kind: str) -> float:
    """Since when a condition of the pod holds. Raises a TimelineError where it does not."""
    for each in pod["status"].get("conditions", []):
        if each["type"] == kind and each["status"] == "True":
            return field(each, "lastTransitionTime")
    raise TimelineError(f"pod {_name(pod)} is not {kind}: a run that has trained has only pods that were.")


def container_started(pod: Object) -> float:
    """When the pod's first container started, which is Ray's where KubeRay made the pod. Raises a TimelineError."""
    main = pod["spec"]["containers"][0]["name"]
    for each in pod["status"].get("containerStatuses", []):
        # One that has ended tells it in `terminated`; `waiting` has no start.
        for state in ("running", "terminated"):
            if each["name"] == main and state in each["state"]:
                return field(each["state"][state], "startedAt")
    raise TimelineError(f"container {main} of pod {_name(pod)} has not started.")


def field(found: Object, *path: str) -> float:
    """A time in an object. Raises a TimelineError where the field is not there."""
    value: Any = found
    for key in path:
        value = (value or {}).get(key)
    if value is None:
        raise TimelineError(f"{found.get('kind', 'object')} {_name(found)} has no {'.'.join(path)}.")
    return datetime.fromisoformat(value).timestamp()


def _first_record(records: Iterable[Object], kind: str) -> float:
    return min(float(each["time"]) for each in _some([r for r in records if r["kind"] == kind], f"{kind} record"))


def _of_type(pods: Iterable[Object], kind: str) -> Sequence[Object]:
    return _some([pod for pod in pods if pod["metadata"]["labels"].get("ray.io/node-type") == kind], f"{kind} pod")


def _some(found: Sequence[Object], what: str) -> Sequence[Object]:
    if not found:
        raise TimelineError(f"There is no {what}.")
    return found


def _name(found: Object) -> str:
    return str(found.get("metadata", {}).get("name", ""))
