"""The volumes of GCS FUSE through the driver's socket: what is mounted, with which rights, and what is refused."""

import os
import select
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from tests.gke.fake_api import fake_api
from tests.gke.kubelet import OPTIONS, POD, started
from tests.gke.protocols import protocol


@pytest.fixture(autouse=True)
def _a_bucket(node):
    node.bucket()


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


def _flat_buckets_of(folder):
    """The folders in /proc of the processes that serve flat buckets below a folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            text = path.read_bytes().decode()
            if "tests.gke.flat_bucket" in text and str(folder) in text:
                yield path.parent
