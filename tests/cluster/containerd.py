"""A containerd on one machine of a test cluster."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.machines import Machine, Process
from tests.cluster.programs import Programs

_START_SECONDS = 60.0

# Version 2 is what containerd 1.6 (Debian 12) and 1.7 read.
_CONFIG = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
oom_score = 0
disabled_plugins = [{disabled}]
[grpc]
  address = "{folder}/socket"
[ttrpc]
  address = "{folder}/ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  # Where this process may not lower its own score it may not lower a container's.
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""
_DISABLED = ("aufs", "btrfs", "devmapper", "zfs")


@dataclass(frozen=True)
class Containerd:
    """A containerd that answers at folder/socket. folder holds all that it writes."""

    machine: Machine
    folder: Path
    programs: Programs
    process: Process

    @property
    def endpoint(self) -> str:
        return f"unix://{self.folder}/socket"

    def import_image(self, archive: Path) -> None:
        self._ctr("images", "import", str(archive))

    def _ctr(self, *arguments: str) -> str:
        ctr = str(self.programs.containerd / "ctr")
        return self.machine.run(ctr, "--address", f"{self.folder}/socket", "--namespace", "k8s.io", *arguments)


def start(machine: Machine, folder: Path, programs: Programs, pause: str, pods: str = "") -> Containerd:
    """Starts it and waits until it answers.

    Args:
        folder: for all that it writes; its subfolder `root` may be there already, with images.
        pause: image of the container that holds a pod's namespaces.
        pods: the addresses of the pods of this machine, as a network.
    """
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    if pods:
        (folder / "cni" / "10-pods.conflist").write_text(json.dumps(_pod_network(pods, folder)))
    config = folder / "config.toml"
    disabled = ", ".join(f'"io.containerd.snapshotter.v1.{name}"' for name in _DISABLED)
    cni = programs.containerd / "cni"
    config.write_text(_CONFIG.format(folder=folder, pause=pause, cni=cni, disabled=disabled))
    environment = {"PATH": f"{programs.containerd}:/usr/sbin:/usr/bin:/sbin:/bin"}
    command = [str(programs.containerd / "containerd"), "--config", str(config)]
    process = machine.spawn(folder / "containerd.log", command, environment)
    started = Containerd(machine, folder, programs, process)
    deadline = time.monotonic() + _START_SECONDS
    while not (folder / "socket").is_socket():
        process.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"containerd does not answer; {process.log} says why.")
        time.sleep(0.05)
    return started


def _pod_network(pods: str, folder: Path) -> dict[str, object]:
    """A pair of devices per pod and routes, without a bridge or address translation."""
    addresses = {"type": "host-local", "dataDir": f"{folder}/addresses", "ranges": [[{"subnet": pods}]]}
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": {**addresses, "routes": [{"dst": "0.0.0.0/0"}]}},
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": False},
        ],
    }
