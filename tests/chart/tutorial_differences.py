"""The table of what values/tutorial-*.yaml make otherwise than the upstream tutorial does, and why."""

from typing import Any, NamedTuple


class Difference(NamedTuple):
    """A place, what the tutorial has there, what we have, and the reason. Items of a list go by their names."""

    path: str
    tutorial: Any
    ours: Any
    reason: str


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
LIBTPU = "(run/libtpuFlags)"
"""Stands for LIBTPU_INIT_ARGS, whose flags are compared one by one."""

NAMES = {
    "two-netdev": ("demo-netdev-HASH", "A claim template's spec can not be changed, so another spec is another name."),
    "maxtext-tpu-cluster": (
        "demo-HASH",
        "A cluster of other pods is another cluster, and releases stand side by side.",
    ),
    "req-netdev": ("netdev", "One name for a claim, on the pod and in its template."),
    "gcs-fuse-csi-ephemeral": ("storage", "A claim or a folder may stand in its place."),
}
"""The tutorial's names and ours, wherever they stand, with the reason."""

_LABELS = {
    "helm.sh/chart": "maxtext-multislice-0.1.0",
    "app.kubernetes.io/name": "maxtext-multislice",
    "app.kubernetes.io/instance": "demo",
    "app.kubernetes.io/managed-by": "Helm",
}
_OBJECTS_OF_HELM = "Helm's usual labels: who made it, and for which release."
_POD_LABELS = {"app.kubernetes.io/instance": "demo"}
_WHOSE_POD = "The pods of a release can be listed."
_NAMESPACE = "The release's, where the tutorial has kubectl's."
_CACHE_VOLUME = {"name": "gke-gcsfuse-cache", "emptyDir": {}}
_ON_BOOT_DISK = "Where the tutorial's file cache lies as well, since storage.cache.medium is empty: the node's disk."
_METRICS = "Ray's metrics port, by name, so that a monitor can select it."
_HEAD = "RayCluster/spec/headGroupSpec/template"
_GROUP = "RayCluster/spec/workerGroupSpecs"
_WORKER = f"{_GROUP}/0/template"
_CONTAINER = f"{_WORKER}/spec/containers/ray-worker"
_DEFAULT = "MaxText's own default, said by the chart's data section."
_READERS = "Threads read and not processes; made-up data has no files, so it changes nothing here."

DIFFERENCES = [
    Difference("ResourceClaimTemplate/metadata/namespace", ABSENT, "default", _NAMESPACE),
    Difference("ResourceClaimTemplate/metadata/labels", ABSENT, _LABELS, _OBJECTS_OF_HELM),
    Difference("ServiceAccount/metadata/labels", ABSENT, _LABELS, _OBJECTS_OF_HELM),
    Difference("RayCluster/metadata/namespace", ABSENT, "default", _NAMESPACE),
    Difference("RayCluster/metadata/labels", ABSENT, _LABELS, _OBJECTS_OF_HELM),
    Difference("RayCluster/spec/rayVersion", ABSENT, "2.55.0", "KubeRay goes by it; 2.55.0 is the tutorial's Ray CLI."),
    Difference(f"{_HEAD}/metadata/labels", ABSENT, _POD_LABELS, _WHOSE_POD),
    Difference(
        f"{_HEAD}/spec/containers/ray-head/ports/metrics", ABSENT, {"containerPort": 8080, "name": "metrics"}, _METRICS
    ),
    Difference(f"{_HEAD}/spec/volumes/gke-gcsfuse-cache", ABSENT, _CACHE_VOLUME, _ON_BOOT_DISK),
    Difference(f"{_WORKER}/metadata/labels", ABSENT, _POD_LABELS, _WHOSE_POD),
    Difference(f"{_CONTAINER}/ports", ABSENT, [{"containerPort": 8082, "name": "metrics"}], _METRICS),
    Difference(
        f"{_CONTAINER}/env/LIBTPU_INIT_ARGS",
        {"name": "LIBTPU_INIT_ARGS", "value": LIBTPU},
        ABSENT,
        "libtpu's flags are the run's, so that another run needs no new pods.",
    ),
    Difference(f"{_WORKER}/spec/volumes/gke-gcsfuse-cache", ABSENT, _CACHE_VOLUME, _ON_BOOT_DISK),
    Difference(f"{_WORKER}/spec/terminationGracePeriodSeconds", ABSENT, 30, "Kubernetes' own default, said."),
    Difference(
        f"{_WORKER}/spec/tolerations",
        ABSENT,
        [{"key": "google.com/tpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}],
        "GKE adds it to pods that ask for TPUs; a cluster of another kind does not.",
    ),
    Difference(
        "run/scalingConfig/elastic_resize_monitor_interval_s", ABSENT, 60, "Ray's own default, said by the chart."
    ),
    Difference(
        "run/runConfig/worker_runtime_env/env_vars",
        ABSENT,
        {
            "JAX_PLATFORMS": "tpu,cpu",
            "ENABLE_PJRT_COMPATIBILITY": "true",
            "LIBTPU_INIT_ARGS": LIBTPU,
            "MEGASCALE_PORT": "9915",
        },
        "The tutorial's pods have the same; here the trainer sets it, for runs on any pods.",
    ),
    Difference("run/submission/working_dir", ".", "/trainer", "The submitter pod mounts the ConfigMap there."),
    Difference("run/submission/excludes", ["ray-env", ".git"], ABSENT, "The ConfigMap has neither of them."),
    Difference(
        "run/submission/env_vars",
        ABSENT,
        {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "60"},
        "Ray's own default, said by the chart.",
    ),
    Difference(
        "run/arguments/base_output_directory",
        "/data/",
        "/data",
        "The same folder, as a path that others are joined to.",
    ),
    Difference("run/arguments/grain_worker_count", ABSENT, 0, _READERS),
    Difference("run/arguments/grain_worker_count_eval", ABSENT, 0, _READERS),
    Difference("run/arguments/data_shuffle_seed", ABSENT, 0, _DEFAULT),
    Difference("run/arguments/eval_interval", ABSENT, -1, _DEFAULT),
    Difference("run/arguments/eval_steps", ABSENT, -1, _DEFAULT),
    Difference(
        "run/arguments/jax_cache_dir",
        ABSENT,
        "",
        "MaxText's default is a folder of the pod, which a new pod does not have: the profile goes without a cache.",
    ),
]
"""Those of all three profiles."""

NO_RETRIES = [
    Difference("run/runConfig/failure_config", ABSENT, {"max_failures": 0}, "Ray's own default, said by the chart."),
    Difference(f"{_GROUP}/0/minReplicas", ABSENT, 2, "KubeRay's own default is 0; without an autoscaler it is unused."),
    Difference(
        f"{_GROUP}/0/maxReplicas", ABSENT, 2, "KubeRay's own default is 2147483647; it is the number of slices."
    ),
]
"""Those of the runs of a fixed size."""

_NEVER = "Ray's autoscaler replaces whole nodes; KubeRay wants it so for version 2."
_RANGE = "The autoscaler keeps the cluster between elastic.minSlices and tpu.slices."

ELASTIC = [
    Difference(
        "RayCluster/spec/enableInTreeAutoscaling",
        ABSENT,
        True,
        "The tutorial's pods come back by themselves; with fewer slices than replicas its cluster is never ready.",
    ),
    Difference(
        "RayCluster/spec/autoscalerOptions",
        ABSENT,
        {
            "version": "v2",
            "imagePullPolicy": "Always",
            "idleTimeoutSeconds": 900,
            "env": [{"name": "RAY_AUTOSCALER_RECONCILE_REQUEST_STATUS_TIMEOUT_S", "value": "1"}],
            "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        },
        "Version 2 knows slices of several hosts.",
    ),
    Difference(
        f"{_GROUP}/0/replicas", 2, 1, "The run starts on the fewest slices, and the autoscaler adds the others."
    ),
    Difference(f"{_GROUP}/0/minReplicas", ABSENT, 1, _RANGE),
    Difference(f"{_GROUP}/0/maxReplicas", ABSENT, 2, _RANGE),
    Difference(f"{_HEAD}/spec/restartPolicy", ABSENT, "Never", _NEVER),
    Difference(f"{_WORKER}/spec/restartPolicy", ABSENT, "Never", _NEVER),
    Difference(
        "RayCluster/spec/workerGroupSpecs/0/rayStartParams/resources",
        ABSENT,
        """'{"accelerator_type:TPU-V6E":1}'""",
        "Ray Train asks the autoscaler for hosts that have this; Ray gives it to them only when they start.",
    ),
]
"""Those of the elastic run."""
