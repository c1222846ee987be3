"""Addresses of a test cluster and the wires between its machines.

The control plane's machine holds a bridge to which every node is plugged, and one link to the machine below, over which
tests reach the API server and nothing else. There is no way out. All addresses are of 198.18.0.0/15, which is reserved
for tests (RFC 2544).
"""

import subprocess
from dataclasses import dataclass

from tests.cluster.machines import Machine, MachineError

CLUSTERS = 16
"""Clusters at once on one machine."""


@dataclass(frozen=True)
class Addresses:
    """The networks of the cluster of a number from 0 to CLUSTERS - 1: 16 networks of 256 addresses each."""

    index: int

    def _network(self, number: int) -> str:
        return f"198.18.{16 * self.index + number}"

    @property
    def link(self) -> str:
        """The device, on the machine below, that leads to the cluster."""
        return f"mms{self.index}"

    @property
    def below(self) -> str:
        return f"{self._network(0)}.1"

    @property
    def api_from_below(self) -> str:
        return f"{self._network(0)}.2"

    @property
    def control_plane(self) -> str:
        return f"{self._network(1)}.1"

    def node(self, number: int) -> str:
        return f"{self._network(1)}.{10 + number}"

    @property
    def services(self) -> str:
        return f"{self._network(2)}.0/24"

    @property
    def api_service(self) -> str:
        return f"{self._network(2)}.1"

    @property
    def dns_service(self) -> str:
        return f"{self._network(2)}.10"

    def pods(self, node: int) -> str:
        return f"{self._network(4 + node)}.0/24"

    @property
    def all_pods(self) -> str:
        """Of every node. Services and nodes are in it too, which only kube-proxy's own rules look at."""
        return f"198.18.{16 * self.index}.0/20"


def claim(control_plane: Machine) -> Addresses:
    """Takes the first number that is free on this machine and plugs the control plane in.

    The link's name is the claim: the kernel refuses a second one of the same name.
    """
    for index in range(CLUSTERS):
        addresses = Addresses(index)
        link = ["ip", "link", "add", addresses.link, "type", "veth", "peer", "name", "below"]
        made = subprocess.run([*link, "netns", str(control_plane.pid)], capture_output=True, text=True, check=False)
        if made.returncode == 0:
            _below("ip", "addr", "add", f"{addresses.below}/30", "dev", addresses.link)
            _below("ip", "link", "set", addresses.link, "up")
            control_plane.run("ip", "addr", "add", f"{addresses.api_from_below}/30", "dev", "below")
            control_plane.run("ip", "link", "set", "below", "up")
            control_plane.run("ip", "link", "add", "nodes", "type", "bridge")
            control_plane.run("ip", "addr", "add", f"{addresses.control_plane}/24", "dev", "nodes")
            control_plane.run("ip", "link", "set", "nodes", "up")
            return addresses
        if "exists" not in made.stderr:
            raise MachineError(f"{' '.join(link)}: {made.stderr.strip()}")
    raise MachineError(f"{CLUSTERS} test clusters are up on this machine: take one down with scripts/cluster-down.")


def plug_in(node: Machine, number: int, nodes: int, control_plane: Machine, addresses: Addresses) -> None:
    """Plugs a node into the bridge, and tells everyone the way to its pods.

    Args:
        nodes: how many nodes there are in all.
    """
    port = f"node{number}"
    # Not in the control plane's process namespace, where the node's number is another.
    link = ["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(node.pid)]
    _below("nsenter", f"--target={control_plane.pid}", "--net", *link)
    control_plane.run("ip", "link", "set", port, "master", "nodes", "up")
    control_plane.run("ip", "route", "replace", addresses.pods(number), "via", addresses.node(number))
    node.run("ip", "addr", "add", f"{addresses.node(number)}/24", "dev", "eth0")
    node.run("ip", "link", "set", "eth0", "up")
    node.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    # The node's own processes reach Service addresses: kube-proxy translates them on their way out.
    node.run("ip", "route", "add", addresses.services, "dev", "lo", "src", addresses.node(number))
    for other in range(nodes):
        if other != number:
            node.run("ip", "route", "add", addresses.pods(other), "via", addresses.node(other))


def _below(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
