"""Makes the values of driver.kube.objects of what the API server sends, as plain JSON."""

from collections.abc import Mapping
from typing import Any

from driver.kube.objects import (
    ACCELERATOR,
    ROLE,
    SLICE_BY_WEBHOOK,
    TOPOLOGY,
    Detail,
    Pod,
    RayCluster,
    RayJob,
    Sign,
)

_RUN = "maxtext-multislice/"
_CLUSTER = "ray.io/cluster"
# KubeRay's, from 1.5 on with its feature gate RayMultiHostIndexing.
_SLICE_BY_KUBERAY, _HOST_BY_KUBERAY = "ray.io/worker-group-replica-index", "ray.io/replica-host-index"
_METRICS_PORT = 8080  # Ray's, where the values do not set another

Object = Mapping[str, Any]


def pod(row: Object) -> Pod:
    """From a row of a Table with the metadata."""
    metadata, cells = row["object"]["metadata"], row["cells"]
    labels = metadata.get("labels") or {}
    ready, _, containers = str(cells["Ready"]).partition("/")
    return Pod(
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        cluster=labels.get(_CLUSTER, ""),
        role=labels.get(ROLE, "submitter"),
        slice=_slice_number(labels),
        host=_number(labels.get(_HOST_BY_KUBERAY)),
        status=str(cells["Status"]),
        # One that has completed is not ready, and kubectl counts none of its containers.
        ready=ready == containers != "0",
        restarts=int(str(cells["Restarts"]).split()[0]),
        node=_cell(cells["Node"]),
        address=_cell(cells["IP"]),
        created=metadata.get("creationTimestamp") or "",
        leaving=metadata.get("deletionTimestamp") or "",
    )


def detail(whole: Object) -> Detail:
    """From the whole pod."""
    name, status = whole["metadata"]["name"], whole.get("status") or {}
    signs = []
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            words = f"{condition.get('reason', '')}: {condition.get('message', '')}"
            signs.append(Sign("Pod", name, "PodScheduled", words, condition.get("lastTransitionTime") or ""))
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        for source, said in (container.get("state") or {}).items():
            if source != "running" and said.get("exitCode") != 0:
                words = f"{said.get('reason', '')}: {said.get('message', '')}".strip(": ")
                signs.append(Sign("Pod", name, source, words, said.get("finishedAt") or ""))
    if status.get("reason"):
        signs.append(Sign("Pod", name, "status", f"{status['reason']}: {status.get('message', '')}"))
    return Detail(name, place(whole)[1], tuple(signs))


def event(whole: Object) -> Sign:
    """From an event; `at` is when it was last seen."""
    of = whole["involvedObject"]
    at = (whole.get("series") or {}).get("lastObservedTime") or whole.get("lastTimestamp") or whole.get("eventTime")
    at = at or (whole.get("metadata") or {}).get("creationTimestamp") or ""
    return Sign(of.get("kind", ""), of.get("name", ""), whole.get("reason") or "", whole.get("message") or "", at)


def ray_cluster(whole: Object) -> RayCluster:
    metadata, spec, status = whole["metadata"], whole["spec"], whole.get("status") or {}
    group = (spec.get("workerGroupSpecs") or [{}])[0]
    worker = group.get("template", {}).get("spec", {})
    selector = worker.get("nodeSelector") or {}
    least = group.get("minReplicas", 0)
    return RayCluster(
        name=metadata["name"],
        created=metadata.get("creationTimestamp") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        suspended=bool(spec.get("suspend")),
        state=status.get("state") or "",
        reason=status.get("reason") or "",
        group=group.get("groupName", ""),
        wanted=group.get("replicas", least),
        least=least,
        most=group.get("maxReplicas", group.get("replicas", least)),
        hosts_per_slice=group.get("numOfHosts", 1),
        accelerator=selector.get(ACCELERATOR, ""),
        topology=selector.get(TOPOLOGY, ""),
        metrics_port=port(worker, "metrics", _METRICS_PORT),
        token_secret=_token_secret(whole),
    )


def ray_job(whole: Object) -> RayJob:
    metadata, spec, status = whole["metadata"], whole["spec"], whole.get("status") or {}
    notes = metadata.get("annotations") or {}
    selected = (spec.get("clusterSelector") or {}).get(_CLUSTER, "")
    return RayJob(
        name=metadata["name"],
        created=metadata.get("creationTimestamp") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        run=notes.get(f"{_RUN}run", ""),
        attempt=int(notes.get(f"{_RUN}attempt", 0)),
        steps=int(notes.get(f"{_RUN}steps", 0)),
        cluster=status.get("rayClusterName") or selected,
        submission_id=status.get("jobId") or "",
        status=status.get("jobStatus") or "",
        deployment=status.get("jobDeploymentStatus") or "",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        started=status.get("startTime") or "",
        ended=status.get("endTime") or "",
        retries=int(status.get("failed") or 0),
    )


def place(whole: Object) -> tuple[int | None, int | None]:
    """The numbers of a whole pod's slice and of its host in there; None where nothing tells them."""
    labels = whole["metadata"].get("labels") or {}
    by_kuberay = _number(labels.get(_HOST_BY_KUBERAY))
    return _slice_number(labels), _number(variable(whole, "TPU_WORKER_ID")) if by_kuberay is None else by_kuberay


def slice_in(name: str) -> int | None:
    """The slice's number in GROUP-NUMBER, and a group's name may have hyphens."""
    return _number(name.rpartition("-")[2])


def port(spec: Object, name: str | int, default: int) -> int:
    """A port of a pod by its name in any container; a number is itself."""
    if isinstance(name, int):
        return name
    ports = [one for container in spec.get("containers") or [] for one in container.get("ports") or []]
    return next((int(one["containerPort"]) for one in ports if one.get("name") == name), default)


def variable(whole: Object, name: str) -> str:
    """An environment variable of a whole pod, from the first container that has it; empty where none has."""
    containers = (whole.get("spec") or {}).get("containers") or []
    variables = [one for container in containers for one in container.get("env") or []]
    return next((one.get("value") or "" for one in variables if one["name"] == name), "")


def _slice_number(labels: Mapping[str, str]) -> int | None:
    by_kuberay = _number(labels.get(_SLICE_BY_KUBERAY))
    return slice_in(labels.get(SLICE_BY_WEBHOOK, "")) if by_kuberay is None else by_kuberay


def _token_secret(cluster: Object) -> str:
    options = cluster["spec"].get("authOptions") or {}
    name = options.get("secretName") or cluster["metadata"]["name"]
    return name if options.get("mode") == "token" else ""


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _cell(text: str) -> str:
    return "" if text == "<none>" else text
