"""A real Kubernetes on this machine: up, down, and where to find it.

A control plane and three nodes: `system` for everything without chips, and two that are labelled as TPU node pools and
each play the hosts of one slice. What belongs to a cluster is in one folder of the user's cache, and its processes are
in namespaces that end with their holder, so that taking it down leaves nothing.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from driver import resources
from tests.cluster import addons, control_plane, images, network, nodes, programs
from tests.cluster.buckets import FolderBucket
from tests.cluster.machines import Machine, Process
from tests.gke import objects

BUCKET, BUCKET_USER = "test-bucket", "default/demo"
"""For whoever looks around in the cluster: a bucket, and the namespace and service account that may use it."""

TOPOLOGY, HOSTS, CHIPS = "2x4", 2, 8
"""Of one slice: topology, hosts and chips of its node pool."""

_CHART = Path(__file__).parents[2] / "charts" / "maxtext-multislice"
_START_SECONDS = 120.0
_WEBHOOK_PORT = 9443
_WORKLOAD_IDENTITY = {"iam.gke.io/gke-metadata-server-enabled": "true"}


class ClusterError(Exception):
    """The cluster can't be had; the message says why and what to do."""


@dataclass(frozen=True)
class Cluster:
    """folder: holds all files of the cluster; kubeconfig and the buckets are what others need of it."""

    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "pki" / "admin.kubeconfig"

    @property
    def buckets(self) -> Path:
        return self.folder / "buckets"

    @property
    def state_file(self) -> Path:
        return self.folder / "state.json"

    @property
    def state(self) -> dict[str, Any]:
        """Its machines, by name, and the number of its addresses as `index`; empty when it is not there."""
        return dict(json.loads(self.state_file.read_text())) if self.state_file.exists() else {}

    def machines(self) -> dict[str, Machine]:
        return {name: Machine(**fields) for name, fields in self.state.get("machines", {}).items()}

    @property
    def up(self) -> bool:
        machines = self.machines()
        return (self.folder / "ready").exists() and all(machine.alive for machine in machines.values())

    def remember(self, machines: list[Machine], addresses: network.Addresses | None = None) -> None:
        """Writes down what has to be ended, before anything else is started."""
        state: dict[str, Any] = {"machines": {machine.name: asdict(machine) for machine in machines}}
        if addresses is not None:
            state["index"] = addresses.index
        new = self.state_file.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.rename(self.state_file)

    @property
    def addresses(self) -> network.Addresses:
        return network.Addresses(self.state["index"])


def named(name: str) -> Cluster:
    return Cluster(resources.cache_dir() / "cluster" / f"run-{name}")


def build() -> tuple[programs.Programs, Path]:
    """The programs, and containerd's folder with the images: made where they are not there yet, which takes minutes."""
    with _lock(named("build")):  # of two at once, the second finds what the first has made
        _check_this_machine()
        fetched = programs.fetch()
        return fetched, images.containerd_folder(fetched)


def start(name: str, say: Callable[[str], None]) -> Cluster:
    """Starts the cluster of that name; does nothing where it is up, and clears away what an interrupted start left."""
    fetched, store = build()
    cluster = named(name)
    with _lock(cluster):
        if cluster.up:
            return cluster
        _stop(cluster)
        try:
            _start(cluster, fetched, store, say)
        except BaseException:
            _stop(cluster, keep_logs=True)
            raise
    return cluster


def stop(name: str) -> bool:
    """Ends the cluster of that name and removes its files. Returns whether there was one."""
    cluster = named(name)
    if not cluster.folder.exists():
        return False
    with _lock(cluster):
        _stop(cluster)
    return True


@dataclass
class LostNode:
    """A node that a test takes away, and gives back."""

    cluster: Cluster
    api: addons.Api
    name: str

    def cordon(self) -> None:
        """The node takes no more pods."""
        self.api.core.patch_node(self.name, {"spec": {"unschedulable": True}})

    def cordon_and_delete_pods(self, namespace: str) -> None:
        """The node takes no more pods, and those of the namespace are told to go, as before a maintenance."""
        self.cordon()
        self.api.core.delete_collection_namespaced_pod(namespace, field_selector=f"spec.nodeName={self.name}")

    def vanish(self) -> None:
        """Everything on the node ends at once, kubelet and containers, and GKE takes note: as a Spot VM goes."""
        self.cluster.machines()[self.name].end()
        self.api.core.delete_node(self.name)

    def give_back(self) -> None:
        """The node is there and takes pods, whatever has happened to it."""
        machine = self.cluster.machines()[self.name]
        if machine.alive:
            self.api.core.patch_node(self.name, {"spec": {"unschedulable": None}})
            return
        spec = next(spec for spec in specs() if spec.name == self.name)
        plane = control_plane.ControlPlane.of(
            self.cluster.machines()["control-plane"], self.cluster.folder, self.cluster.addresses
        )
        shutil.rmtree(self.cluster.folder / self.name)
        nodes.remove_cgroup(f"{self.cluster.addresses.link}-{self.name}")
        node = _start_node(self.cluster, plane, spec, *build())
        _make_ready(plane, self.api, node, self.cluster.buckets)


def specs() -> list[nodes.NodeSpec]:
    table = yaml.safe_load((_CHART / "files" / "tpu-types.yaml").read_text())["v6e"]
    tpu = {"accelerator": table["gkeAccelerator"], "topology": TOPOLOGY}
    made = [nodes.NodeSpec(0, "system", objects.node_labels("system") | _WORKLOAD_IDENTITY)]
    for number in (1, 2):
        labels = objects.node_labels(f"tpu-{number}", tpu) | _WORKLOAD_IDENTITY
        made.append(nodes.NodeSpec(number, f"tpu-{number}", labels, (objects.TAINT,), HOSTS))
    return made


def _start(cluster: Cluster, fetched: programs.Programs, store: Path, say: Callable[[str], None]) -> None:
    cluster.buckets.mkdir(parents=True)
    FolderBucket(cluster.buckets / BUCKET, BUCKET_USER)
    plane_machine = Machine.start("control-plane")
    cluster.remember([plane_machine])
    addresses = network.claim(plane_machine)
    cluster.remember([plane_machine], addresses)
    plane = control_plane.start(plane_machine, cluster.folder, addresses, fetched)
    say("the API server is ready")
    api = addons.Api(plane.admin)
    api.apply([*objects.crds(), *objects.cluster_objects(), *addons.dns(addresses.dns_service)])
    api.apply(addons.kuberay(fetched), addons.OPERATOR_NAMESPACE)
    webhook = _start_webhook(plane, api, addresses, cluster.folder)
    started = [_start_node(cluster, plane, spec, fetched, store) for spec in specs()]
    for node in started:
        _make_ready(plane, api, node, cluster.buckets)
    say("the nodes are ready")
    api.wait_for_deployment("coredns", "kube-system")
    api.wait_for_deployment(addons.OPERATOR, addons.OPERATOR_NAMESPACE)
    webhook.check()
    plane.check()
    say("DNS and the KubeRay operator are ready")
    (cluster.folder / "ready").touch()


def _start_node(
    cluster: Cluster, plane: control_plane.ControlPlane, spec: nodes.NodeSpec, fetched: programs.Programs, store: Path
) -> nodes.Node:
    machine = Machine.start(spec.name)
    others = [other for name, other in cluster.machines().items() if name != spec.name]
    cluster.remember([*others, machine], cluster.addresses)
    network.plug_in(machine, spec.number, len(specs()), plane.machine, cluster.addresses)
    return nodes.start(machine, spec, cluster.folder / spec.name, plane, cluster.addresses, fetched, store)


def _make_ready(plane: control_plane.ControlPlane, api: addons.Api, node: nodes.Node, buckets: Path) -> None:
    """Waits until a node is ready, and gives it what GKE gives it: its drivers and its chips."""
    name, deadline = node.spec.name, time.monotonic() + _START_SECONDS
    while not api.node_is_ready(name):
        node.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"node {name} is not ready; the logs in {node.folder} say why.")
        time.sleep(0.1)
    if node.spec.tpu_hosts:
        chips = CHIPS // HOSTS * node.spec.tpu_hosts
        api.core.patch_node_status(name, objects.tpu_capacity(chips))
    credentials = {"token": api.token(objects.NODE_ACCOUNT, objects.NAMESPACE)}
    kubeconfig = plane.authority.kubeconfig(f"gke-node-{name}", plane.server, credentials)
    _await_word(nodes.start_gke(node, kubeconfig, buckets), "serving")


def _start_webhook(
    plane: control_plane.ControlPlane, api: addons.Api, addresses: network.Addresses, folder: Path
) -> Process:
    plane.authority.issue("tpu-webhook", addresses.control_plane)
    pki = plane.authority.folder
    credentials = {"token": api.token(objects.WEBHOOK_ACCOUNT, objects.NAMESPACE)}
    kubeconfig = plane.authority.kubeconfig("tpu-webhook", plane.server, credentials)
    listen = f"{addresses.control_plane}:{_WEBHOOK_PORT}"
    command = [sys.executable, "-m", "tests.gke.webhook", f"--kubeconfig={kubeconfig}", f"--listen={listen}"]
    command += [f"--certificate={pki}/tpu-webhook.crt", f"--key={pki}/tpu-webhook.key"]
    environment = {"PYTHONPATH": str(nodes.REPOSITORY), "PYTHONUNBUFFERED": "1"}
    process = plane.machine.spawn(folder / "log" / "tpu-webhook.log", command, environment, cwd=nodes.REPOSITORY)
    _await_word(process, "serving")
    api.apply(objects.webhook_configurations(f"https://{listen}", plane.authority.certificate.read_text()))
    return process


def _await_word(process: Process, word: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while word not in process.log.read_text(errors="replace"):
        process.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{process.log.stem} does not say {word!r}: {process.log}")
        time.sleep(0.1)


def _stop(cluster: Cluster, keep_logs: bool = False) -> None:
    machines = cluster.machines()
    (cluster.folder / "ready").unlink(missing_ok=True)
    for machine in reversed(machines.values()):
        machine.end()
    if "index" in cluster.state:
        link = network.Addresses(cluster.state["index"]).link
        for name in machines:
            nodes.remove_cgroup(f"{link}-{name}")
    cluster.state_file.unlink(missing_ok=True)
    if keep_logs:
        kept = cluster.folder.with_name(f"failed-{cluster.folder.name}")
        shutil.rmtree(kept, ignore_errors=True)
        for log in cluster.folder.rglob("*.log"):
            target = kept / log.relative_to(cluster.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            log.rename(target)
    shutil.rmtree(cluster.folder, ignore_errors=not cluster.folder.exists())


@contextlib.contextmanager
def _lock(cluster: Cluster) -> Iterator[None]:
    cluster.folder.parent.mkdir(parents=True, exist_ok=True)
    with cluster.folder.with_suffix(".lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _check_this_machine() -> None:
    if os.geteuid() != 0:
        raise ClusterError(
            "A test cluster needs root, for namespaces and containers. Run this as root, or choose tests without it:"
            " scripts/test tests/unit tests/chart tests/local"
        )
    missing = programs.system_programs_missing()
    if missing and shutil.which("apt-get"):
        print(f"Installing {', '.join(missing)}", flush=True)
        apt = ["apt-get", "-qq", "--option=DPkg::Lock::Timeout=300"]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
            done = subprocess.run([*apt, *command], env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ClusterError(f"{' '.join([*apt, *command])} failed: {(done.stderr or done.stdout).strip()}")
    elif missing:
        raise ClusterError(f"A test cluster needs {', '.join(missing)} (Debian's names). Install them.")
