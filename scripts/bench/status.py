"""What does `driver status` cost on 256 slices of 16 hosts, and what on 2?

    KUBECONFIG=... scripts/bench/run status [--slices 2 256] [--output json]

The API server is a real one, the one of KUBECONFIG, with KubeRay's CRDs; no kubelets are needed. For each size a
namespace of its own gets the chart's RayCluster and RayJob (v6e 8x8, 16 hosts a slice), marked as managed by another
controller so that KubeRay leaves them alone; a pod for each host as KubeRay would make it of the rendered template,
with a status as a kubelet would write it; and a node for each pod. All is removed at the end. Making 4,096 pods takes
minutes.

Measured is what one screen takes: reading the release, its facts, and drawing them, without asking a worker for the
run's figures, which is one request more, whatever the size.
- seconds: the median of --times readings, after one that is not counted. The goal is 2.
- calls to the API server, and bytes that it answered.
- MiB: the peak of what Python has allocated meanwhile, from tracemalloc, in a reading of its own. The goal is at most a
  page's worth above the smallest size: what reading one page of 500 whole pods takes, measured here too.

Exit code 1 when a goal is missed.
"""

import argparse
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from kubernetes import client, watch
from rich.console import Console

from driver import chart, resources
from driver.kube import objects, screen, snapshot, status
from driver.kube.connection import Connection, connect
from driver.kube.lists import Listing, collect
from driver.values import Values
from scripts.bench import command_line

HOSTS = 16
_RELEASE = "bench"
_GOAL_SECONDS = 2.0
_MIB = 2**20
# KubeRay (1.5) reconciles only what this names itself; the other value that its CRD allows is Kueue's.
_NOT_KUBERAYS = "kueue.x-k8s.io/multikueue"

Object = dict[str, Any]


def main() -> int:
    options = _options()
    progress = Console(stderr=True)
    measured = []
    for slices in options.slices:
        namespace = f"bench-status-{slices}"
        connection = connect(kubeconfig=os.environ.get("KUBECONFIG", ""), namespace=namespace)
        with progress.status(f"{slices} slices: making {slices * HOSTS} pods"), _made(connection, slices):
            measured.append({"slices": slices, "pods": slices * HOSTS, **_measure(connection, options.times)})
        progress.print(measured[-1])
    page = max(one["pageMiB"] for one in measured)
    allowed = measured[0]["peakMiB"] + page
    _answer(options, measured, allowed)
    return 1 if any(one["seconds"] > _GOAL_SECONDS or one["peakMiB"] > allowed for one in measured) else 0


def _measure(connection: Connection, times: int) -> Mapping[str, Any]:
    show(connection)
    seconds = statistics.median(_time(lambda: show(connection)) for _ in range(times))
    with _counted(connection) as answers:
        show(connection)
    return {
        "seconds": round(seconds, 3),
        "calls": len(answers),
        "answeredMiB": round(sum(answers) / _MIB, 2),
        "peakMiB": _peak(lambda: show(connection)),
        "pageMiB": _peak(lambda: _one_page(connection)),
    }


def show(connection: Connection) -> None:
    """One screen of `driver status`, drawn into nothing."""
    facts = status.facts(snapshot.read(connection, _RELEASE), {})
    Console(file=StringIO(), width=160).print(screen.status(facts))


def _one_page(connection: Connection) -> None:
    """500 pods, or as many as there are, whole; nothing of them is kept."""
    listing = Listing("pods", f"{objects.INSTANCE}={_RELEASE}")

    class EnoughError(Exception):
        """The page is parsed."""

    def stop(_: Object) -> None:
        raise EnoughError

    try:
        collect(connection, listing, stop)
    except EnoughError:
        return


def _peak(work: Callable[[], None]) -> float:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round((peak - before) / _MIB, 2)


@contextmanager
def _counted(connection: Connection) -> Iterator[list[int]]:
    """The bytes of each answer."""
    answers: list[int] = []
    call: Any = connection.api.call_api

    def counting(*arguments: Any, **named: Any) -> Any:
        answer: Any = call(*arguments, **named)
        answers.append(len(answer.read()))
        return answer

    api: Any = connection.api
    api.call_api = counting
    yield answers
    api.call_api = call


@contextmanager
def _made(connection: Connection, slices: int) -> Iterator[None]:
    """A release of this size that runs, in a namespace of its own."""
    core, namespace = _core(connection), connection.namespace
    core.create_namespace({"metadata": {"name": namespace}})
    try:
        _await_service_account(core, namespace)
        cluster = _make_release(connection, slices)
        with ThreadPoolExecutor(16) as pool:
            places = [(number, host) for number in range(slices) for host in range(HOSTS)]
            list(pool.map(lambda place: _make_host(connection, cluster, *place), places))
        yield
    finally:
        core.delete_collection_node(label_selector=f"bench={namespace}")
        core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
        core.delete_namespace(namespace)


def _core(connection: Connection) -> Any:
    """Its types want the client's objects, and it takes plain ones as well."""
    return client.CoreV1Api(connection.api)


def _await_service_account(core: Any, namespace: str) -> None:
    """Without the namespace's own service account no pod is admitted."""
    watching = {"field_selector": "metadata.name=default", "timeout_seconds": 60}
    for _ in _watcher().stream(core.list_namespaced_service_account, namespace, **watching):
        return
    raise TimeoutError(f"namespace {namespace} has no service account after 60 s: is a controller manager running?")


def _watcher() -> Any:
    made: Any = watch.Watch  # it has no types
    return made()


def _make_release(connection: Connection, slices: int) -> Object:
    profile = Path(resources.values_dir() / "llama3-8b.yaml")
    shape = (f"tpu.slices={slices}", "tpu.topology=8x8", "job.maxtext.ici_fsdp_parallelism=64")
    sets = (*shape, "storage.bucket=bench", "network.dranet.enabled=false")
    rendering = chart.render(Values((profile,), sets), _RELEASE)
    made: dict[str, Any] = {}
    for kind, plural in (("RayCluster", "rayclusters"), ("RayJob", "rayjobs")):
        manifest = dict(rendering.one(kind))
        manifest["metadata"] = {**manifest["metadata"], "namespace": connection.namespace}
        manifest["spec"] = {**manifest["spec"], "managedBy": _NOT_KUBERAYS}
        made[kind] = client.CustomObjectsApi(connection.api).create_namespaced_custom_object(
            "ray.io", "v1", connection.namespace, plural, manifest
        )
    return dict(made["RayCluster"])


def _make_host(connection: Connection, cluster: Object, number: int, host: int) -> None:
    core, namespace = _core(connection), connection.namespace
    group = cluster["spec"]["workerGroupSpecs"][0]
    name = f"{cluster['metadata']['name']}-{group['groupName']}-worker-{number * HOSTS + host:05}"
    node = f"{namespace}-{number}-{host}"
    core.create_node({"metadata": {"name": node, "labels": _node_labels(namespace, group, number)}})
    core.create_namespaced_pod(namespace, _pod(cluster, group, name, node, number, host))
    core.patch_namespaced_pod_status(name, namespace, {"status": _running(group, f"10.{number}.0.{host}")})


def _node_labels(namespace: str, group: Object, number: int) -> dict[str, str]:
    selector = group["template"]["spec"]["nodeSelector"]
    return {**selector, objects.NODE_POOL: f"{namespace}-{number}", "bench": namespace}


def _pod(cluster: Object, group: Object, name: str, node: str, number: int, host: int) -> Object:
    """The template, with what KubeRay and the TPU webhook add: labels, variables. It is bound to its node, tolerates
    that nobody keeps the node alive, and lacks the label by which the webhook would find it."""
    template = group["template"]
    labels = {
        "ray.io/cluster": cluster["metadata"]["name"], "ray.io/node-type": "worker", "ray.io/group": group["groupName"],
        "ray.io/is-ray-node": "yes", objects.SLICE_BY_WEBHOOK: f"{group['groupName']}-{number}",
    }  # fmt: skip
    spec = {key: value for key, value in template["spec"].items() if key not in ("nodeSelector", "serviceAccountName")}
    env = [{"name": f"RAY_VARIABLE_{index}", "value": "what KubeRay adds"} for index in range(24)]
    env.append({"name": "TPU_WORKER_ID", "value": str(host)})
    first, *others = spec["containers"]
    spec["containers"] = [{**first, "env": [*(first.get("env") or []), *env]}, *others]
    spec |= {"nodeName": node, "tolerations": [{"operator": "Exists"}]}
    metadata = template["metadata"]
    return {"metadata": {**metadata, "name": name, "labels": {**metadata["labels"], **labels}}, "spec": spec}


def _running(group: Object, address: str) -> Object:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    statuses = [
        {
            "name": container["name"], "image": container["image"], "imageID": f"sha256:{'0' * 64}", "ready": True,
            "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}},
        }
        for container in group["template"]["spec"]["containers"]
    ]  # fmt: skip
    return {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "startTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds],
        "containerStatuses": statuses,
    }  # fmt: skip


def _time(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _answer(options: argparse.Namespace, measured: list[dict[str, Any]], allowed: float) -> None:
    columns = ("slices", "pods", "seconds", "calls", "answeredMiB", "peakMiB", "pageMiB")
    rows = [tuple(one[key] for key in columns) for one in measured]
    goal = ("goal", None, _GOAL_SECONDS, None, None, round(allowed, 2), None)
    table = command_line.table("One screen of driver status", columns, [*rows, goal])
    facts = {"goals": {"seconds": _GOAL_SECONDS, "peakMiB": round(allowed, 2)}, "measured": measured}
    command_line.answer(options.output, facts, table)


def _options() -> argparse.Namespace:
    parser = command_line.parser(__doc__)
    parser.add_argument("--slices", type=command_line.positive, nargs="+", default=[2, 256])
    parser.add_argument("--times", type=command_line.positive, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
