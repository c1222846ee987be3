"""Nodes of a test cluster: a machine with containerd, kubelet, kube-proxy and what GKE puts on a node."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster import containerd, images
from tests.cluster.control_plane import ControlPlane
from tests.cluster.machines import Machine, Process
from tests.cluster.network import Addresses
from tests.cluster.programs import Programs

REPOSITORY = Path(__file__).parents[2]
_CGROUPS = Path("/sys/fs/cgroup")
_HERE = "/run/node"
"""Where a node sees its own folder."""


@dataclass(frozen=True)
class NodeSpec:
    """number: of the node in the cluster, 0 is where everything without chips runs. tpu_hosts: how many it plays."""

    number: int
    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...] = ()
    tpu_hosts: int = 0


@dataclass(frozen=True)
class Node:
    """folder: everything that the node writes but for the buckets."""

    spec: NodeSpec
    machine: Machine
    folder: Path
    processes: tuple[Process, ...]

    def check(self) -> None:
        for process in self.processes:
            process.check()


def start(
    machine: Machine,
    spec: NodeSpec,
    folder: Path,
    plane: ControlPlane,
    addresses: Addresses,
    programs: Programs,
    store: Path,
) -> Node:
    """Starts a node's programs on its machine, which is plugged in already.

    Args:
        store: containerd's folder with the images.
    """
    authority, address = plane.authority, addresses.node(spec.number)
    folder.mkdir(parents=True)
    (folder / "containerd").mkdir()
    images.copy_folder(store, folder / "containerd" / "root")
    runtime = containerd.start(machine, folder / "containerd", programs, images.PAUSE, addresses.pods(spec.number))
    # A short name for the folder: the name of a socket may have 107 characters.
    machine.run("mkdir", _HERE)
    machine.run("mount", "--bind", str(folder), _HERE)
    # The kubelet links pods' logs from here, wherever they are.
    machine.run("mkdir", "-p", "/var/log/containers")
    machine.run("mount", "-t", "tmpfs", "logs", "/var/log/containers")
    user = f"kubelet-{spec.name}"
    kubeconfig = authority.user(user, plane.server, f"system:node:{spec.name}", "system:nodes")
    authority.issue(f"{user}-server", address, spec.name)
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    group = f"{addresses.link}-{spec.name}"
    make_cgroup(group)
    kubelet_file, proxy_file = folder / "kubelet.yaml", folder / "kube-proxy.yaml"
    kubelet_file.write_text(yaml.safe_dump(_kubelet(spec, authority.folder, addresses, runtime.endpoint, group)))
    proxy = authority.user(f"kube-proxy-{spec.name}", plane.server, "system:kube-proxy")
    proxy_file.write_text(yaml.safe_dump(_kube_proxy(spec, proxy, addresses)))
    environment = {"PATH": f"{programs.containerd}:/usr/sbin:/usr/bin:/sbin:/bin"}
    kubelet = [
        *(str(programs.kubernetes / "kubelet"), f"--config={kubelet_file}", f"--kubeconfig={kubeconfig}"),
        *(f"--root-dir={_HERE}/kubelet", f"--hostname-override={spec.name}", f"--node-ip={address}"),
        "--node-labels=" + ",".join(f"{name}={value}" for name, value in spec.labels.items()),
    ]
    kube_proxy = [str(programs.kubernetes / "kube-proxy"), f"--config={proxy_file}"]
    return Node(
        spec,
        machine,
        folder,
        (
            runtime.process,
            machine.spawn(folder / "kubelet.log", kubelet, environment),
            machine.spawn(folder / "kube-proxy.log", kube_proxy, environment),
        ),
    )


def start_gke(node: Node, kubeconfig: Path, buckets: Path) -> Process:
    """Starts what GKE runs on each node: DRANET's driver and the GCS FUSE CSI driver, as tests/gke plays them."""
    command = [sys.executable, "-m", "tests.gke.node", f"--kubeconfig={kubeconfig}", f"--node={node.spec.name}"]
    command += [f"--kubelet-dir={_HERE}/kubelet", f"--buckets={buckets}", f"--hosts={node.spec.tpu_hosts}"]
    environment = {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"}
    return node.machine.spawn(node.folder / "gke-node.log", command, environment, cwd=REPOSITORY)


def make_cgroup(name: str) -> None:
    """The control group that all pods of a node are below, of every controller that there is."""
    if (_CGROUPS / "cgroup.controllers").exists():
        (_CGROUPS / name).mkdir(exist_ok=True)
        controllers = (_CGROUPS / "cgroup.controllers").read_text().split()
        for folder in (_CGROUPS, _CGROUPS / name):
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in controllers))
        return
    for controller in _CGROUPS.iterdir():
        if not (controller / "cgroup.procs").exists():
            continue
        (controller / name).mkdir(exist_ok=True)
        for limit in ("cpuset.cpus", "cpuset.mems"):  # a new cpuset is empty, and nothing can run in it
            if (controller / limit).exists():
                (controller / name / limit).write_text((controller / limit).read_text())


def remove_cgroup(name: str) -> None:
    """Removes a node's control group and those below it; all its processes have ended."""
    for controller in [_CGROUPS, *_CGROUPS.iterdir()]:
        if (controller / name).is_dir():
            for folder, _, _ in os.walk(controller / name, topdown=False):
                Path(folder).rmdir()


def _kubelet(spec: NodeSpec, pki: Path, addresses: Addresses, endpoint: str, group: str) -> dict[str, object]:
    certificate = pki / f"kubelet-{spec.name}-server"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": addresses.node(spec.number),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{certificate}.crt",
        "tlsPrivateKeyFile": f"{certificate}.key",
        "clusterDNS": [addresses.dns_service],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{_HERE}/resolv.conf",
        "registerWithTaints": list(spec.taints),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": endpoint,
        # Without it the kubelet must write sysctls of the machine below, which all nodes share.
        "featureGates": {"KubeletInUserNamespace": True},
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": f"{_HERE}/pod-logs",
        "volumePluginDir": f"{_HERE}/volume-plugins",
        "syncFrequency": "10s",
        "nodeStatusReportFrequency": "10s",
        "healthzBindAddress": "127.0.0.1",
        "maxPods": 60,
    }


def _kube_proxy(spec: NodeSpec, kubeconfig: Path, addresses: Addresses) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": spec.name,
        "mode": "iptables",
        "clusterCIDR": addresses.all_pods,
        "bindAddress": addresses.node(spec.number),
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # The limits are of the machine below.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
