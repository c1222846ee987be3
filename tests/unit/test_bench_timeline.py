"""Where the time of a start goes, read from objects as a cluster with KubeRay 1.5 has them."""

import copy
from datetime import datetime
from typing import Any

import pytest

from scripts.bench import timeline
from scripts.bench.timeline import TimelineError

INSTALLED = datetime.fromisoformat("2026-11-30T10:00:00.400000+00:00").timestamp()


def clock(seconds):
    """A time of that minute as Kubernetes writes it."""
    return f"2026-11-30T10:{seconds // 60:02}:{seconds % 60:02}Z"


def condition(kind, seconds, status="True"):
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": clock(seconds)}


def pod(name, node_type, scheduled, started, ready):
    """A pod that KubeRay made, with a sidecar whose status comes first in the list: the API sorts them by name."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "bench-start-1",
            "labels": {"ray.io/node-type": node_type, "ray.io/cluster": "demo-1a2b3c4"},
            "creationTimestamp": clock(1),
        },
        "spec": {"containers": [{"name": "ray"}, {"name": "gke-gcsfuse-sidecar"}], "nodeName": "tpu-1"},
        "status": {
            "phase": "Running",
            "conditions": [
                condition("PodReadyToStartContainers", scheduled + 1),
                condition("Initialized", scheduled + 1),
                condition("Ready", ready),
                condition("ContainersReady", ready),
                condition("PodScheduled", scheduled),
            ],
            "containerStatuses": [
                {
                    "name": "gke-gcsfuse-sidecar",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": clock(started + 30)}},
                },
                {
                    "name": "ray",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": clock(started)}},
                },
            ],
        },
    }


def submitter_pod(name, started, ended):
    run = {"exitCode": 0, "reason": "Completed", "startedAt": clock(started), "finishedAt": clock(ended)}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"batch.kubernetes.io/job-name": "demo-5d6e7f8"}},
        "spec": {"containers": [{"name": "ray-job-submitter"}]},
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [
                {"name": "ray-job-submitter", "ready": False, "restartCount": 0, "state": {"terminated": run}}
            ],
        },
    }


def record(kind, seconds, **fields):
    return {"kind": kind, "attempt": 1, "time": INSTALLED + seconds, "session": 1, **fields}


def start(**changed):
    """Two workers of which the second is later in everything; the first step is trained 90 s after the install."""
    fields: dict[str, Any] = {
        "installed": INSTALLED,
        "returned": INSTALLED + 1.25,
        "running": INSTALLED + 52.5,
        "pods": [
            pod("demo-1a2b3c4-head-x", "head", scheduled=2, started=4, ready=20),
            pod("demo-1a2b3c4-tpu-worker-a", "worker", scheduled=2, started=22, ready=30),
            pod("demo-1a2b3c4-tpu-worker-b", "worker", scheduled=3, started=24, ready=35),
        ],
        "cluster": {
            "kind": "RayCluster",
            "metadata": {"name": "demo-1a2b3c4"},
            "status": {
                "state": "ready",
                "lastUpdateTime": clock(36),
                "stateTransitionTimes": {"ready": clock(36)},
                "conditions": [{"type": "RayClusterProvisioned", "status": "True", "lastTransitionTime": clock(36)}],
            },
        },
        "job": {
            "kind": "RayJob",
            "metadata": {"name": "demo-5d6e7f8", "creationTimestamp": clock(1)},
            "status": {
                "jobDeploymentStatus": "Complete",
                "jobStatus": "SUCCEEDED",
                "startTime": clock(1),
                "rayJobInfo": {"startTime": clock(47), "endTime": clock(100)},
            },
        },
        "submitter": {"kind": "Job", "metadata": {"name": "demo-5d6e7f8", "creationTimestamp": clock(38)}},
        "submitters": [submitter_pod("demo-5d6e7f8-abcde", started=40, ended=101)],
        "records": [
            record("session", 70.5, start_step=0, slices=2, hosts=4, chips=16),
            record("step", 90, step=0, loss=5.7, slices=2, restarts=0),
            record("step", 91, step=1, loss=5.6, slices=2, restarts=0, step_seconds=1.0),
            record("checkpoint", 92, step=4),
            {"kind": "end", "attempt": 1, "time": INSTALLED + 99, "succeeded": True},
        ],
    }
    return timeline.Start(**copy.deepcopy(fields | changed))


def without(found, *path):
    """A copy of an object without one of its fields."""
    made = copy.deepcopy(found)
    place = made
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return made


def test_each_moment_counts_from_the_install_and_of_several_pods_the_last_one_counts():
    assert timeline.seconds_since_install(start()) == {
        "helmReturned": 1.2,
        "podsScheduled": 2.6,
        "headStarted": 3.6,
        "headReady": 19.6,
        "workersStarted": 23.6,
        "workersReady": 34.6,
        "clusterReady": 35.6,
        "submitterCreated": 37.6,
        "submitterStarted": 39.6,
        "jobTaken": 46.6,
        "jobRunning": 52.5,
        "groupStarted": 70.5,
        "firstStep": 90.0,
    }


def test_a_start_by_a_second_try_of_the_submitter_counts_from_the_first():
    tries = [submitter_pod("demo-5d6e7f8-fghij", 60, 101), submitter_pod("demo-5d6e7f8-abcde", 40, 55)]
    assert timeline.seconds_since_install(start(submitters=tries))["submitterStarted"] == 39.6


def test_a_second_session_is_not_the_start():
    later = [record("session", 200, start_step=5), record("step", 210, step=5), *start().records]
    found = timeline.seconds_since_install(start(records=later))
    assert (found["groupStarted"], found["firstStep"]) == (70.5, 90.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pods": start().pods[1:]}, "There is no head pod."),
        ({"pods": start().pods[:1]}, "There is no worker pod."),
        ({"submitters": []}, "There is no pod of the submitter."),
        ({"records": start().records[:1]}, "There is no step record."),
        (
            {"cluster": without(start().cluster, "status", "stateTransitionTimes")},
            "RayCluster demo-1a2b3c4 has no status.stateTransitionTimes.ready.",
        ),
        (
            {"job": without(start().job, "status", "rayJobInfo")},
            "RayJob demo-5d6e7f8 has no status.rayJobInfo.startTime.",
        ),
    ],
    ids=["head", "workers", "submitter", "step", "cluster", "job"],
)
def test_what_is_missing_is_named(changed, message):
    with pytest.raises(TimelineError) as raised:
        timeline.seconds_since_install(start(**changed))
    assert str(raised.value) == message


def test_a_pod_that_is_not_ready_is_named():
    late = pod("demo-1a2b3c4-tpu-worker-a", "worker", 2, 22, 30)
    late["status"]["conditions"] = [condition("PodScheduled", 2), condition("Ready", 30, status="False")]
    with pytest.raises(TimelineError, match="demo-1a2b3c4-tpu-worker-a is not Ready"):
        timeline.condition(late, "Ready")


def test_a_container_that_waits_is_named():
    waiting = pod("demo-1a2b3c4-head-x", "head", 2, 4, 20)
    waiting["status"]["containerStatuses"][1]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    with pytest.raises(TimelineError, match="container ray of pod demo-1a2b3c4-head-x has not started"):
        timeline.container_started(waiting)


def test_restarts_are_those_of_all_containers():
    again = pod("demo-1a2b3c4-head-x", "head", 2, 4, 20)
    again["status"]["containerStatuses"][1]["restartCount"] = 2
    assert timeline.restarts([*start().pods, again]) == 2


def test_medians_are_of_each_moment_and_of_what_it_took_from_the_one_before():
    starts = [dict.fromkeys(timeline.MOMENTS, 50.0) for _ in range(3)]
    for each, seconds in zip(starts, (1.0, 2.0, 9.0), strict=True):
        each |= {"helmReturned": seconds, "podsScheduled": 10.0}
    found = timeline.medians(starts)
    assert found["helmReturned"] == {"sinceInstall": 2.0, "taken": 2.0}
    assert found["podsScheduled"] == {"sinceInstall": 10.0, "taken": 8.0}
    assert found["headStarted"] == {"sinceInstall": 50.0, "taken": 40.0}
    assert found["firstStep"] == {"sinceInstall": 50.0, "taken": 0.0}
