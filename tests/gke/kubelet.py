"""What a kubelet does with the node's program, for its tests.

The program runs as the cluster's scripts start it, in a mount namespace of its own, so that no mount can be left.
"""

import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from tests.gke.programs import program
from tests.gke.protocols import protocol, socket_address

POD = "/api/v1/namespaces/team/pods/p"
OPTIONS = "implicit-dirs,uid=1000,gid=1000,dir-mode=775,file-mode=664,metadata-cache:ttl-secs:60"


class Node:
    """The program, what it stands on, and the calls that a kubelet makes."""

    def __init__(self, api, folder, running):
        self.api, self.folder, self.program = api, folder, running
        self.channels = {}

    def stub(self, name, kind, socket):
        channel = self.channels.setdefault(socket, grpc.insecure_channel(socket_address(self.folder / "k" / socket)))
        return getattr(protocol(name).services, f"{kind}Stub")(channel)

    def register(self, driver):
        stub = self.stub("registration", "Registration", f"plugins_registry/{driver}-reg.sock")
        messages = protocol("registration").messages
        info = stub.GetInfo(messages.InfoRequest())
        stub.NotifyRegistrationStatus(messages.RegistrationStatus(plugin_registered=True))
        return info

    def dra(self, call, *claims):
        messages = protocol("dra").messages
        wanted = [messages.Claim(namespace="team", name=name, uid=uid) for name, uid in claims]
        stub = self.stub("dra", "DRAPlugin", "plugins/dra.net/dra.sock")
        return getattr(stub, call)(getattr(messages, f"{call}Request")(claims=wanted)).claims

    def prepare(self, name, uid="u1"):
        return self.dra("NodePrepareResources", (name, uid))[uid]

    def csi(self, service, call, **fields):
        stub = self.stub("csi", service, "plugins/gcsfuse/csi.sock")
        return getattr(stub, call)(getattr(protocol("csi").messages, f"{call}Request")(**fields), timeout=20)

    def publish(self, name="v", options=OPTIONS, bucket="checkpoints", readonly=False, pod="p", account="run", **more):
        context = {
            "csi.storage.k8s.io/ephemeral": "true",
            "csi.storage.k8s.io/pod.name": pod,
            "csi.storage.k8s.io/pod.namespace": "team",
            "csi.storage.k8s.io/serviceAccount.name": account,
            "bucketName": bucket,
            "mountOptions": options,
        } | more
        messages = protocol("csi").messages
        group = context.pop("group", "")
        mount = messages.VolumeCapability.MountVolume(volume_mount_group=group)
        capability = messages.VolumeCapability(mount=mount)
        target = self.folder / "k" / name
        self.csi(
            "Node",
            "NodePublishVolume",
            volume_id=name,
            target_path=str(target),
            volume_context={key: value for key, value in context.items() if value is not None},
            volume_capability=capability,
            readonly=readonly,
        )
        return target

    def unpublish(self, target):
        self.csi("Node", "NodeUnpublishVolume", volume_id="v", target_path=str(target))

    def refusal(self, **arguments):
        with pytest.raises(grpc.RpcError) as caught:
            self.publish(**arguments)
        return caught.value.code(), caught.value.details()

    def bucket(self, name="checkpoints", **policy):
        (self.folder / "buckets" / name).mkdir(exist_ok=True)
        content = {"members": ["team/run"], "hierarchicalNamespace": True} | policy
        (self.folder / "buckets" / f"{name}.iam.json").write_text(json.dumps(content))
        return self.folder / "buckets" / name

    def sh(self, script):
        """What a shell in the mount namespace of the node says, and its exit code."""
        result = self.program.run_inside("sh", "-c", script)
        return result.returncode, (result.stdout + result.stderr).strip()

    def mounts(self):
        return [line for line in self.sh("cat /proc/self/mountinfo")[1].splitlines() if str(self.folder) in line]


@contextmanager
def short_folder():
    """A socket's path has 107 bytes at most; pytest's own folders are too deep."""
    path = Path(tempfile.mkdtemp(prefix="gke-"))
    yield path
    shutil.rmtree(path)


@contextmanager
def started(api, folder):
    """The program as the cluster's scripts start it, until the end of the block."""
    (folder / "buckets").mkdir(exist_ok=True)
    options = {"--kubeconfig": api.kubeconfig(folder), "--node": "node1", "--kubelet-dir": folder / "k"}
    options |= {"--buckets": folder / "buckets", "--hosts": 2}
    arguments = [str(part) for pair in options.items() for part in pair]
    with program("tests.gke.node", *arguments, own_mounts=True) as running:
        running.wait_for("serving")
        node = Node(api, folder, running)
        yield node
        for channel in node.channels.values():
            channel.close()
