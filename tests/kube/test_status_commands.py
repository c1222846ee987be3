"""`driver status` and `driver nodes` on the command line.

That a worker's gauges and Ray's nodes arrive takes a port-forward, and is tested in tests/cluster.
"""

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from driver.cli import cli, run
from driver.commands.nodes import as_data
from driver.kube import snapshot
from driver.kube.ray_api import Node
from tests.kube import manifests
from tests.kube.server.api import Api
from tests.kube.server.calls import Call

pytestmark = pytest.mark.usefixtures("demo")


def test_status_is_one_document_of_json(api: Api, kubeconfig: Path, capsys: pytest.CaptureFixture[str]):
    api.get("rayjobs", manifests.JOB)["status"] = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}
    assert run(["status", "demo", "--kubeconfig", str(kubeconfig), "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["release"], told["namespace"], told["phase"]) == ("demo", "team", "succeeded")


def test_a_run_that_has_ended_has_the_last_checkpoint_of_its_last_words(
    api: Api, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
):
    api.get("rayjobs", manifests.JOB)["status"] = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}
    _said(api, "run demo succeeded: last checkpoint at step 99, in /data/demo/checkpoints")
    assert run(["status", "demo", "--kubeconfig", str(kubeconfig), "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run"]["lastCheckpoint"], told["cause"]) == (99, None)


def test_a_run_that_has_failed_has_its_cause_and_what_mends_it(
    api: Api, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
):
    api.get("rayjobs", manifests.JOB)["status"] = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED"}
    _said(api, "run failed: job.maxtext.stepz: MaxText has no such argument; did you mean steps?")
    assert run(["status", "demo", "--kubeconfig", str(kubeconfig)]) == 0
    shown = capsys.readouterr().out
    assert "MaxText has no argument stepz." in shown
    assert "Fix: --set job.maxtext.stepz=null" in shown


def _said(api: Api, words: str) -> None:
    """By the run's submitter, which has ended."""
    api.put("pods", manifests.submitter())
    api.logs.say(manifests.SUBMITTER, words)
    api.logs.end(manifests.SUBMITTER, "Succeeded")


def test_the_only_release_is_shown_where_none_is_named(kubeconfig: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["status", "--kubeconfig", str(kubeconfig)]) == 0
    assert "demo running" in capsys.readouterr().out


def test_figures_that_cannot_be_read_are_a_remark_and_the_rest_is_shown(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["status", "demo", "--kubeconfig", str(kubeconfig)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The run's figures cannot be read" in shown
    assert "2 of 2 slices" in shown


def test_a_release_that_is_not_there_ends_with_the_nearest(kubeconfig: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["status", "dmeo", "--kubeconfig", str(kubeconfig)]) == 1
    assert "Did you mean demo?" in capsys.readouterr().err


def test_another_namespace_is_looked_into_when_told(kubeconfig: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["status", "demo", "--kubeconfig", str(kubeconfig), "-n", "other"]) == 1
    assert "no release demo in namespace other" in capsys.readouterr().err


def test_watching_ends_with_the_run_and_tells_one_document_a_line(
    api: Api, kubeconfig: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("driver.commands.status._SECONDS", 0.01)
    ended = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}
    readings = iter(range(10))

    def end_at_the_third(call: Call) -> None:
        if call.path.endswith("/rayjobs") and next(readings) == 2:
            api.get("rayjobs", manifests.JOB)["status"] = ended

    api.faults.hooks.append(end_at_the_third)
    assert run(["status", "demo", "--watch", "--kubeconfig", str(kubeconfig), "--output", "json"]) == 0
    phases = [json.loads(line)["phase"] for line in capsys.readouterr().out.splitlines()]
    assert phases == ["running", "running", "succeeded"]


def test_watching_outlasts_an_api_server_that_is_away(
    api: Api, kubeconfig: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("driver.commands.status._SECONDS", 0.01)
    readings = iter(range(10))

    def go_away_at_the_second(call: Call) -> None:
        if call.path.endswith("/rayjobs") and next(readings) == 1:
            api.get("rayjobs", manifests.JOB)["status"] = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED"}
            api.faults.refuse(503, "restarting", times=2)

    api.faults.hooks.append(go_away_at_the_second)
    assert run(["status", "demo", "--watch", "--kubeconfig", str(kubeconfig)]) == 0
    told = capsys.readouterr()
    assert "Trying again" in told.err
    assert "demo failed" in told.out


def test_watching_ends_at_once_where_nobody_has_answered(
    api: Api, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
):
    api.stop()
    assert run(["status", "demo", "--watch", "--kubeconfig", str(kubeconfig)]) == 1
    assert "cannot be reached" in capsys.readouterr().err


def test_nodes_are_the_head_and_then_slice_by_slice_with_their_pods(api: Api):
    seen = snapshot.read(api.connection(), "demo")
    hosts = [_node(f"10.0.{number}.{host}", number, host) for number in (1, 0) for host in (1, 0)]
    head = Node("h", "10.0.255.1", True, True, "", {}, {"CPU": 2.0, "node:10.0.255.1": 1.0, "memory": 1e9})
    rows = as_data(seen, [*hosts, head])
    assert [(row["slice"], row["worker"]) for row in rows] == [(None, None), (0, 0), (0, 1), (1, 0), (1, 1)]
    assert rows[0]["resources"] == {"CPU": 2.0}
    assert rows[1]["pod"] == manifests.worker_name(0, 0)


def test_nodes_without_a_head_that_answers_say_what_to_look_at(
    api: Api, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
):
    api.remove("pods", manifests.HEAD)
    assert run(["nodes", "demo", "--kubeconfig", str(kubeconfig)]) == 1
    assert "driver status demo" in capsys.readouterr().err


def _node(address: str, number: int, host: int) -> Node:
    name = f"{manifests.GROUP}-{number}"
    labels = {"ray.io/tpu-slice-name": name, "ray.io/tpu-worker-id": str(host), "ray.io/tpu-topology": "2x4"}
    return Node(f"n{number}{host}", address, True, False, "", labels, {"TPU": 4.0})


def test_the_shell_completes_the_releases_of_the_cluster(kubeconfig: Path):
    complete = ShellComplete(cli, {}, "driver", "_DRIVER_COMPLETE").get_completions
    assert [one.value for one in complete(["status", "--kubeconfig", str(kubeconfig)], "de")] == ["demo"]
    assert complete(["status", "--kubeconfig", str(kubeconfig), "-n", "other"], "de") == []
