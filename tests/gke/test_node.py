"""The node's program through its sockets, as a kubelet uses it: registration, DRA, and the volumes of GCS FUSE.

The program runs as the cluster's scripts start it, in a mount namespace of its own, so that no mount can be left.
"""

import json
import os
import select
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest

from tests.gke.fake_api import fake_api
from tests.gke.programs import program
from tests.gke.protocols import protocol, socket_address

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SLICE = f"{SLICES}/node1-dra.net"
POD = "/api/v1/namespaces/team/pods/p"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
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
        stub = self.stub("csi", service, "plugins/gcsfuse.csi.storage.gke.io/csi.sock")
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


@pytest.fixture(scope="module")
def node():
    with short_folder() as folder, fake_api() as api, started(api, folder) as node:
        yield node


@pytest.fixture
def folder():
    """For programs of a test's own."""
    with short_folder() as folder:
        yield folder


@pytest.fixture(autouse=True)
def _a_pod(node):
    node.api.put("/api/v1/nodes/node1", metadata={"name": "node1", "uid": "node-uid"})
    node.api.put(POD, metadata={"annotations": {"gke-gcsfuse/volumes": "true"}}, spec={})
    node.bucket()


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


def allocate(api, name, *devices, uid="u1", pool="node1", driver="dra.net", pod="p"):
    results = [{"request": "nics", "driver": driver, "pool": pool, "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"resource": "pods", "name": pod}]}
    api.put(f"{CLAIMS}/{name}", metadata={"uid": uid}, status=status)


def test_both_drivers_register_with_the_kubelets_protocol(node):
    dra, csi = node.register("dra.net"), node.register("gcsfuse.csi.storage.gke.io")
    assert (dra.type, dra.name, list(dra.supported_versions)) == ("DRAPlugin", "dra.net", ["v1.DRAPlugin"])
    assert dra.endpoint == str(node.folder / "k" / "plugins/dra.net/dra.sock")
    assert (csi.type, csi.name) == ("CSIPlugin", "gcsfuse.csi.storage.gke.io")
    assert node.program.wait_for("registered")
    assert node.program.wait_for("registered")


def test_the_devices_of_all_hosts_are_published_once_the_kubelet_knows_the_driver(node):
    node.register("dra.net")
    spec = node.api.wait_for(SLICE)["spec"]
    assert (spec["driver"], spec["nodeName"]) == ("dra.net", "node1")
    assert spec["pool"]["resourceSliceCount"] == 1
    assert [device["name"] for device in spec["devices"]] == ["host0-eth1", "host0-eth2", "host1-eth1", "host1-eth2"]
    assert spec["devices"][1]["attributes"]["dra.net/ifName"] == {"string": "eth2"}
    owner = node.api.wait_for(SLICE)["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("Node", "node-uid")


def test_a_slice_that_the_kubelet_deleted_comes_back(node):
    node.register("dra.net")
    node.api.wait_for(SLICE)
    node.api.remove(SLICE)
    assert node.api.wait_for(SLICE)["spec"]["devices"]


def test_a_slice_that_somebody_changed_becomes_a_newer_generation_of_the_pool(node):
    node.register("dra.net")
    found = node.api.wait_for(SLICE)
    generation = found["spec"]["pool"]["generation"]
    node.api.put(SLICE, metadata=found["metadata"], spec=found["spec"] | {"devices": []})
    node.register("dra.net")
    mended = node.api.wait_for(SLICE, lambda item: item and item["spec"]["devices"])
    assert mended["spec"]["pool"]["generation"] == generation + 1


def test_a_claim_is_prepared_with_the_devices_of_its_allocation(node):
    allocate(node.api, "c1", "host0-eth1", "host0-eth2")
    prepared = node.prepare("c1")
    assert prepared.error == ""
    assert [(device.pool_name, device.device_name) for device in prepared.devices] == [
        ("node1", "host0-eth1"),
        ("node1", "host0-eth2"),
    ]
    assert list(prepared.devices[0].request_names) == ["nics"]
    node.dra("NodeUnprepareResources", ("c1", "u1"))


def test_preparing_and_unpreparing_again_changes_nothing(node):
    allocate(node.api, "c1", "host0-eth1")
    first = node.prepare("c1")
    node.api.remove(f"{CLAIMS}/c1")
    assert node.prepare("c1") == first
    for _ in range(2):
        assert node.dra("NodeUnprepareResources", ("c1", "u1"))["u1"].error == ""


def test_a_device_is_prepared_for_one_claim_at_a_time(node):
    allocate(node.api, "c1", "host0-eth1")
    allocate(node.api, "c2", "host0-eth1", uid="u2")
    node.prepare("c1")
    assert "node1/host0-eth1 is still prepared for the claim with UID u1" in node.prepare("c2", "u2").error
    node.dra("NodeUnprepareResources", ("c1", "u1"))
    assert node.prepare("c2", "u2").error == ""
    node.dra("NodeUnprepareResources", ("c2", "u2"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool": "node2"}, "the device node2/host0-eth1 is none of node node1"),
        ({"driver": "gpu.nvidia.com"}, "its allocation holds no device of dra.net"),
        ({"uid": "u9"}, "its UID is u9, not u1: it was made again under its name"),
        ({"pod": "on-host"}, "the pod on-host uses hostNetwork and can have no network device"),
    ],
    ids=["node", "driver", "uid", "host network"],
)
def test_a_claim_that_is_not_this_drivers_is_not_prepared(node, change, message):
    node.api.put("/api/v1/namespaces/team/pods/on-host", metadata={}, spec={"hostNetwork": True})
    allocate(node.api, "c1", "host0-eth1", **change)
    assert node.prepare("c1").error == f"claim team/c1: {message}"


def test_a_claim_without_allocation_or_without_object_is_not_prepared(node):
    node.api.put(f"{CLAIMS}/waiting", metadata={"uid": "u1"}, status={})
    assert "it is not allocated" in node.prepare("waiting").error
    assert "(404)" in node.prepare("missing").error


def test_the_volume_driver_names_itself_and_its_node(node):
    assert node.csi("Identity", "GetPluginInfo").name == "gcsfuse.csi.storage.gke.io"
    assert node.csi("Node", "NodeGetInfo").node_id == "node1"
    (capability,) = node.csi("Node", "NodeGetCapabilities").capabilities
    assert capability.rpc.type == protocol("csi").messages.NodeServiceCapability.RPC.VOLUME_MOUNT_GROUP


def test_a_bucket_is_mounted_with_its_owner_and_renames_folders(node):
    bucket = node.bucket()
    (bucket / "weights").write_text("1")
    target = node.publish()
    assert node.sh(f"cat {target}/weights; stat -c '%u %g %a' {target}") == (0, "11000 1000 775")
    assert node.sh(f"mkdir {target}/a && touch {target}/a/x && mv {target}/a {target}/b && ls {target}/b") == (0, "x")
    node.publish()
    assert len(node.mounts()) == 1
    for _ in range(2):
        node.unpublish(target)
    assert node.mounts() == []
    assert not target.exists()
    assert (bucket / "b" / "x").exists()


def test_a_read_only_volume_cannot_be_written(node):
    node.bucket("flat", hierarchicalNamespace=False)
    for arguments in ({"readonly": True}, {"options": f"{OPTIONS},ro"}, {"readonly": True, "bucket": "flat"}):
        target = node.publish(**arguments)
        code, text = node.sh(f"touch {target}/new")
        assert code != 0
        assert "Read-only file system" in text
        node.unpublish(target)


def test_only_dir_mounts_a_folder_of_the_bucket(node):
    (node.bucket() / "run").mkdir(exist_ok=True)
    (node.bucket() / "run" / "x").touch()
    target = node.publish(options=f"{OPTIONS},only-dir=run")
    assert node.sh(f"ls {target}") == (0, "x")
    node.unpublish(target)
    for outside in ("../other", "/etc"):
        assert node.refusal(options=f"only-dir={outside}")[0] == grpc.StatusCode.NOT_FOUND


def test_a_pods_fs_group_is_the_mounts_group_unless_the_volume_says_otherwise(node):
    target = node.publish(options="implicit-dirs", group="2000")
    assert node.sh(f"stat -c '%u %g %a' {target}") == (0, "0 2000 775")
    node.unpublish(target)
    target = node.publish(group="2000")
    assert node.sh(f"stat -c '%g' {target}") == (0, "1000")
    node.unpublish(target)


def test_in_a_flat_bucket_files_are_renamed_and_folders_are_not(node):
    bucket = node.bucket("flat", hierarchicalNamespace=False)
    target = node.publish(bucket="flat")
    assert node.sh(f"mkdir {target}/a && echo x >{target}/a/x && mv {target}/a/x {target}/a/y") == (0, "")
    code, text = node.sh(f"mv -T {target}/a {target}/b")
    assert (code, "Too many open files" in text) == (1, True)
    assert (bucket / "a" / "y").read_text() == "x\n"
    node.unpublish(target)
    assert node.mounts() == []


def test_in_a_flat_bucket_rename_dir_limit_lets_small_folders_be_renamed(node):
    bucket = node.bucket("flat2", hierarchicalNamespace=False)
    target = node.publish(bucket="flat2", options=f"{OPTIONS},rename-dir-limit=2")
    assert node.sh(f"cd {target} && mkdir a && touch a/1 a/2 && mv a b && touch b/3 && ls b") == (0, "1\n2\n3")
    assert node.sh(f"mv -T {target}/b {target}/c")[0] == 1
    assert sorted(path.name for path in (bucket / "b").iterdir()) == ["1", "2", "3"]
    node.unpublish(target)


def test_a_flat_bucket_shows_one_owner_and_mode_and_its_content_is_whole(node):
    node.bucket("flat3", hierarchicalNamespace=False)
    target = node.publish(bucket="flat3")
    script = f"cd {target} && head -c 3000000 /dev/urandom >f && chmod 600 f && stat -c '%u %g %a' f . && cmp f "
    assert node.sh(f"{script} {node.folder}/buckets/flat3/f") == (0, "1000 1000 664\n1000 1000 775")
    assert node.sh(f"cd {target} && ln -s f l && truncate -s 5 l && wc -c <f && rm l f && ls -A") == (0, "5")
    # A temporary file is removed while it is open.
    assert node.sh(f"cd {target} && exec 3>t && rm t && echo xy >&3 && stat -Lc %s /proc/self/fd/3") == (0, "3")
    node.unpublish(target)


def test_a_flat_bucket_shows_what_another_node_wrote(node):
    bucket = node.bucket("flat4", hierarchicalNamespace=False)
    target = node.publish(bucket="flat4")
    for text in ("one", "longer than before"):
        (bucket / "f").write_text(text)
        assert node.sh(f"cat {target}/f") == (0, text)
    (bucket / "f").unlink()
    (bucket / "f").mkdir()
    assert node.sh(f"stat -c %F {target}/f") == (0, "directory")
    node.unpublish(target)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"bucket": "absent"}, "NOT_FOUND", 'failed to get GCS bucket "absent": storage: bucket doesn\'t exist'),
        ({"bucket": "../x"}, "NOT_FOUND", "storage: bucket doesn't exist"),
        ({"account": "default"}, "PERMISSION_DENIED", "Error 403: the service account team/default does not have"),
        ({"pod": "bare"}, "FAILED_PRECONDITION", 'lacks the annotation gke-gcsfuse/volumes: "true"'),
        ({"bucket": ""}, "INVALID_ARGUMENT", '"bucketName" must be provided'),
        ({"csi.storage.k8s.io/ephemeral": None}, "INVALID_ARGUMENT", "not PersistentVolumes"),
        ({"fileCacheCapacity": "1Gi"}, "INVALID_ARGUMENT", "fileCacheCapacity have no effect here"),
        ({"options": "implicit-dir"}, "INVALID_ARGUMENT", "gcsfuse failed with error: Error: unknown flag: --implicit"),
        ({"options": "uid=ray"}, "INVALID_ARGUMENT", 'invalid argument "ray" for "--uid" flag: expected int'),
        ({"options": "file-cache:max-size:1"}, "INVALID_ARGUMENT", "'file-cache' has invalid keys: max-size"),
        ({"options": "metadata-cache:ttl-secs:-2"}, "INVALID_ARGUMENT", "expected a whole number of at least -1"),
        ({"options": "dir-mode=9"}, "INVALID_ARGUMENT", "expected octal permission bits"),
        ({"options": "uid"}, "INVALID_ARGUMENT", "flag needs an argument: --uid"),
        ({"options": "logging:severity:loud"}, "INVALID_ARGUMENT", "expected one of trace, debug"),
        ({"options": "cache-dir=/x"}, "INVALID_ARGUMENT", "GKE's driver sets cache-dir itself"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value.split()[0].strip("'\""),
)
def test_a_volume_is_refused_with_its_cause(node, arguments, code, message):
    node.api.put("/api/v1/namespaces/team/pods/bare", metadata={}, spec={})
    found = node.refusal(**arguments)
    assert found[0].name == code
    assert message in found[1]
    assert node.mounts() == []


def test_bindings_are_read_at_each_mount(node):
    node.bucket(members=[])
    assert node.refusal()[0] == grpc.StatusCode.PERMISSION_DENIED
    node.bucket(members=["team/run"])
    node.unpublish(node.publish())
    node.bucket(member=["team/run"])
    assert "checkpoints.iam.json holds member" in node.refusal()[1]


def test_a_restarted_driver_knows_what_it_prepared(folder):
    with fake_api() as api:
        with started(api, folder) as node:
            api.put(POD, metadata={}, spec={})
            allocate(api, "c1", "host0-eth1")
            assert node.prepare("c1").error == ""
            assert node.program.terminate() == 0
        api.remove(f"{CLAIMS}/c1")
        with started(api, folder) as node:
            assert node.prepare("c1").error == ""


def test_the_program_ends_without_sockets_mounts_or_processes(folder):
    with fake_api() as api, started(api, folder) as node:
        api.put(POD, metadata={"annotations": {"gke-gcsfuse/volumes": "true"}}, spec={})
        node.bucket("flat", hierarchicalNamespace=False)
        node.publish(bucket="flat")
        (serving,) = _flat_buckets_of(folder)
        assert node.program.terminate() == 0
        assert not serving.exists()
        assert not list((folder / "k").rglob("*.sock"))


def test_a_killed_program_takes_its_flat_buckets_along(folder):
    with fake_api() as api, started(api, folder) as node:
        api.put(POD, metadata={"annotations": {"gke-gcsfuse/volumes": "true"}}, spec={})
        node.bucket("flat", hierarchicalNamespace=False)
        node.publish(bucket="flat")
        (serving,) = _flat_buckets_of(folder)
        ended = os.pidfd_open(int(serving.name))
        node.program.process.kill()
        assert select.select([ended], [], [], 10)[0], "the process still runs"
        os.close(ended)


def test_a_kubelets_folder_that_is_too_deep_for_sockets_is_an_error(folder):
    with fake_api() as api:
        deep = folder / ("d" * 100)
        arguments = ["--kubeconfig", str(api.kubeconfig(folder)), "--node", "node1", "--hosts", "2"]
        arguments += ["--buckets", str(folder), "--kubelet-dir", str(deep)]
        with program("tests.gke.node", *arguments) as running:
            running.wait_for("Error: The socket's path")
            assert running.process.wait() == 1


def _flat_buckets_of(folder):
    """The folders in /proc of the processes that serve flat buckets below a folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            text = path.read_bytes().decode()
            if "tests.gke.flat_bucket" in text and str(folder) in text:
                yield path.parent
