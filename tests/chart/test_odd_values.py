"""Values that YAML, Helm or Go would take for something else arrive as what they are."""

from typing import Any

import pytest
import run as run_file
import yaml

from tests.chart.rendering import Manifest, template

ODD = ["123", "null", "true", "on", "no", "1e3"]
"""Names that Kubernetes takes and that YAML has another meaning for where nothing quotes them."""


def _strings(manifest: Any, key: str) -> list[object]:
    """All values of a key, wherever it is."""
    if isinstance(manifest, dict):
        here = [value for name, value in manifest.items() if name == key and not isinstance(value, dict)]
        return here + [found for value in manifest.values() for found in _strings(value, key)]
    if isinstance(manifest, list):
        return [found for value in manifest for found in _strings(value, key)]
    return []


@pytest.mark.parametrize("name", ODD)
def test_a_name_stays_text(name):
    values = {
        "kuberay": {"version": "1.6.0"},
        "auth": {"mode": "token", "secretName": name},
        "storage": {"kind": "pvc", "claimName": name},
        "job": {"priorityClassName": name},
        "serviceAccount": {"name": name},
        "network": {"dranet": {"deviceClassName": name}},
        "rayJob": {"queue": name},
        "head": {
            "env": {"NO": "x", "ON": "x"},
            "envFrom": {name: "secret"},
            "volumes": {name: {"emptyDir": {}}},
            "sidecars": {name: {"image": "i"}},
        },
        "networkPolicy": {"enabled": True, "operator": {"namespace": name}},
        "monitoring": {"kind": "gke"},
        "operators": {"subjects": {name: "ServiceAccount"}},
    }
    release = template(values=values, options=["--namespace", name])
    for kind, manifest in release.objects.items():
        for key in ("name", "namespace", "claimName", "priorityClassName", "secretName", "serviceAccountName"):
            assert all(isinstance(value, str) for value in _strings(manifest, key)), (kind, key)
    assert release["RayCluster"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == name
    assert _strings(release["ResourceClaimTemplate"], "deviceClassName") == [name]
    assert _strings(release["NetworkPolicy"], "kubernetes.io/metadata.name")[0] == name
    assert [entry["name"] for entry in release.head["containers"][0]["env"]] == ["NO", "ON"]


@pytest.mark.parametrize("name", ["null", "true", "on", "no"])
def test_a_worker_group_and_a_release_may_be_called_so(name):
    release = template(name=name, values={"worker": {"groupName": name}, "monitoring": {"kind": "gke"}})
    assert release.workers["groupName"] == name
    assert release.name("ServiceAccount") == release.name("PodMonitoring") == name


@pytest.mark.parametrize(
    "text", ["a: b # c", "{{ .Values.x }}", 'say "x"', "two\nlines: 1\n", "  led by blanks", "- 1e-5"]
)
def test_a_text_arrives_as_it_is(text):
    values = {
        "job": {"env": {"A": text}, "maxtext": {"note": text}},
        "rayJob": {"env": {"A": text}},
        "head": {"env": {"A": text}, "annotations": {"a": text}},
        "storage": {"sidecarAnnotations": {"z": text}},
    }
    release = template(values=values)
    environment = yaml.safe_load(release["RayJob"]["spec"]["runtimeEnvYAML"])["env_vars"]
    head = release.cluster["headGroupSpec"]["template"]
    assert release.run["env"] == {"A": text}
    assert release["Pod check"]["metadata"]["annotations"]["z"] == text
    assert release.run["maxtext"]["note"] == text
    assert environment["A"] == text
    assert head["metadata"]["annotations"]["a"] == text
    assert head["spec"]["containers"][0]["env"] == [{"name": "A", "value": text}]


def test_small_numbers_are_numbers_in_lists_too():
    release = template(values={"job": {"maxtext": {"rates": [1e-5, 2.5e-7], "more": {"rate": 3e-6}}}})
    assert release.run["maxtext"]["rates"] == [1e-5, 2.5e-7]
    assert release.run["maxtext"]["more"] == {"rate": 3e-6}


def test_a_mount_option_that_is_false_is_said_and_null_is_not():
    release = template(values={"storage": {"mountOptions": {"enable-hns": False, "implicit-dirs": None}}})
    volume = next(volume for volume in release.worker["volumes"] if volume["name"] == "storage")
    options = volume["csi"]["volumeAttributes"]["mountOptions"].split(",")
    assert "enable-hns:false" in options
    assert not [option for option in options if option.startswith("implicit-dirs")]


def test_a_null_takes_back_an_amount():
    resources = {"requests": {"example.com/nic": None}}
    values = {
        "head": {"resources": resources},
        "worker": {"resources": resources},
        "rayJob": {"submitterResources": resources},
        "clusterCheck": {"resources": resources},
    }
    assert template(values=values).objects == template().objects


def test_a_null_takes_back_leave_to_break_a_rule():
    assert template(values={"guards": {"allow": {"doesNotFit": None}}}).run["guardsAllowed"] == []


@pytest.mark.parametrize("path", ["runtimeInstall.options", "runtimeInstall.packages", "job.maxtext", "job.env"])
def test_the_trainer_takes_the_run_of_an_emptied_value(path, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(template(sets=[f"{path}=null"]).run_file)
    assert run_file.load(file).name == "demo"


def test_a_mount_path_may_end_in_a_slash():
    assert template(sets=["storage.mountPath=/data/"]).run == template().run


def test_interfaces_of_the_node_or_of_multi_networking_can_be_named_without_dranet():
    sets = ["network.dranet.enabled=false", r"job.megascaleInterfaces=eth1\,eth2"]
    assert template(sets=[*sets, "worker.hostNetwork=true"]).run["megascale"]["interfacePrefixes"] == "eth1,eth2"
    template(sets=sets, values={"worker": {"annotations": {"networking.gke.io/interfaces": "[]"}}})


def test_a_worker_on_the_node_s_network_reaches_its_buckets_as_its_own_account():
    storage = {"bucket": "b", "dataMounts": {"c4": {"bucket": "c4", "mountPath": "/c4"}}}
    values = {"storage": storage, "worker": {"hostNetwork": True}, "network": {"dranet": {"enabled": False}}}
    release = template(values=values)
    assert _accounts(release.worker) == ["true", "true"]
    assert _accounts(release.head) == [None, None]
    assert _accounts(release["Pod check"]["spec"]) == [None]


def _accounts(pod: Manifest) -> list[str | None]:
    buckets = [volume["csi"]["volumeAttributes"] for volume in pod["volumes"] if "csi" in volume]
    return [attributes.get("hostNetworkPodKSA") for attributes in buckets]


def test_a_class_that_exists_knows_its_reservation():
    template(
        values={"tpu": {"capacity": "reservation"}, "computeClass": {"enabled": True, "create": False, "name": "a"}}
    )


def test_the_most_slices_are_rendered_as_such():
    release = template(values={"tpu": {"slices": 1024}, "elastic": {"enabled": True, "globalBatch": "scale"}})
    assert release.workers["maxReplicas"] == 1024
