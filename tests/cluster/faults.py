"""What a test breaks on purpose, and mends again."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster import control_plane
from tests.cluster.addons import OPERATOR, OPERATOR_NAMESPACE, Api
from tests.cluster.cluster import Cluster
from tests.cluster.release import Release


def kill_container(pod: Any) -> None:
    """SIGKILL to all processes of a pod but the one that holds its namespaces, as when memory is out."""
    group = f"pod{pod.metadata.uid}"
    killed = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if group in (process / "cgroup").read_text() and (process / "comm").read_text().strip() != "pause":
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
    assert killed, f"{pod.metadata.name} has no processes on this machine"


@contextlib.contextmanager
def operator_stopped(api: Api) -> Iterator[None]:
    """The KubeRay operator is away in the block, and ready again at the end."""
    api.apps.patch_namespaced_deployment_scale(OPERATOR, OPERATOR_NAMESPACE, {"spec": {"replicas": 0}})
    try:
        yield
    finally:
        api.apps.patch_namespaced_deployment_scale(OPERATOR, OPERATOR_NAMESPACE, {"spec": {"replicas": 1}})
        api.wait_for_deployment(OPERATOR, OPERATOR_NAMESPACE)


def restart_api_server(own: Cluster) -> None:
    """The API server goes, with all of its connections, and another one comes."""
    machine = own.machines()["control-plane"]
    plane = control_plane.ControlPlane.of(machine, own.folder, own.addresses)
    control_plane.restart_api_server(plane, own.folder)


def delete_submitter(demo: Release) -> None:
    """The pod that follows the Ray job for KubeRay goes; its Job makes another one."""
    for pod in demo.pods(f"job-name={demo.job_name()}"):
        demo.api.core.delete_namespaced_pod(pod.metadata.name, demo.namespace, grace_period_seconds=0)


def delete_head(demo: Release) -> None:
    """The Ray head's pod goes at once."""
    (head,) = demo.pods("ray.io/node-type=head")
    demo.api.core.delete_namespaced_pod(head.metadata.name, demo.namespace, grace_period_seconds=0)


def keep_head_away(demo: Release, seconds: float) -> None:
    """The Ray head's pod goes, and no node takes another one for so long."""
    demo.api.core.patch_node("system", {"spec": {"unschedulable": True}})
    try:
        delete_head(demo)
        time.sleep(seconds)  # being away for this long is what is tested
    finally:
        demo.api.core.patch_node("system", {"spec": {"unschedulable": None}})
