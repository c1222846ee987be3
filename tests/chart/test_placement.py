"""Where pods run, what they are given, and who may see them: from the values to the manifests."""

import pytest

from tests.chart.rendering import template

CAPACITY_LABELS = {
    "on-demand": {},
    "spot": {"cloud.google.com/gke-spot": "true"},
    "flex-start": {"cloud.google.com/gke-flex-start": "true"},
    "reservation": {"cloud.google.com/reservation-name": "mine"},
}


@pytest.mark.parametrize("capacity", CAPACITY_LABELS)
def test_workers_select_nodes_of_their_capacity_and_the_head_does_not(capacity):
    sets = [f"tpu.capacity={capacity}", *(["tpu.reservation=mine"] if capacity == "reservation" else [])]
    release, plain = template(sets=sets), template()
    assert release.worker["nodeSelector"] == plain.worker["nodeSelector"] | CAPACITY_LABELS[capacity]
    assert release.head == plain.head


def test_with_a_compute_class_the_class_chooses_the_capacity_and_the_topology_stays():
    sets = ["computeClass.enabled=true", "computeClass.priorities.spot=2", "computeClass.priorities.on-demand=10"]
    release = template(sets=sets)
    selector = release.worker["nodeSelector"]
    assert selector["cloud.google.com/compute-class"] == release.name("ComputeClass")
    assert selector["cloud.google.com/gke-tpu-topology"] == "4x4"
    assert "cloud.google.com/gke-spot" not in selector
    assert "cloud.google.com/gke-spot" in {toleration["key"] for toleration in release.worker["tolerations"]}
    priorities = release["ComputeClass"]["spec"]["priorities"]
    assert [priority.get("spot", False) for priority in priorities] == [True, False]  # 2 before 10


def test_null_takes_a_priority_back_and_without_any_the_capacity_of_the_slices_holds():
    values = {"computeClass": {"enabled": True, "priorities": {"spot": 1, "on-demand": None}}}
    priorities = template(values=values)["ComputeClass"]["spec"]["priorities"]
    assert [priority.get("spot") for priority in priorities] == [True]
    flex = template(sets=["computeClass.enabled=true", "tpu.capacity=flex-start"])["ComputeClass"]["spec"]["priorities"]
    assert [priority["flexStart"] for priority in flex] == [{"enabled": True}]


def test_a_compute_class_that_exists_is_used_and_not_made():
    sets = ["computeClass.enabled=true", "computeClass.create=false", "computeClass.name=theirs"]
    release = template(sets=sets)
    assert "ComputeClass" not in release.objects
    assert release.worker["nodeSelector"]["cloud.google.com/compute-class"] == "theirs"


def test_the_compute_class_has_dranet_where_the_workers_claim_devices():
    spec = template(sets=["computeClass.enabled=true"])["ComputeClass"]["spec"]
    assert spec["nodePoolConfig"]["dra"]["networking"]["enabled"] is True
    assert spec["priorities"][0]["acceleratorNetworkProfile"] == "auto"
    off = template(sets=["computeClass.enabled=true", "network.dranet.enabled=false"])["ComputeClass"]["spec"]
    assert "nodePoolConfig" not in off
    assert "acceleratorNetworkProfile" not in off["priorities"][0]


@pytest.mark.parametrize(("own", "queued", "free"), [("false", "RayCluster", "RayJob"), ("true", "RayJob", None)])
def test_the_queue_is_named_on_what_it_admits(own, queued, free):
    release = template(sets=[f"rayJob.ownCluster={own}", "rayJob.queue=tpu"])
    key = "kueue.x-k8s.io/queue-name"
    assert release[queued]["metadata"]["labels"][key] == "tpu"
    if free:
        assert key not in release[free]["metadata"]["labels"]
    assert "suspend" not in release["RayJob"]["spec"]


def test_retries_and_the_time_to_look_at_logs_have_defaults_with_an_own_cluster_alone():
    own = template(sets=["rayJob.ownCluster=true"])["RayJob"]["spec"]
    assert (own["backoffLimit"], own["ttlSecondsAfterFinished"]) == (2, 600)
    none = template(sets=["rayJob.ownCluster=true", "rayJob.backoffLimit=0", "rayJob.ttlSecondsAfterFinished=0"])
    assert (none["RayJob"]["spec"]["backoffLimit"], none["RayJob"]["spec"]["ttlSecondsAfterFinished"]) == (0, 0)
    shared = template(sets=["rayJob.backoffLimit=0"])["RayJob"]["spec"]
    assert not {"backoffLimit", "ttlSecondsAfterFinished"} & shared.keys()


def test_newer_fields_are_there_for_a_newer_kuberay():
    sets = ["kuberay.version=1.6.2", "auth.mode=token", "auth.secretName=mine", "rayJob.preRunningDeadlineSeconds=60"]
    release = template(sets=sets)
    assert release.cluster["authOptions"] == {"mode": "token", "secretName": "mine"}
    assert release["RayJob"]["spec"]["preRunningDeadlineSeconds"] == 60
    assert "authOptions" not in template().cluster


def test_data_sets_are_mounted_read_only_in_head_and_workers():
    mount = {"bucket": "c4", "mountPath": "/datasets/c4", "mountOptions": {"uid": None, "only-dir": "en"}}
    release = template(values={"storage": {"dataMounts": {"c4": mount, "gone": None}}})
    for pod in (release.head, release.worker):
        (volume,) = [volume for volume in pod["volumes"] if volume["name"].startswith("data-")]
        assert volume["csi"]["readOnly"] is True
        assert volume["csi"]["volumeAttributes"]["bucketName"] == "c4"
        options = volume["csi"]["volumeAttributes"]["mountOptions"].split(",")
        assert "only-dir=en" in options
        assert "gid=1000" in options
        assert "uid=1000" not in options
        expected = {"name": "data-c4", "mountPath": "/datasets/c4", "readOnly": True}
        assert expected in pod["containers"][0]["volumeMounts"]


def test_a_data_set_brings_fuse_to_other_storage():
    values = {
        "storage": {"kind": "pvc", "claimName": "c", "dataMounts": {"c4": {"bucket": "c4", "mountPath": "/datasets"}}}
    }
    group = template(values=values).workers["template"]
    assert group["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
    assert {volume["name"] for volume in group["spec"]["volumes"]} >= {"gke-gcsfuse-cache", "storage", "data-c4"}


@pytest.mark.parametrize("group", ["head", "worker"])
def test_a_group_s_own_volumes_environment_and_sidecars_are_added_to_its_pods(group):
    values = {
        group: {
            "envFrom": {"keys": "secret", "settings": "configMap", "gone": None},
            "volumes": {"scratch": {"emptyDir": {"sizeLimit": "1Gi"}}},
            "volumeMounts": {"/scratch": {"name": "scratch", "readOnly": True}},
            "sidecars": {"tail": {"image": "i", "args": ["a"]}},
            "podSecurityContext": {"fsGroup": 1000},
        }
    }
    release = template(values=values)
    pod, other = (release.head, release.worker) if group == "head" else (release.worker, release.head)
    ray, sidecar = pod["containers"]
    assert ray["name"] == f"ray-{group}"
    assert ray["envFrom"] == [{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "settings"}}]
    assert {"mountPath": "/scratch", "name": "scratch", "readOnly": True} in ray["volumeMounts"]
    assert {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}} in pod["volumes"]
    assert sidecar == {"name": "tail", "image": "i", "args": ["a"]}
    assert pod["securityContext"] == {"fsGroup": 1000}
    plain = template()
    assert other == (plain.worker if group == "head" else plain.head)


def test_extra_labels_are_on_every_object_and_every_pod():
    sets = [
        *("extraLabels.team=a", "monitoring.kind=gke", "dashboard.enabled=true", "networkPolicy.enabled=true"),
        *("operators.subjects.ann=User", "computeClass.enabled=true", "monitoring.labels.team=b"),
    ]
    release = template(sets=sets)
    teams = {kind: manifest["metadata"]["labels"].get("team") for kind, manifest in release.objects.items()}
    assert teams.pop("PodMonitoring") == "b"
    assert set(teams.values()) == {"a"}
    submitter = release["RayJob"]["spec"]["submitterPodTemplate"]
    for pod in (release.cluster["headGroupSpec"]["template"], release.workers["template"], submitter):
        assert pod["metadata"]["labels"]["team"] == "a"


def test_the_rules_of_the_mesh_are_maxtext_s_own():
    """One slice has no DCN axes, and where the mesh is made otherwise MaxText itself tells."""
    fsdp = ["job.maxtext.dcn_fsdp_parallelism=2", "job.maxtext.dcn_data_parallelism=1"]
    template(sets=[*fsdp, "tpu.slices=1"])
    template(sets=[*fsdp, "tpu.slices=2"])
    template(sets=[*fsdp, "tpu.slices=2", "elastic.enabled=true"])  # 1 or 2 slices
    template(sets=["job.maxtext.ici_fsdp_parallelism=7", "job.maxtext.custom_mesh_and_rule=pure-fsdp"])
    template(sets=["job.maxtext.ici_sequence_parallelism=3"])  # no axis of the mesh
    template(sets=["job.maxtext.ici_fsdp_parallelism=16", "tpu.topology=2x2", "tpu.emulated=true"])
    template(sets=["job.maxtext.ici_fsdp_parallelism=16", "tpu.type=v7x", "tpu.topology=2x2x2"])


def test_an_operator_may_do_what_the_notes_tell_and_change_nothing():
    rules = template(sets=["operators.subjects.ann=User"])["Role operator"]["rules"]
    allowed = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    # kubectl get, logs job/NAME, events, port-forward svc/NAME
    assert allowed >= {
        *(("rayclusters", "get"), ("rayjobs", "get"), ("pods", "list"), ("events", "list"), ("jobs", "get")),
        *(("pods/log", "get"), ("services", "get"), ("pods/portforward", "get"), ("pods/portforward", "create")),
    }
    assert {verb for resource, verb in allowed if resource != "pods/portforward"} == {"get", "list", "watch"}
    assert not {"secrets", "pods/exec", "*"} & {resource for resource, _ in allowed}
