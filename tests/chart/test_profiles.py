"""Every profile renders to valid objects, and what it renders to can be reviewed in golden/."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.chart import schemas
from tests.chart.rendering import CHART, PROFILES, Release, helm, template, tool

PROGRAMS = {
    (CHART / "files" / "trainer" / name).read_text(): f"(trainer/{name})" for name in ("drain.py", "cluster_check.py")
}
GOLDEN = Path(__file__).parent / "golden"
KINDS = {
    *("ConfigMap", "PodDisruptionBudget", "RayCluster", "RayJob", "ResourceClaimTemplate", "ServiceAccount"),
    *("Pod check", "Role check", "RoleBinding check"),
}

SHAPES: dict[str, list[str]] = {
    "own cluster": ["rayJob.ownCluster=true"],
    "own elastic cluster": ["rayJob.ownCluster=true", "elastic.enabled=true", "rayJob.suspend=true"],
    "no run": ["job.enabled=false"],
    "claim": ["storage.kind=pvc", "storage.claimName=shared"],
    "folder": ["storage.kind=folder", "storage.folder=/mnt/shared"],
    "no network devices": ["network.dranet.enabled=false"],
    "all network devices": ["network.dranet.allocationMode=All"],
    "a service account of one's own": ["serviceAccount.create=false", "serviceAccount.name=trainer"],
    "an image of one's own": ["image.uri=registry.example/trainer:1", "image.pullSecrets[0].name=registry"],
    "spot, deadline and labels": [
        *("tpu.capacity=spot", "rayJob.activeDeadlineSeconds=3600", "worker.labels.team=a", "head.annotations.note=b"),
        *("rayJob.labels.queue=tpu", "storage.cache.sizeLimit=100Gi", "worker.tolerations[0].operator=Exists"),
    ],
    "everything else": [
        *("monitoring.kind=gke", "dashboard.enabled=true", "networkPolicy.enabled=true", "extraLabels.team=a"),
        *("operators.subjects.ann=User", "operators.subjects.ml/bot=ServiceAccount", "job.priorityClassName=high"),
        *("rayJob.queue=tpu", "storage.dataMounts.c4.bucket=c4", "storage.dataMounts.c4.mountPath=/datasets"),
        *("head.envFrom.s=secret", "worker.envFrom.c=configMap", "worker.podSecurityContext.fsGroup=1000"),
        *("head.volumes.x.emptyDir.medium=Memory", "head.volumeMounts./x.name=x", "head.sidecars.tail.image=t"),
        *("head.topologySpreadConstraints[0].maxSkew=1", "head.topologySpreadConstraints[0].topologyKey=zone"),
        "head.topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
        "networkPolicy.ingress.prometheus.from[0].namespaceSelector.matchLabels.name=monitoring",
        "networkPolicy.operator.namespace=kuberay",
    ],
    "the operator's Prometheus, and the node's network": [
        *("monitoring.kind=prometheus-operator", "monitoring.labels.release=prometheus"),
        *("worker.hostNetwork=true", "network.dranet.enabled=false"),
    ],
    "a compute class of one capacity": ["computeClass.enabled=true", "tpu.capacity=flex-start"],
    "a compute class of all capacities": [
        *("computeClass.enabled=true", "computeClass.zones[0]=us-east5-b", "computeClass.maxRunDurationSeconds=3600"),
        *("computeClass.priorities.reservation=1", "tpu.reservation=mine", "computeClass.reservationProject=other"),
        *("computeClass.priorities.flex-start=2", "computeClass.priorities.spot=3"),
    ],
    "an own cluster in a queue": ["rayJob.ownCluster=true", "rayJob.queue=tpu", "tpu.capacity=flex-start"],
    "a reservation": ["tpu.capacity=reservation", "tpu.reservation=mine"],
    "v5e on hosts of eight chips": ["tpu.type=v5e", "tpu.topology=2x4", "tpu.chipsPerHost=8"],
    "7x": ["tpu.type=v7x", "tpu.topology=2x2x2"],
}


@pytest.fixture(scope="module")
def schema_location(tmp_path_factory: pytest.TempPathFactory) -> str:
    return schemas.write(tmp_path_factory.mktemp("schemas"))


@pytest.fixture(scope="module", params=PROFILES, ids=lambda path: path.stem)
def profile(request) -> tuple[Path, Release]:
    return request.param, template(request.param, sets=["storage.bucket=my-bucket"])


def test_a_profile_renders_every_object(profile):
    assert set(profile[1].objects) == KINDS


def test_a_profile_is_as_reviewed(profile):
    """Rewrite what is reviewed with `UPDATE_GOLDEN=1 scripts/test tests/chart`, then read the difference."""
    path, release = profile
    folder = GOLDEN / path.stem
    rendered = {
        f"{kind.lower().replace(' ', '-')}.yaml": _reviewable(manifest) for kind, manifest in release.objects.items()
    }
    if os.environ.get("UPDATE_GOLDEN"):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.yaml"):
            old.unlink()
        for name, text in rendered.items():
            (folder / name).write_text(text)
    assert {file.name: file.read_text() for file in folder.glob("*.yaml")} == rendered


def test_every_golden_folder_is_of_a_profile():
    assert {folder.name for folder in GOLDEN.iterdir()} == {path.stem for path in PROFILES}


def test_a_profile_is_valid_for_kubernetes_and_kuberay(profile, schema_location):
    _assert_valid(profile[1], schema_location)


@pytest.mark.parametrize("shape", SHAPES)
def test_other_shapes_are_valid_for_kubernetes_and_kuberay(shape, schema_location):
    _assert_valid(template(sets=["storage.bucket=my-bucket", *SHAPES[shape]]), schema_location)


def test_a_misspelt_field_is_found(schema_location):
    release = template(sets=["storage.bucket=my-bucket"])
    release.worker["containers"][0]["imagePullPolice"] = "Never"
    with pytest.raises(AssertionError, match="imagePullPolice"):
        _assert_valid(release, schema_location)


@pytest.mark.parametrize(
    "path", [path for path in PROFILES if not path.stem.startswith("tutorial-")], ids=lambda p: p.stem
)
def test_our_profiles_break_no_rule_and_keep_checkpoints(path):
    release = template(path, sets=["storage.bucket=my-bucket"])
    assert release.run["guardsAllowed"] == []
    assert release.run["maxtext"]["checkpoint_period"] < release.run["steps"]
    assert release.run["maxtext"]["max_num_checkpoints_to_keep"] >= 1


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_profile_passes_helm_lint(path):
    helm("lint", str(CHART), "--strict", "--values", str(path))


def _assert_valid(release: Release, schema_location: str) -> None:
    command = [tool("kubeconform"), "-strict", "-summary", "-schema-location", schema_location, "-"]
    text = yaml.safe_dump_all(release.objects.values())
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Valid: {len(release.objects)}," in result.stdout


def _reviewable(manifest: dict[str, object]) -> str:
    """YAML without what every edit of the trainer changes: its modules, and the hashes in names."""
    text = yaml.dump(_trimmed(manifest), Dumper=_Dumper, sort_keys=False, width=200)
    return re.sub(r"\bdemo-(trainer-|netdev-)?[0-9a-f]{6}\b", r"demo-\1HASH", text)


def _trimmed(value: object, key: object = None) -> object:
    if isinstance(value, dict):
        return {name: _trimmed(content, name) for name, content in value.items()}
    if isinstance(value, list):
        return [_trimmed(item) for item in value]
    if isinstance(key, str) and key.endswith(".py"):
        return f"(trainer/{key})"
    return PROGRAMS.get(value, value) if isinstance(value, str) else value


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
