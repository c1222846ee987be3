"""`helm test` says of a live cluster what the values want otherwise, all of it, and why; here against local servers."""

import dataclasses
import json
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cluster_check
import pytest

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
PODS = "/api/v1/namespaces/team/pods"
NODES = "/api/v0/nodes"
JOB = "/apis/ray.io/v1/namespaces/team/rayjobs/demo-abc123"


class Answers:
    """An HTTP server that answers each path with its JSON, others with 404, and remembers what it was asked."""

    def __init__(self) -> None:
        self.bodies: dict[str, Any] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                answers.asked.append((self.path, dict(self.headers)))
                body = answers.bodies.get(urlsplit(self.path).path)
                self.send_response(404 if body is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=partial(self.server.serve_forever, poll_interval=0.01), daemon=True).start()


@pytest.fixture
def answers():
    made = Answers()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def expected(tmp_path):
    return cluster_check.Expected(
        namespace="team", cluster="demo-123456", ray_job="", group="tpu", min_slices=2, max_slices=2,
        hosts_per_slice=2, chips_per_host=4, topology="2x4", accelerator_type="v6e-8", devices=2, exact_devices=True,
        output_directory=str(tmp_path / "runs"), look_at_ray=True,
    )  # fmt: skip


def host(slice_name: str, worker_id: int, **changes: Any) -> dict[str, Any]:
    resources = {"TPU": 4.0, "CPU": 72.0, slice_name: 1.0}
    if worker_id == 0:
        resources["TPU-v6e-8-head"] = 1.0
    labels = {
        "ray.io/tpu-slice-name": slice_name,
        "ray.io/tpu-worker-id": str(worker_id),
        "ray.io/tpu-topology": "2x4",
    }
    node = {"state": "ALIVE", "node_ip": f"10.0.0.{worker_id}", "resources_total": resources, "labels": labels}
    return {**node, **changes}


def healthy(answers: Answers) -> None:
    nodes = [host(name, index) for name in ("tpu-0", "tpu-1") for index in range(2)]
    head = {"state": "ALIVE", "node_ip": "10.0.1.1", "resources_total": {"CPU": 8.0}, "labels": {}}
    set_nodes(answers, [head, *nodes])
    pods = [pod(f"worker-{index}", f"claim-{index}") for index in range(4)]
    answers.bodies[PODS] = {"items": pods}
    for index in range(4):
        answers.bodies[f"{CLAIMS}/claim-{index}"] = claim(2)


def set_nodes(answers: Answers, nodes: list[dict[str, Any]]) -> None:
    answers.bodies[NODES] = {"result": True, "data": {"result": {"total": len(nodes), "result": nodes}}}


def pod(name: str, claim_name: str | None, phase: str = "Running") -> dict[str, Any]:
    statuses = [{"name": "netdev", "resourceClaimName": claim_name}] if claim_name else []
    return {"metadata": {"name": name}, "status": {"phase": phase, "resourceClaimStatuses": statuses}}


def claim(devices: int) -> dict[str, Any]:
    results = [{"device": f"eth{index + 1}"} for index in range(devices)]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def problems(expected: cluster_check.Expected, answers: Answers, token: str = "") -> list[str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    server = cluster_check.Server(answers.url, headers)
    return cluster_check.check(expected, server, lambda name: server)


def test_a_cluster_as_the_values_say_has_no_problems(expected, answers, capsys):
    healthy(answers)
    assert problems(expected, answers) == []
    assert capsys.readouterr().out.splitlines() == [
        "ok      cluster: demo-123456",
        "ok      slices: 2 of v6e-8 2x4, 2 host(s) each",
        "ok      network devices: 2 on each of 4 worker(s)",
        f"ok      output directory: {expected.output_directory} can be written",
    ]


def test_a_slice_that_lacks_a_host_is_named(expected, answers):
    healthy(answers)
    lost = host("tpu-1", 1, state="DEAD")
    set_nodes(answers, [host("tpu-0", 0), host("tpu-0", 1), host("tpu-1", 0), lost])
    (problem,) = problems(expected, answers)
    assert problem.startswith("slice tpu-1 has the hosts 0, a whole one 0, 1.")


def test_a_slice_too_few_is_a_problem_and_within_the_limits_of_an_elastic_run_it_is_none(expected, answers):
    healthy(answers)
    set_nodes(answers, [host("tpu-0", 0), host("tpu-0", 1)])
    (problem,) = problems(expected, answers)
    assert problem.startswith("1 slice(s) of 2 are alive in Ray (tpu-0).")
    assert problems(dataclasses.replace(expected, min_slices=1), answers) == []


def test_a_slice_too_many_is_a_problem(expected, answers):
    healthy(answers)
    (problem,) = problems(dataclasses.replace(expected, min_slices=1, max_slices=1), answers)
    assert problem.startswith("2 slice(s) of 1 are alive in Ray (tpu-0, tpu-1).")


@pytest.mark.parametrize(
    ("resources", "labels", "problem"),
    [
        ({"TPU": 8.0}, {}, "has 8 chips, the values say 4: set tpu.chipsPerHost"),
        ({}, {"ray.io/tpu-topology": "4x4"}, "has the topology 4x4, the values say 2x4: set tpu.topology"),
        ({"TPU-v6e-8-head": 0}, {}, "has the resource TPU-v6e-8-head on 0 hosts, where one has it"),
        ({}, {"ray.io/tpu-worker-id": "1"}, "has the hosts 1, 1, a whole one 0, 1."),
    ],
)
def test_what_disagrees_with_the_topology_is_a_problem(expected, answers, resources, labels, problem):
    healthy(answers)
    nodes = [host(name, index) for name in ("tpu-0", "tpu-1") for index in range(2)]
    nodes[0]["resources_total"].update(resources)
    nodes[0]["labels"].update(labels)
    set_nodes(answers, nodes)
    (found,) = problems(expected, answers)
    assert problem in found


def test_chips_without_a_slice_s_name_point_to_the_webhook(expected, answers):
    healthy(answers)
    nodes = [host(name, index) for name in ("tpu-0", "tpu-1") for index in range(2)]
    set_nodes(answers, [*nodes, host("x", 0, labels={})])
    (found,) = problems(expected, answers)
    assert "has chips and no label ray.io/tpu-slice-name. Is GKE's TPU webhook on?" in found


def test_each_worker_without_all_its_network_devices_is_named(expected, answers):
    healthy(answers)
    answers.bodies[f"{CLAIMS}/claim-1"] = claim(1)
    answers.bodies[f"{CLAIMS}/claim-2"] = {"status": {}}
    answers.bodies[PODS]["items"][3] = pod("worker-3", None)
    found = problems(expected, answers)
    assert [text.partition("(s)")[0].partition(". ")[0] for text in found] == [
        "pod worker-1 has 1 network device",
        "pod worker-2 has 0 network device",
        "pod worker-3 has no resource claim",
    ]


def test_all_devices_of_a_node_are_at_least_one(expected, answers):
    healthy(answers)
    asked = dataclasses.replace(expected, devices=1, exact_devices=False)
    assert problems(asked, answers) == []
    answers.bodies[f"{CLAIMS}/claim-1"] = claim(0)
    assert len(problems(asked, answers)) == 1


def test_pods_that_wait_are_not_asked_for_devices_but_some_must_run(expected, answers):
    healthy(answers)
    answers.bodies[PODS]["items"][3] = pod("worker-3", None, "Pending")
    assert problems(expected, answers) == []
    answers.bodies[PODS]["items"] = [pod("worker-0", None, "Pending")]
    (found,) = problems(expected, answers)
    assert found.startswith("none of the 1 worker pods runs")


def test_without_network_devices_no_pod_is_looked_at(expected, answers):
    healthy(answers)
    assert problems(dataclasses.replace(expected, devices=0), answers) == []
    assert [path for path, _ in answers.asked if path.startswith(PODS)] == []


def test_only_the_pods_of_the_cluster_s_worker_group_are_asked_for(expected, answers):
    healthy(answers)
    problems(expected, answers)
    (path,) = [path for path, _ in answers.asked if path.startswith(PODS)]
    assert path.endswith("?labelSelector=ray.io%2Fcluster%3Ddemo-123456%2Cray.io%2Fgroup%3Dtpu")


def test_the_cluster_of_a_job_is_found_through_the_job(expected, answers, capsys):
    healthy(answers)
    own = dataclasses.replace(expected, cluster="", ray_job="demo-abc123")
    answers.bodies[JOB] = {"status": {"rayClusterName": "demo-abc123-xyz12"}}
    assert problems(own, answers) == []
    assert "ok      cluster: demo-abc123-xyz12" in capsys.readouterr().out


def test_a_job_without_a_cluster_is_the_one_problem(expected, answers):
    own = dataclasses.replace(expected, cluster="", ray_job="demo-abc123")
    answers.bodies[JOB] = {"status": {"jobDeploymentStatus": "Suspended"}}
    (found,) = problems(own, answers)
    assert found.startswith("RayJob demo-abc123 has no cluster (it is Suspended).")


def test_servers_that_do_not_answer_are_named_and_the_other_checks_go_on(expected, answers):
    healthy(answers)
    del answers.bodies[PODS]
    api = cluster_check.Server(answers.url)
    gone = cluster_check.Server("http://127.0.0.1:9")
    found = cluster_check.check(expected, api, lambda name: gone)
    assert len(found) == 2
    assert found[0].startswith("http://127.0.0.1:9/api/v0/nodes?limit=10000 does not answer")
    assert "answers 404" in found[1]


def test_ray_is_asked_with_its_token_or_not_at_all(expected, answers, capsys):
    healthy(answers)
    problems(expected, answers, token="t")
    assert {headers.get("Authorization") for path, headers in answers.asked if path.startswith(NODES)} == {"Bearer t"}
    answers.asked.clear()
    assert problems(dataclasses.replace(expected, look_at_ray=False), answers) == []
    assert [path for path, _ in answers.asked if path.startswith(NODES)] == []
    assert "skipped slices" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_a_problem_and_one_that_can_is_left_as_it_was(expected, answers, tmp_path):
    healthy(answers)
    assert problems(expected, answers) == []
    assert list((tmp_path / "runs").iterdir()) == []
    (tmp_path / "file").write_text("")
    (found,) = problems(dataclasses.replace(expected, output_directory=str(tmp_path / "file" / "runs")), answers)
    assert "cannot be written" in found
    assert "roles/storage.objectUser" in found


def test_it_runs_alone_with_the_standard_library_and_fails_with_status_one(expected, tmp_path):
    """As in the pod: the text of the file to `python -c`, isolated from everything that is installed."""
    (tmp_path / "file").write_text("")
    asked = dataclasses.replace(expected, cluster="", ray_job="demo-abc123", output_directory=str(tmp_path / "file/x"))
    program = Path(cluster_check.__file__).read_text().replace(str(cluster_check.TOKENS), str(tmp_path))
    program = program.replace('ssl.create_default_context(cafile=str(TOKENS / "ca.crt"))', "None")
    (tmp_path / "token").write_text("t")
    environment = {
        "EXPECTED": json.dumps(dataclasses.asdict(asked)),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "9",
    }
    command = [sys.executable, "-I", "-S", "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert "FAILED  cluster: https://127.0.0.1:9/apis/ray.io/v1/" in result.stdout
    assert result.stdout.endswith("2 problem(s)\n")
