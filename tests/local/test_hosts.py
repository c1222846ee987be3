"""Emulated hosts are Ray nodes as GKE has them, and never outlive the driver."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.errors import DriverError
from driver.local.hosts import Host, Hosts, State

pytestmark = pytest.mark.local

REPOSITORY = Path(__file__).parents[2]
TPU = {"topology": "4x4", "acceleratorType": "v6e-16", "hostsPerSlice": 4, "chipsPerHost": 4}
SMALL = {"topology": "2x2", "acceleratorType": "v6e-4", "hostsPerSlice": 1, "chipsPerHost": 4}
PATIENCE_SECONDS = 240


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.5)
    return result


def advance_until_present(hosts: Hosts, slices: list[int]) -> None:
    def present() -> bool:
        hosts.advance()
        return hosts.present() == slices

    until(present, f"slices {slices} are in the cluster")


def processes_of(mark: str) -> list[str]:
    """The command lines of all living processes that have a text in theirs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in line and path.parent.name != str(os.getpid()):
            found.append(line)
    return found


def boot_id(hosts: Hosts, host: Host) -> str:
    """What a process on a host takes for the machine's boot id: jaxlib makes the slice's number of it."""
    hosts.enter(host, ["cat", "/proc/sys/kernel/random/boot_id"]).wait()
    return hosts.log(host).read_text().splitlines()[-1]


@pytest.fixture
def cluster(tmp_path: Path, trainer_python: Path) -> Iterator[Callable[..., Hosts]]:
    started: list[Hosts] = []

    def start(tpu: dict[str, Any], slices: int) -> Hosts:
        hosts = Hosts(tmp_path, trainer_python, tpu)
        started.append(hosts)
        for number in range(slices):
            hosts.add_slice(number)
        advance_until_present(hosts, list(range(slices)))
        return hosts

    yield start
    for hosts in started:
        hosts.close()


@pytest.mark.full
def test_a_slice_of_four_hosts_has_the_labels_and_the_resources_of_a_tpu_slice(cluster):
    nodes = [node for node in cluster(TPU, 1).dashboard.nodes() if not node["is_head_node"]]
    labels = sorted((node["labels"] for node in nodes), key=lambda labels: labels["ray.io/tpu-worker-id"])
    assert [label["ray.io/tpu-worker-id"] for label in labels] == ["0", "1", "2", "3"]
    for label in labels:
        assert label["ray.io/tpu-slice-name"] == "slice-0"
        assert label["ray.io/tpu-topology"] == "4x4"
        assert label["ray.io/tpu-pod-type"] == "v6e-16"
    assert [node["resources_total"]["TPU"] for node in nodes] == [4.0] * 4
    assert sum("TPU-v6e-16-head" in node["resources_total"] for node in nodes) == 1


def test_slices_come_vanish_and_come_back(cluster, tmp_path):
    hosts = cluster(SMALL, 2)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{hosts.dashboard.address}/api/v0/nodes")
    nodes = {node["labels"].get("ray.io/tpu-slice-name"): node for node in hosts.dashboard.nodes()}
    assert set(nodes) == {None, "slice-0", "slice-1"}
    assert nodes["slice-1"]["resources_total"]["TPU-v6e-4-head"] == 1.0
    assert len({boot_id(hosts, host) for host in hosts.all()}) == 3

    [host] = hosts.slices[1]
    host.vanish()
    host.state = State.GONE
    until(lambda: not processes_of(host.address + " "), "the kernel has ended all that ran on the host")
    gone = nodes["slice-1"]["node_id"]
    until(lambda: any(n["node_id"] == gone and n["state"] == "DEAD" for n in hosts.dashboard.nodes()), "Ray notices")
    assert hosts.states() == {0: State.READY, 1: State.GONE}

    hosts.add_slice(1)
    advance_until_present(hosts, [0, 1])
    hosts.close()
    assert not processes_of(str(tmp_path))


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.full),
        pytest.param(signal.SIGKILL, marks=pytest.mark.full),
    ],
)
def test_a_driver_that_is_ended_leaves_nothing(number, tmp_path, trainer_python):
    # Whatever the tests themselves were started with: a background job of a script ignores SIGINT.
    command = ["env", "--default-signal=INT"]
    command += [sys.executable, "-c", "from driver.cli import main; main()", "local", "-f", "tiny"]
    command += ["--out", str(tmp_path / "out"), "--trainer-python", str(trainer_python)]
    environ = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    log = tmp_path / "log"
    with log.open("w") as file:
        driver = subprocess.Popen(command, env=environ, stderr=file, start_new_session=True)
    until(lambda: "Starting the hosts" in log.read_text() or driver.poll() is not None, "the Ray head is up")
    started = " ".join(processes_of(f"{tmp_path}/driver-local-"))
    network = re.search(r"--node-ip-address=(127\.\d+\.\d+\.)", started)
    assert network, log.read_text()
    assert len(processes_of(network[1])) > 10  # Ray's own, which do not name the folder
    driver.send_signal(number)
    code = driver.wait(timeout=30)
    if number is signal.SIGKILL:
        time.sleep(1)
    else:
        assert (code, list(tmp_path.glob("driver-local-*"))) == (1, [])
        assert "Interrupted before the first step." in log.read_text()
    assert not processes_of(f"{tmp_path}/driver-local-") + processes_of(network[1])
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_a_host_that_never_starts_ends_with_what_it_said(tmp_path):
    ray = tmp_path / "bin" / "ray"
    ray.parent.mkdir()
    ray.write_text("#!/bin/sh\necho no such device\nexit 3\n")
    ray.chmod(0o755)
    hosts = Hosts(tmp_path / "hosts", ray.with_name("python"), SMALL)
    hosts.dashboard.trouble = "connection refused"  # as when it was asked while `ray start` was still running
    with pytest.raises(DriverError, match=r"host head does not start\.\nno such device"):
        until(lambda: hosts.advance() and False, "the third try has failed")


def test_a_host_that_hangs_ends_with_what_the_dashboard_said(tmp_path, monkeypatch):
    ray = tmp_path / "bin" / "ray"
    ray.parent.mkdir()
    ray.write_text("#!/bin/sh\nexec sleep 600\n")
    ray.chmod(0o755)
    monkeypatch.setattr("driver.local.hosts._START_SECONDS", 0.2)
    hosts = Hosts(tmp_path / "hosts", ray.with_name("python"), SMALL)
    with pytest.raises(DriverError, match=r"host head does not start\. Ray's dashboard: .*refused"):
        until(lambda: hosts.advance() and False, "the third try has failed")
