"""Objects of a release as a cluster has them, made by Helm, KubeRay, GKE's TPU webhook and the kubelet: as far as the
driver reads them. Without other words a release `demo` that trains on 2 slices of 2 hosts, v6e 2x4.
"""

from typing import Any

Object = dict[str, Any]
CREATED = "2026-11-30T15:00:00Z"
CLUSTER, JOB, GROUP = "demo-abc123", "demo-def456", "tpu-group"
HEAD, SUBMITTER = f"{CLUSTER}-head-xyz12", f"{JOB}-aaaaa"
ACCELERATOR, TOPOLOGY = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
POOL = "cloud.google.com/gke-nodepool"
_INSTANCE = "app.kubernetes.io/instance"


def ray_cluster(slices: int = 2, hosts: int = 2, *, name: str = CLUSTER, release: str = "demo", **spec: Any) -> Object:
    worker = {
        "nodeSelector": {ACCELERATOR: "tpu-v6e-slice", TOPOLOGY: "2x4"},
        "containers": [{"name": "ray-worker", "ports": [{"name": "metrics", "containerPort": 8080}]}],
    }
    group = {"groupName": GROUP, "replicas": slices, "minReplicas": slices, "maxReplicas": slices, "numOfHosts": hosts}
    return {
        "metadata": _metadata(name, _of_chart(release)),
        "spec": {"workerGroupSpecs": [{**group, "template": {"spec": worker}}], **spec},
        "status": {"state": "ready"},
    }


def ray_job(
    *,
    name: str = JOB,
    cluster: str = CLUSTER,
    release: str = "demo",
    steps: int = 100,
    created: str = CREATED,
    **status: Any,
) -> Object:
    said = {"run": release, "attempt": "1", "steps": str(steps)}
    notes = {f"maxtext-multislice/{key}": value for key, value in said.items()}
    return {
        "metadata": _metadata(name, _of_chart(release), created) | {"annotations": notes},
        "spec": {"clusterSelector": {"ray.io/cluster": cluster}},
        "status": {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "startTime": created, **status},
    }


def head(*, name: str = "", cluster: str = CLUSTER, release: str = "demo", **status: Any) -> Object:
    return _pod(
        name or f"{cluster}-head-xyz12",
        _of_kuberay(cluster, release) | {"ray.io/node-type": "head", "ray.io/group": "headgroup"},
        {"name": "ray-head", "ports": [{"name": "dashboard", "containerPort": 8265}]},
        status or running("10.0.255.1"),
    )


def worker_name(number: int, host: int, cluster: str = CLUSTER) -> str:
    return f"{cluster}-{GROUP}-worker-s{number:03}h"[:58] + f"{host:02}"


def worker(number: int, host: int, *, cluster: str = CLUSTER, release: str = "demo", **status: Any) -> Object:
    """A host of a slice; without a status it runs."""
    kind = {"ray.io/node-type": "worker", "ray.io/group": GROUP, "replicaIndex": f"{GROUP}-{number}"}
    return _pod(
        worker_name(number, host, cluster),
        _of_kuberay(cluster, release) | kind,
        {
            "name": "ray-worker",
            "env": [{"name": "TPU_WORKER_ID", "value": str(host)}],
            "ports": [{"name": "metrics", "containerPort": 8080}],
            "resources": {"requests": {"google.com/tpu": "4"}},
        },
        status or running(f"10.0.{number}.{host}"),
    )


def submitter(
    name: str = SUBMITTER, *, job: str = JOB, submission: str = "s1", created: str = CREATED, phase: str = "Running"
) -> Object:
    """The pod of a run's Job, which prints the run's log."""
    labels = {_INSTANCE: "demo", "batch.kubernetes.io/job-name": job}
    variable = {"name": "RAY_JOB_SUBMISSION_ID", "value": submission}
    container = {"name": "ray-job-submitter", "env": [variable]}
    return _pod(name, labels, container, {"phase": phase}, created)


def running(address: str) -> Object:
    return {"phase": "Running", "podIP": address, "containerStatuses": [_container_status(True, {"running": {}})]}


def unscheduled(message: str) -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def waiting(reason: str, message: str = "") -> Object:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [_container_status(False, state)]}


def event(kind: str, name: str, reason: str, message: str, *, at: str = CREATED, type: str = "Warning") -> Object:
    return {
        "metadata": _metadata(f"{name}.{reason}.{at}", {}),
        "involvedObject": {"kind": kind, "name": name},
        "reason": reason, "message": message, "type": type, "lastTimestamp": at,
    }  # fmt: skip


def node(name: str, pool: str, *, topology: str = "2x4", chips: int = 4, ready: str = "True", **spec: Any) -> Object:
    labels = {
        ACCELERATOR: "tpu-v6e-slice", TOPOLOGY: topology, POOL: pool, "iam.gke.io/gke-metadata-server-enabled": "true",
    }  # fmt: skip
    status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"google.com/tpu": str(chips)}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def whole(slices: int = 2, hosts: int = 2, release: str = "demo") -> dict[str, list[Object]]:
    """A release that trains, by plural."""
    cluster, job = f"{release}-abc123", f"{release}-def456"
    workers = [
        worker(number, host, cluster=cluster, release=release) for number in range(slices) for host in range(hosts)
    ]
    return {
        "rayclusters": [ray_cluster(slices, hosts, name=cluster, release=release)],
        "rayjobs": [ray_job(name=job, cluster=cluster, release=release)],
        "pods": [head(cluster=cluster, release=release), *workers],
        "nodes": [node(pod["spec"]["nodeName"], f"pool-{index // hosts}") for index, pod in enumerate(workers)],
    }


def printed(actor: str, pid: int, ip: str, text: str) -> str:
    """A worker's line as Ray (2.60) prints it on the head."""
    return f"\x1b[36m({actor} pid={pid}, ip={ip})\x1b[0m {text}"


def _pod(name: str, labels: dict[str, str], container: Object, status: Object, created: str = CREATED) -> Object:
    placed = not any(one["type"] == "PodScheduled" for one in status.get("conditions", []))
    spec = {"containers": [container], **({"nodeName": f"node-{name}"} if placed else {})}
    return {"metadata": _metadata(name, labels, created), "spec": spec, "status": status}


def _container_status(ready: bool, state: Object) -> Object:
    return {"name": "ray", "image": "i", "imageID": "", "ready": ready, "restartCount": 0, "state": state}


def _metadata(name: str, labels: dict[str, str], created: str = CREATED) -> Object:
    return {"name": name, "namespace": "team", "labels": labels, "creationTimestamp": created}


def _of_chart(release: str) -> dict[str, str]:
    name = {"app.kubernetes.io/name": "maxtext-multislice", "app.kubernetes.io/managed-by": "Helm"}
    return {**name, _INSTANCE: release}


def _of_kuberay(cluster: str, release: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "kuberay", _INSTANCE: release, "ray.io/cluster": cluster}
