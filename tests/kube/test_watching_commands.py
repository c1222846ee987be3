"""`driver logs` and `driver dashboard` as a user calls them, against an API server on loopback."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from driver import cli
from driver.commands.logs import Since
from driver.errors import USAGE
from tests.kube import manifests
from tests.kube.server.api import Api
from tests.kube.server.pages import serving

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def environment(api: Api, demo: None, kubeconfig: Path) -> Api:
    """KUBECONFIG names the API server; a release with a run and two slices of two hosts is on it."""
    api.put("pods", manifests.submitter())
    return api


def say_all(api: Api) -> None:
    for number in range(2):
        for host in range(2):
            api.logs.say(
                manifests.SUBMITTER,
                manifests.printed("RayTrainWorker", 100 + host, f"10.0.{number}.{host}", "compiling"),
            )
    api.logs.say(manifests.SUBMITTER, manifests.printed("RayTrainWorker", 101, "10.0.1.1", "completed step: 0"))
    api.logs.say(manifests.SUBMITTER, "run demo succeeded")


def test_logs_name_the_slice_and_host_and_fold_what_all_say(environment, capsys):
    say_all(environment)
    assert cli.run(["logs", "demo"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "    0/0 | compiling",
        "    1/1 | completed step: 0",
        "    run | run demo succeeded",
        "    0/0 | compiling [4 times by 4 hosts]",
    ]


def test_logs_of_one_host_are_its_alone(environment, capsys):
    say_all(environment)
    cli.run(["logs", "--slice", "1", "--host", "1"])
    assert capsys.readouterr().out.splitlines() == ["    1/1 | compiling", "    1/1 | completed step: 0"]


def test_raw_logs_are_as_ray_wrote_them(environment, capsys):
    say_all(environment)
    cli.run(["logs", "--raw"])
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == manifests.printed("RayTrainWorker", 100, "10.0.0.0", "compiling")
    assert len(rest) == 5


def test_logs_as_json_are_a_document_a_line(environment, capsys):
    say_all(environment)
    cli.run(["logs", "--output", "json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[1] | {"time": ""} == {
        "time": "", "slice": 1, "host": 1, "pod": manifests.worker_name(1, 1), "address": "10.0.1.1",
        "text": "completed step: 0", "times": 1, "hosts": 1,
    }  # fmt: skip
    assert (lines[2]["slice"], lines[3]["times"], lines[3]["hosts"]) == (None, 4, 4)


@pytest.mark.parametrize("arguments", [["--slice", "1"], ["--host", "0"], ["--output", "json"]])
def test_raw_goes_with_nothing_that_needs_more(environment, capsys, arguments):
    assert cli.run(["logs", "--raw", *arguments]) == USAGE


def test_a_release_that_is_not_there_names_the_nearest(environment, capsys):
    assert cli.run(["logs", "dmo"]) == 1
    assert "Did you mean demo?" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400)])
def test_since_is_a_duration(text, seconds):
    assert Since()(text) == seconds


def test_since_is_a_time_too():
    assert Since()("2026-01-01T00:00:00Z") > 86400


@pytest.mark.parametrize("text", ["soon", "10", "0s", "2999-01-01"])
def test_since_is_nothing_else(environment, capsys, text):
    assert cli.run(["logs", "--since", text]) == USAGE


def dashboard(*arguments: str) -> "subprocess.Popen[str]":
    code = "import sys; from driver.cli import main; main(sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, "dashboard", *arguments],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def test_the_dashboard_is_there_until_ctrl_c(environment):
    with serving(environment, manifests.HEAD, 8265, {"/": "Ray"}), dashboard("--port", "0") as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert url, said
        with urllib.request.urlopen(url[0], timeout=10) as answer:
            assert answer.read() == b"Ray"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def test_grafana_is_found_by_its_label(environment):
    selector = {"app.kubernetes.io/name": "grafana"}
    spec = {"selector": selector, "clusterIP": "10.96.0.9", "ports": [{"port": 80, "targetPort": "http"}]}
    environment.add("services", "grafana", metadata={"labels": selector}, spec=spec)
    container = {"name": "grafana", "image": "i", "ports": [{"name": "http", "containerPort": 3000}]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    environment.add("pods", "grafana-0", metadata={"labels": selector}, spec={"containers": [container]}, status=status)
    with serving(environment, "grafana-0", 3000, {"/": "Grafana"}), dashboard("--grafana", "--port", "0") as process:
        assert process.stdout is not None
        process.stdout.readline()
        url = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.read() == b"Grafana"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def test_a_cluster_without_grafana_says_what_was_looked_for(environment, capsys):
    assert cli.run(["dashboard", "--grafana", "--port", "0"]) == 1
    assert "app.kubernetes.io/name=grafana" in capsys.readouterr().err
