"""What the pods ask for follows from the values, and a team's overrides merge into it."""

import json

import pytest
import yaml

from tests.chart.rendering import CHART, REPOSITORY, template

TYPES = yaml.safe_load((CHART / "files" / "tpu-types.yaml").read_text())
EVERY_SHAPE = [
    (kind, topology, chips_per_host)
    for kind, row in TYPES.items()
    for topology, ways in row["topologies"].items()
    for chips_per_host in ways
]


def _mount_options(pod) -> dict[str, str]:
    volume = next(volume for volume in pod["volumes"] if volume["name"] == "storage")
    options = {}
    for option in volume["csi"]["volumeAttributes"]["mountOptions"].split(","):
        key, separator, value = option.rpartition("=") if "=" in option else option.rpartition(":")
        options[key or value] = value if separator else ""
    return options


@pytest.mark.parametrize(("kind", "topology", "chips_per_host"), EVERY_SHAPE)
def test_the_table_of_tpu_types_is_consistent(kind, topology, chips_per_host):
    row = TYPES[kind]
    sizes = [int(size) for size in topology.split("x")]
    chips = 1
    for size in sizes:
        chips *= size
    assert len(sizes) == (2 if kind in ("v5e", "v6e") else 3)
    assert chips % chips_per_host == 0
    machine = row["machines"][chips_per_host]
    assert machine["type"].endswith(f"-{chips_per_host}t")
    assert int(machine["cpu"]) <= machine["vcpus"] / 2
    assert int(machine["memory"].removesuffix("Gi")) * 2**30 < machine["memoryGB"] * 1e9 * 0.8


def test_a_worker_fits_the_webhook_and_the_device_plugin():
    """The webhook refuses numOfHosts != chips of the topology / chips of the container."""
    release = template(sets=["tpu.topology=4x8"])
    assert release.workers["numOfHosts"] == 8
    assert release.worker["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "4x8"
    assert release.worker["nodeSelector"]["cloud.google.com/gke-tpu-accelerator"] == "tpu-v6e-slice"
    resources = release.worker["containers"][0]["resources"]
    assert resources["limits"]["google.com/tpu"] == resources["requests"]["google.com/tpu"] == "4"
    assert resources["claims"] == [{"name": "netdev"}]
    for pod in (release.head, release.worker):
        assert "affinity" not in pod
        assert not pod.get("hostNetwork")
    for group in (release.cluster["headGroupSpec"], release.workers):
        assert "app.kubernetes.io/name" not in group["template"]["metadata"]["labels"]


def test_no_environment_of_a_single_run_is_in_the_pods():
    release = template(REPOSITORY / "values" / "llama3-8b.yaml")
    for pod in (release.head, release.worker):
        assert "env" not in pod["containers"][0]


def test_a_cluster_of_fixed_size_has_all_slices_from_the_start():
    release = template(sets=["tpu.slices=3"])
    assert [release.workers[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [3, 3, 3]
    assert "enableInTreeAutoscaling" not in release.cluster
    assert "restartPolicy" not in release.worker


def test_an_elastic_cluster_starts_small_and_may_grow():
    """KubeRay submits the run when all desired pods are ready, so the missing slice may not be among the desired."""
    release = template(sets=["elastic.enabled=true", "tpu.slices=2"])
    assert [release.workers[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [1, 1, 2]
    assert release.cluster["enableInTreeAutoscaling"] is True
    assert release.cluster["autoscalerOptions"]["version"] == "v2"
    assert {release.head["restartPolicy"], release.worker["restartPolicy"]} == {"Never"}


def test_the_port_of_metrics_is_the_one_that_ray_is_started_with():
    key = "rayStartParams.metrics-export-port"
    release = template(sets=[f"head.{key}=9000", f"worker.{key}=null"])
    ports = [
        {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
        for pod in (release.head, release.worker, template().head, template().worker)
    ]
    assert [port["metrics"] for port in ports] == [9000, 8080, 8080, 8082]


def test_spot_is_a_node_selector_and_a_toleration_of_the_workers_alone():
    release = template(sets=["tpu.capacity=spot"])
    assert release.worker["nodeSelector"]["cloud.google.com/gke-spot"] == "true"
    assert {toleration["key"] for toleration in release.worker["tolerations"]} == {
        "google.com/tpu",
        "cloud.google.com/gke-spot",
    }
    assert "cloud.google.com/gke-spot" not in release.head["nodeSelector"]
    assert release.worker["terminationGracePeriodSeconds"] <= 15


def test_mount_options_merge_and_null_removes_one():
    values = {
        "storage": {"mountOptions": {"uid": 7, "file-cache:max-size-mb": None, "ro": True, "implicit-dirs": None}}
    }
    options = _mount_options(template(values=values).worker)
    assert options["uid"] == "7"
    assert options["gid"] == "1000"
    assert options["ro"] == ""
    assert not {"file-cache:max-size-mb", "implicit-dirs"} & options.keys()


def test_null_takes_an_option_from_the_head_alone():
    release = template(values={"storage": {"headMountOptions": {"uid": None}}})
    assert "uid" not in _mount_options(release.head)
    assert "uid" in _mount_options(release.worker)


def test_the_head_sees_the_bucket_as_it_is():
    release = template()
    assert _mount_options(release.head)["metadata-cache:ttl-secs"] == "0"
    assert int(_mount_options(release.worker)["metadata-cache:ttl-secs"]) > 0
    assert _mount_options(release.head)["implicit-dirs"] == ""


def test_the_file_cache_has_a_volume_of_its_own():
    volumes = {volume["name"]: volume for volume in template().worker["volumes"]}
    assert volumes["gke-gcsfuse-cache"] == {"name": "gke-gcsfuse-cache", "emptyDir": {"medium": "Memory"}}
    disk = template(sets=["storage.cache.medium=", "storage.cache.sizeLimit=9Gi"]).worker["volumes"]
    assert {"name": "gke-gcsfuse-cache", "emptyDir": {"sizeLimit": "9Gi"}} in disk


def test_other_storage_needs_no_fuse():
    for sets in (["storage.kind=pvc", "storage.claimName=c"], ["storage.kind=folder", "storage.folder=/x"]):
        group = template(sets=sets).workers["template"]
        assert {volume["name"] for volume in group["spec"]["volumes"]} == {"dshm", "storage"}
        assert "annotations" not in group["metadata"]


def test_resources_of_a_worker_merge_into_those_of_its_machine():
    values = {"worker": {"resources": {"requests": {"cpu": None, "memory": "9Gi"}, "limits": {"example.com/nic": 1}}}}
    resources = template(values=values).worker["containers"][0]["resources"]
    assert resources["requests"] == {"memory": "9Gi", "google.com/tpu": "4"}
    assert resources["limits"] == {"memory": "500Gi", "google.com/tpu": "4", "example.com/nic": 1}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"libtpuFlags": {"a": 1, "b": 2}}, {"libtpuFlags": {"a": None, "c": 3}}, {"libtpuFlags": {"b": 2, "c": 3}}),
        ({"env": {"A": "1"}}, {"env": {"A": None, "B": 2}}, {"env": {"B": "2"}}),
        ({"maxtext": {"x": 1}}, {"maxtext": {"x": None, "model_name": None}}, {"maxtext": {}}),
    ],
)
def test_a_later_file_adds_to_maps_and_removes_with_null(first, second, expected, tmp_path):
    for name, values in (("first", first), ("second", second)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"job": values}))
    run = template(tmp_path / "first.yaml", tmp_path / "second.yaml").run
    (section, entries), *_ = expected.items()
    if section == "maxtext":
        assert not {"x", "model_name"} & run["maxtext"].keys()
    else:
        assert run[section] == entries


def test_set_comes_after_the_files(tmp_path):
    (tmp_path / "site.yaml").write_text("storage: {bucket: from-file}\nworker: {nodeSelector: {pool: a}}\n")
    release = template(tmp_path / "site.yaml", sets=["storage.bucket=from-set", "worker.nodeSelector.pool=null"])
    volume = next(volume for volume in release.worker["volumes"] if volume["name"] == "storage")
    assert volume["csi"]["volumeAttributes"]["bucketName"] == "from-set"
    assert "pool" not in release.worker["nodeSelector"]


def test_the_entry_point_is_a_constant_whatever_is_trained():
    for profile in ("tiny", "llama3-70b"):
        job = template(REPOSITORY / "values" / f"{profile}.yaml")["RayJob"]["spec"]
        assert job["entrypoint"] == "python train.py run.yaml"
        assert job["submitterConfig"]["backoffLimit"] > 2
        environment = yaml.safe_load(job["runtimeEnvYAML"])
        mount = job["submitterPodTemplate"]["spec"]["containers"][0]["volumeMounts"][0]
        assert environment["working_dir"] == mount["mountPath"]
        assert environment["env_vars"] == {"RAY_DEDUP_LOGS": "0", "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "30"}


def test_a_stopped_run_leaves_everything_else_as_it_was():
    on, off = template(), template(sets=["job.enabled=false"])
    assert off.objects == {kind: manifest for kind, manifest in on.objects.items() if kind != "RayJob"}


def test_a_job_with_a_cluster_of_its_own_has_the_same_cluster():
    own = template(sets=["rayJob.ownCluster=true"])
    assert "RayCluster" not in own.objects
    assert own.cluster == template().cluster
    job = own["RayJob"]["spec"]
    assert "clusterSelector" not in job
    assert job["shutdownAfterJobFinishes"] is True
    assert "suspend" not in job
    assert template(sets=["rayJob.ownCluster=true", "rayJob.suspend=false"])["RayJob"]["spec"]["suspend"] is False


def test_the_autoscaler_is_told_the_resource_that_ray_train_asks_for():
    elastic = template(sets=["elastic.enabled=true"]).workers["rayStartParams"]
    # What Ray's autoscaler does with it (_get_custom_resources of autoscaling_config.py), and KubeRay (getResourcesMap
    # of controllers/ray/common/pod.go), which adds the chips.
    assert json.loads(elastic["resources"][1:-1].replace("\\", "")) == {"accelerator_type:TPU-V6E": 1}
    assert json.loads(elastic["resources"].strip("'\"` ")) == {"accelerator_type:TPU-V6E": 1}
    assert "resources" not in template().workers["rayStartParams"]
