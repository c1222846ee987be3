"""The facts of `driver status`, as JSON and on a screen."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from driver.kube import screen, snapshot, status
from tests.kube import manifests
from tests.kube.server.api import Api

pytestmark = pytest.mark.usefixtures("demo")

DOCUMENT = Path(__file__).parents[2] / "docs" / "status.md"
GAUGES = {
    "step": 41.0, "loss": 5.1234, "step_seconds": 0.5, "tflops_per_chip": 459.0, "tokens_per_second_per_chip": 4096.0,
    "slices": 2.0, "restarts": 1.0, "last_checkpoint_step": 40.0,
}  # fmt: skip
NO_NODE = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."


def test_a_run_that_trains_is_told_in_figures(api: Api):
    facts = _facts(api, GAUGES)
    run = facts["run"]
    assert (facts["phase"], run["name"], run["step"], run["steps"]) == ("training", "demo", 41, 100)
    assert (run["lastCheckpoint"], run["stepsAtRisk"], run["restarts"], run["slicesTraining"]) == (40, 1, 1, 2)
    assert run["secondsLeft"] == 29.0


def test_mfu_is_of_the_types_peak(api: Api):
    facts = _facts(api, GAUGES)
    assert (facts["tpu"]["type"], facts["tpu"]["peakTflopsPerChip"], facts["tpu"]["chipsPerHost"]) == ("v6e", 918, 4)
    assert facts["run"]["mfu"] == 0.5


def test_before_the_first_checkpoint_every_step_is_at_risk(api: Api):
    assert _facts(api, {**GAUGES, "last_checkpoint_step": -1.0})["run"]["stepsAtRisk"] == 42


def test_what_is_not_known_is_null_and_every_key_is_there(api: Api):
    with_figures, without = _facts(api, GAUGES), _facts(api)
    assert without["run"].keys() == with_figures["run"].keys()
    assert {without["run"][key] for key in ("step", "loss", "mfu", "stepsAtRisk", "secondsLeft")} == {None}


@pytest.mark.parametrize(
    ("phase", "job", "gauges"),
    [
        ("waiting", {"jobDeploymentStatus": "", "jobStatus": ""}, {}),
        ("waiting", {"jobDeploymentStatus": "Initializing", "jobStatus": ""}, {}),
        ("waiting", {"jobDeploymentStatus": "Running", "jobStatus": "PENDING"}, {}),
        ("starting", {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, {}),
        ("training", {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, {"step": 0.0}),
        ("succeeded", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, {}),
        ("failed", {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, {}),
        ("failed", {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED"}, {}),
        ("failed", {"jobDeploymentStatus": "ValidationFailed", "jobStatus": ""}, {}),
        ("retrying", {"jobDeploymentStatus": "Retrying", "jobStatus": ""}, {}),
        ("suspended", {"jobDeploymentStatus": "Suspended", "jobStatus": ""}, {}),
    ],
)
def test_the_phase_follows_from_kuberay_ray_and_the_gauges(api: Api, phase: str, job: Any, gauges: Any):
    api.get("rayjobs", manifests.JOB)["status"] = job
    assert _facts(api, gauges)["phase"] == phase


def test_a_release_whose_run_is_switched_off_is_stopped(api: Api):
    api.remove_all("rayjobs")
    facts = _facts(api)
    assert (facts["phase"], facts["run"], facts["cluster"]["slicesReady"]) == ("stopped", None, 2)


def test_a_run_whose_own_cluster_is_not_made_yet_is_told_without_one(api: Api):
    api.remove_all("rayclusters", "pods")
    api.get("rayjobs", manifests.JOB).update(spec={}, status={})
    facts = _facts(api)
    assert (facts["phase"], facts["cluster"], facts["slices"]) == ("waiting", None, [])


def test_a_failure_is_told_in_kuberays_words(api: Api):
    api.get("rayjobs", manifests.JOB)["status"] = {
        "jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed", "message": "run failed: no HBM",
    }  # fmt: skip
    assert _facts(api)["message"] == "AppFailed: run failed: no HBM"
    assert "run failed: no HBM" in _screen(_facts(api))


def test_the_screen_tells_the_run_its_slices_and_what_a_failure_would_cost(api: Api):
    shown = _screen(_facts(api, GAUGES))
    for words in (
        "demo training  step 41 of 99",
        "loss 5.123  0.500 s/step  459.000 TFLOP/s (MFU 50.0%)",
        "checkpoint 40: 1 step would be lost now  1 restart",
        "2 of 2 slices of v6e 2x4 ready",
        "pool-1",
    ):
        assert words in shown


def test_the_screen_tells_what_keeps_a_slice_back_and_what_mends_it(api: Api):
    for host in range(2):
        api.put("pods", manifests.worker(1, host, **manifests.unscheduled(NO_NODE)))
    shown = _screen(_facts(api))
    assert "1. Slice 1 (2 hosts): The cluster has no free node of tpu-v6e-slice 2x4" in shown
    assert "have a node pool of that shape made" in " ".join(shown.split())


def test_brackets_in_a_message_stay_as_they_are(api: Api):
    """rich takes them for colours where it may."""
    api.put("pods", manifests.worker(1, 1, **manifests.waiting("ContainerCreating")))
    api.put("events", manifests.event("Pod", manifests.worker_name(1, 1), "Unheard", "failed=[a b] [red]"))
    assert "failed=[a b] [red]" in _screen(_facts(api))


def test_of_many_slices_the_screen_lists_those_that_are_not_ready(api: Api):
    api.put_all(manifests.whole(slices=256, hosts=16))
    api.put("pods", manifests.worker(255, 15, **manifests.unscheduled(NO_NODE)))
    shown = _screen(_facts(api))
    assert len(shown.splitlines()) < 20
    assert "256 slices: 255 ready, 1 queued" in shown


def test_every_key_of_the_json_is_documented(api: Api):
    api.put("pods", manifests.worker(1, 1, **manifests.unscheduled(NO_NODE)))
    text = DOCUMENT.read_text()
    assert [key for key in sorted(_keys(_facts(api, GAUGES))) if f"`{key}`" not in text and f".{key}" not in text] == []


def test_every_reason_is_documented():
    from driver.kube.reason_patterns import PATTERNS

    text = DOCUMENT.read_text()
    assert [pattern.kind for pattern in PATTERNS if f"`{pattern.kind}`" not in text] == []


def _facts(api: Api, gauges: dict[str, float] | None = None) -> dict[str, Any]:
    facts = status.facts(snapshot.read(api.connection(), "demo"), gauges or {})
    json.dumps(facts)
    return facts


def _screen(facts: dict[str, Any]) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(screen.status(facts))
    return console.file.getvalue()  # type: ignore[attr-defined]


def _keys(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_keys, value))
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set()
