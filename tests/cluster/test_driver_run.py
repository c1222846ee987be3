"""The life of a release with the driver: installed and followed, left alone, stopped, started again, followed to its
end, removed.

The tests go through it in order, each on what the one before has left.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import driver_command, release
from tests.cluster.driver_command import Running, run, values
from tests.cluster.release import Release

# It trains until it is stopped.
LONG = (
    "job.steps=100000",
    "job.maxtext.checkpoint_period=5",
    "job.maxtext.max_target_length=64",
    "operators.subjects.watcher=ServiceAccount",
)
HOSTS = [(0, 0), (0, 1), (1, 0), (1, 1)]
START_SECONDS = 900


@pytest.fixture(scope="module")
def demo(place: release.Place) -> Iterator[Release]:
    with place.release("driver-run") as made:
        yield made


@pytest.fixture(scope="module")
def first(demo: Release) -> Running:
    """`driver install`, which follows; there is a checkpoint when this is there."""
    following = driver_command.install(demo, *LONG)
    demo.await_step(6, START_SECONDS)
    following.await_words("checkpoint ", START_SECONDS)
    return following


@pytest.fixture(scope="module")
def second(demo: Release, first: Running) -> tuple[int, dict[str, Any]]:
    """`driver install --rerun` of the stopped run with a few steps more, followed to its end."""
    steps = demo.checkpoints()[-1] + 8
    more = ("--set", f"job.steps={steps}", *(argument for each in LONG[1:] for argument in ("--set", each)))
    following = driver_command.start(demo, "install", demo.name, *values(demo), *more, "--rerun")
    return following.facts(START_SECONDS)


def told(demo: Release, *arguments: str) -> Any:
    return json.loads(run(demo, *arguments, "--output", "json"))


def test_the_hosts_are_told_as_they_join(first: Running):
    assert any("4 of 4" in line for line in first.said)


def test_the_status_has_the_figures_of_the_training_and_where_each_host_is(demo: Release, first: Running):
    status = told(demo, "status")
    training, slices = status["run"], status["slices"]
    assert (status["phase"], training["steps"], training["slicesTraining"]) == ("training", 100000, 2)
    assert training["step"] >= training["lastCheckpoint"] >= 0
    assert training["loss"] > 0
    assert status["pending"] == []
    assert [(one["slice"], host["host"]) for one in slices for host in one["hosts"]] == HOSTS
    assert len({host["nodePool"] for one in slices for host in one["hosts"]}) == 2


def test_the_nodes_of_ray_are_the_hosts(demo: Release, first: Running):
    head, *hosts = told(demo, "nodes")["nodes"]
    assert head["head"]
    assert [(one["slice"], one["worker"]) for one in hosts] == HOSTS
    assert {one["topology"] for one in hosts} == {"2x4"}
    assert {one["pod"] for one in hosts} == {pod.metadata.name for pod in demo.workers()}


def test_who_has_the_charts_role_and_no_other_right_sees_the_same(demo: Release, first: Running, tmp_path: Path):
    watcher = driver_command.as_service_account(demo, "watcher", tmp_path)
    status = told(watcher, "status")
    assert status["phase"] == "training"
    assert not [remark for remark in status["remarks"] if "figures cannot be read" in remark]
    assert len(told(watcher, "nodes")["nodes"]) == 1 + len(HOSTS)
    assert "completed step" in run(watcher, "logs")
    assert told(watcher, "runs")["runs"][0]["result"] == "running"
    demo.kubectl("delete", "serviceaccount", "watcher")  # so that nothing is left at the end


def test_ctrl_c_leaves_the_run_going(demo: Release, first: Running):
    first.interrupt()
    assert first.facts(60)[0] == 1
    assert "The run goes on" in "".join(first.said)
    assert told(demo, "status")["phase"] == "training"


def test_a_stop_ends_the_run_and_keeps_the_cluster(demo: Release, first: Running):
    pods = {pod.metadata.uid for pod in demo.workers()}
    run(demo, "stop", demo.name)
    assert demo.objects("RayJob") == []
    assert {pod.metadata.uid for pod in demo.workers()} == pods


def test_a_stopped_run_is_not_started_by_surprise(demo: Release, first: Running):
    said = run(demo, "install", demo.name, *values(demo), "--detach", code=1)
    assert "--rerun starts it again" in said


def test_a_rerun_goes_on_from_the_last_checkpoint_and_is_followed_to_the_next_one(
    demo: Release, second: tuple[int, dict[str, Any]]
):
    code, facts = second
    assert (code, facts["succeeded"], facts["attempt"]) == (0, True, 2)
    assert facts["lastCheckpoint"] == facts["steps"] - 1 == demo.checkpoints()[-1]
    assert demo.sessions()[-1]["start_step"] > 0


def test_the_status_of_a_run_that_has_ended_has_its_last_checkpoint(demo: Release, second: tuple[int, dict[str, Any]]):
    status = told(demo, "status")
    assert (status["phase"], status["cause"]) == ("succeeded", None)
    assert status["run"]["lastCheckpoint"] == second[1]["lastCheckpoint"]


@pytest.mark.parametrize(("number", "host"), HOSTS)
def test_the_log_has_each_step_of_a_host_once(
    demo: Release, second: tuple[int, dict[str, Any]], number: int, host: int
):
    last = f"completed step: {second[1]['steps'] - 1},"
    printed = run(demo, "logs", "--slice", str(number), "--host", str(host), "--output", "json")
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [(one["slice"], one["host"], one["times"]) for one in lines if last in one["text"]] == [(number, host, 1)]


def test_the_runs_are_the_one_that_has_ended_and_those_before_it(demo: Release, second: tuple[int, dict[str, Any]]):
    newest, *earlier = told(demo, "runs", demo.name)["runs"]
    assert (newest["result"], newest["attempt"], newest["steps"]) == ("succeeded", 2, second[1]["steps"])
    assert [(one["result"], one["attempt"]) for one in earlier] == [("stopped", 1)]


def test_an_uninstall_leaves_nothing_but_the_checkpoints(demo: Release, second: tuple[int, dict[str, Any]]):
    run(demo, "uninstall", demo.name)
    demo.await_empty(60)
    assert demo.checkpoints()
