"""The programs that a test cluster runs, from scripts/fetch-tools or from where an environment variable says."""

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_FETCH = Path(__file__).parents[2] / "scripts" / "fetch-tools"


@dataclass(frozen=True)
class Programs:
    """kubernetes: folder of kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kube-proxy.

    containerd: folder of containerd, its shim, ctr, runc, and `cni` with the network plugins.
    kuberay_config: the folder `config` of the operator's Go module: definitions, permissions, deployment.
    """

    kubernetes: Path
    containerd: Path
    etcd: Path
    coredns: Path
    operator: Path
    pause: Path
    kuberay_config: Path

    @property
    def in_images(self) -> Iterable[Path]:
        return (self.coredns, self.operator, self.pause)


def fetch() -> Programs:
    """Builds what is not there yet (minutes, once for a user and version) and says what it does on standard error."""
    names = ["kubernetes", "containerd", "etcd", "coredns", "kuberay-operator", "pause", "kuberay-config"]
    told = subprocess.run([sys.executable, str(_FETCH), *names], stdout=subprocess.PIPE, text=True, check=False)
    if told.returncode:
        raise SystemExit(told.returncode)
    return Programs(*(Path(line) for line in told.stdout.splitlines()))


def system_programs_missing() -> list[str]:
    """Debian packages that are not installed, of those that the cluster takes from the system."""
    needed = {"iptables": "iptables", "ip": "iproute2", "mmdebstrap": "mmdebstrap", "sysctl": "procps"}
    folders = [*os.environ["PATH"].split(":"), "/usr/sbin", "/sbin"]
    return [package for program, package in needed.items() if not any((Path(f) / program).exists() for f in folders)]
