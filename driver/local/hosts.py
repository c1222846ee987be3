"""Emulated TPU hosts: Ray nodes on this machine, each in Linux namespaces of its own.

A host is one `unshare` process with a private process table, /tmp/ray and /dev/shm, whose first process is `ray start`
with the environment that a TPU host has on GKE; from it Ray derives the ray.io/tpu-* labels and the TPU resources by
itself. Hosts of one slice share a boot id: jaxlib takes a CPU device's slice from it, so that MaxText finds the slices
as it does on TPUs.
"""

import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from driver.errors import DriverError
from driver.local.dashboard import Dashboard
from driver.local.machine import DIES_WITH_PARENT, ENTER_HOST, environment, free_ports, namespace_command

# Raylets on busy cores need more than Ray's 30 s; several of them measure one machine's memory, and each would kill
# workers for all; gauges come every second, the least that Ray allows, because they are what the live display shows.
_RAY_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TMPDIR": "/tmp",  # the host's own, see ENTER_HOST; sockets need a short path
    "TMPDIR": "/tmp/ray/tmp",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_metrics_report_interval_ms": "1000",
    "RAY_agent_register_timeout_ms": "180000",
    "RAY_raylet_start_wait_time_s": "60",
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "120",
    "RAY_health_check_period_ms": "3000",
    "RAY_health_check_timeout_ms": "10000",
}
_OBJECT_STORE_BYTES = 100_000_000
_TRIES = 3
_START_SECONDS = 240.0


class State(Enum):
    """Where a host is in its life. GONE: taken away, and not given back."""

    QUEUED = "queued"
    STARTING = "starting"
    READY = "ready"
    LEAVING = "leaving"
    GONE = "gone"


@dataclass(eq=False)
class Host:
    """One emulated host. slice is None for the Ray head; address is its own on the loopback interface.

    hung: the last start was ended because it took too long.
    """

    name: str
    slice: int | None
    address: str
    environment: dict[str, str] = field(repr=False)
    options: Sequence[str] = field(repr=False)
    state: State = State.QUEUED
    tries: int = 0
    started: float = 0.0
    metrics_port: int = 0
    agent_port: int = 0
    hung: bool = False
    process: subprocess.Popen[bytes] | None = None

    def hangs(self) -> bool:
        """Whether it should have started long ago."""
        return self.state is State.STARTING and time.monotonic() - self.started > _START_SECONDS

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def vanish(self) -> None:
        """Ends every process of the host at once; none is left when this returns."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def first_process(self) -> int:
        """The id, as seen from outside, of the host's process 1. Raises ProcessLookupError when there is none."""
        pid = self.process.pid if self.process is not None else 0
        try:
            return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        except (OSError, IndexError):
            raise ProcessLookupError(f"{self.name} has no process") from None


class Hosts:
    """The Ray head and the hosts of all slices: one cluster, below one folder that is its own.

    python: the trainer environment's interpreter. tpu: `tpu` of run.yaml. Call `advance` every second or so.
    """

    def __init__(self, folder: Path, python: Path, tpu: Mapping[str, Any], dashboard_port: int | None = None) -> None:
        self.folder, self.python, self.tpu = folder, python, tpu
        self._namespaces = namespace_command()
        self._gcs_port, free_port, client_port = free_ports(3)
        port = dashboard_port or free_port
        # Without a token whoever reaches one of Ray's ports may run code as this user. Left unset, Ray 2.60 wants one
        # or not by whether the user's home holds one.
        self.dashboard = Dashboard(f"http://127.0.0.1:{port}", secrets.token_hex(16))
        self.authentication = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.dashboard.token}
        # Ray takes nodes with one address for one machine, and replaces 127.0.0.1 by the machine's outer address.
        self._network = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
        options = ["--head", f"--port={self._gcs_port}", f"--ray-client-server-port={client_port}", "--num-cpus=1"]
        options += ["--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={port}"]
        environ = environment(python, _RAY_SETTINGS | self.authentication)
        self.head = Host("head", None, f"{self._network}.1", environ, options)
        self.slices: dict[int, list[Host]] = {}

    def all(self) -> list[Host]:
        """The head and every host that was ever wanted."""
        return [self.head, *(host for hosts in self.slices.values() for host in hosts)]

    def present(self) -> list[int]:
        """The numbers of the slices whose hosts are all in the Ray cluster."""
        return [number for number, hosts in self.slices.items() if all(host.state is State.READY for host in hosts)]

    def add_slice(self, number: int) -> None:
        """Wants a slice: `advance` starts its hosts, anew if it was there before."""
        per_slice = self.tpu["hostsPerSlice"]
        self.slices[number] = []
        for worker_id in range(per_slice):
            environ = {
                **_RAY_SETTINGS,
                **self.authentication,
                "RAY_ADDRESS": f"{self.head.address}:{self._gcs_port}",
                "TPU_NAME": f"slice-{number}",
                "TPU_WORKER_ID": str(worker_id),
                "TPU_WORKER_HOSTNAMES": ",".join(["localhost"] * per_slice),
                "TPU_TOPOLOGY": self.tpu["topology"],
                "TPU_ACCELERATOR_TYPE": self.tpu["acceleratorType"],
            }
            options = [f"--address={self.head.address}:{self._gcs_port}", "--num-cpus=2"]
            options.append(f"--resources={json.dumps({'TPU': self.tpu['chipsPerHost']})}")
            address = f"{self._network}.{2 + number * per_slice + worker_id}"
            host = Host(f"slice-{number}-host-{worker_id}", number, address, environment(self.python, environ), options)
            self.slices[number].append(host)

    def states(self) -> dict[int, State]:
        """The state of each slice: that of its host which is the furthest from ready."""
        order = list(State)
        return {
            number: max(
                (host.state for host in hosts), key=lambda state: (state is not State.READY, order.index(state))
            )
            for number, hosts in self.slices.items()
        }

    def metrics_ports(self) -> list[int]:
        """Where the TPU hosts that are up export their metrics."""
        return [host.metrics_port for host in self.all() if host.slice is not None and host.state is State.READY]

    def advance(self) -> list[Host]:
        """Starts what waits for its turn, and again what ended by itself, as Kubernetes would.

        Returns the hosts that ended by themselves. Raises a DriverError when the head does, or a host again and again.
        """
        starting = any(host.state is State.STARTING for host in self.all())
        nodes = self.dashboard.nodes() if starting else []
        alive = {node["node_ip"] for node in nodes if node["state"] == "ALIVE"}
        ended = []
        for host in self.all():
            if host.state is State.STARTING:
                host.hung = host.hangs()
            if host.hung:
                host.vanish()
            if host.state in (State.STARTING, State.READY) and host.ended():
                ended.append(host)
                if host is self.head and host.state is State.READY:
                    raise DriverError(f"The Ray head ended by itself.\n{self._tail(host)}")
                host.state = State.QUEUED
            elif host.state is State.STARTING:
                self._announce_agent(host)
                if host.address in alive and _listens(host.address, host.agent_port):
                    host.state = State.READY
            if host.state is State.QUEUED and (host is self.head or self.head.state is State.READY):
                self._start(host)
        return ended

    def log(self, host: Host) -> Path:
        """What `ray start` said on a host."""
        return self.folder / host.name / "ray-start.log"

    def ray_logs(self, host: Host) -> Path:
        """Ray's own log folder of a host, as seen from outside."""
        sessions = sorted((self.folder / host.name / "ray").glob("session_2*"))
        return (sessions[-1] if sessions else self.folder / host.name) / "logs"

    def close(self) -> None:
        """Ends all hosts; no process is left when this returns. Safe to call twice."""
        for host in self.all():
            if host.process is not None:
                host.process.kill()
        for host in self.all():
            host.vanish()

    def enter(self, host: Host, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Starts a command inside a host, as a container's lifecycle hook is run; its output goes to the host's log."""
        user = ["--user", "--preserve-credentials"] if "--user" in self._namespaces else []
        prefix = ["nsenter", f"--target={host.first_process()}", *user, "--mount", "--pid"]
        return self._popen(host, [*prefix, *command], "ab")

    def signal(self, host: Host, number: signal.Signals) -> None:
        """Sends a signal to a host's first process, `ray start`, as the kubelet does to a container."""
        os.kill(host.first_process(), number)

    def _start(self, host: Host) -> None:
        if host.tries == _TRIES:
            # of a host that ended, its own words tell; that a dashboard which never came does not answer is no cause
            trouble = f" Ray's dashboard: {self.dashboard.trouble}." if host.hung and self.dashboard.trouble else ""
            raise DriverError(f"The emulated host {host.name} does not start.{trouble}\n{self._tail(host)}")
        host.tries += 1
        host.environment["RAY_OVERRIDE_NODE_ID_FOR_TESTING"] = secrets.token_hex(28)  # see _announce_agent
        host.state, host.started = State.STARTING, time.monotonic()
        folder = self.folder / host.name
        shutil.rmtree(folder, ignore_errors=True)  # or Ray shows a former life's logs once more
        (folder / "ray" / "tmp").mkdir(parents=True)
        host.metrics_port, host.agent_port, *ports = free_ports(4)
        ray = [str(self.python.parent / "ray"), "start", f"--node-ip-address={host.address}", "--block"]
        ray += ["--log-color=false", "--min-worker-port=0", "--max-worker-port=0"]
        ray += [f"--metrics-export-port={host.metrics_port}", f"--dashboard-agent-listen-port={host.agent_port}"]
        ray += [f"--dashboard-agent-grpc-port={ports[0]}", f"--runtime-env-agent-port={ports[1]}"]
        ray += [f"--object-store-memory={_OBJECT_STORE_BYTES}"]
        boot_id = self._boot_id(host)
        enter = [*self._namespaces, "sh", "-c", ENTER_HOST, "sh", str(boot_id), str(folder / "ray")]
        host.process = self._popen(host, [*enter, *ray, *host.options], "wb")

    def _announce_agent(self, host: Host) -> None:
        """Writes down the port of a host's agent in the agent's place, where the raylet looks for it.

        A raylet gives its agents 15 s to come up and aborts (Ray 2.60), which on busy cores is not enough. The port is
        known beforehand, and the raylet does without the agent until it is there.
        """
        node_id = host.environment["RAY_OVERRIDE_NODE_ID_FOR_TESTING"]
        for session in (self.folder / host.name / "ray").glob("session_2*"):
            (session / f"dashboard_agent_listen_port_{node_id}").write_text(str(host.agent_port))

    def _popen(self, host: Host, command: Sequence[str], mode: str) -> subprocess.Popen[bytes]:
        with self.log(host).open(mode) as log:
            return subprocess.Popen(
                [*DIES_WITH_PARENT, *command],
                env=host.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is the driver's to handle
            )

    def _boot_id(self, host: Host) -> Path:
        path = self.folder / f"boot-id-{'head' if host.slice is None else host.slice}"
        if not path.exists():
            path.write_text(f"{uuid.uuid4()}\n")
        return path

    def _tail(self, host: Host, lines: int = 5) -> str:
        return "\n".join(self.log(host).read_text(errors="replace").splitlines()[-lines:])


def _listens(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0
