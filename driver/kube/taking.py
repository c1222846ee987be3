"""Takes hosts away as a Spot preemption does, and tells who may not.

A Spot VM that is preempted gives its pods some seconds: the kubelet runs their preStop hooks, ends them, and the node
is gone. Here the pods are deleted with such a grace; everything after that is the same, but that the nodes stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kubernetes import client

from driver.errors import DriverError
from driver.kube.connection import explained

if TYPE_CHECKING:
    from driver.kube.connection import Connection
    from driver.kube.objects import Pod

_KUBERNETES_GRACE_SECONDS = 30
_NOT_FOUND = 404


def check_right(connection: Connection) -> None:
    """Raises a DriverError where the caller may not delete pods, with what is needed."""
    api: Any = client.AuthorizationV1Api(connection.api)  # its types say that every field may be missing
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(
                namespace=connection.namespace, verb="delete", resource="pods", group=""
            )
        )
    )
    with explained("asking what you may do", "create", "selfsubjectaccessreviews"):
        answer = api.create_self_subject_access_review(review)
    if not answer.status.allowed:
        namespace = connection.namespace
        raise DriverError(
            f"You may not delete pods in namespace {namespace}.",
            rule="That is how a slice is taken away. The chart's Role for operators.subjects does not give it, because "
            "it would hold for every run of the namespace.",
            fix=f"have this done: kubectl -n {namespace} create role preempt --verb=delete --resource=pods && "
            f"kubectl -n {namespace} create rolebinding preempt --role=preempt --user=YOU",
        )


def take(connection: Connection, pods: Sequence[Pod], grace: int) -> None:
    """Deletes the pods of hosts of one run, one after the other without waiting.

    grace: seconds at most. A pod's own terminationGracePeriodSeconds, where it is less, holds, as on a node that is
    shut down. 0: the hosts vanish.
    """
    core = client.CoreV1Api(connection.api)
    seconds = min(grace, _own_grace(connection, pods[0]))
    for pod in pods:
        with explained(f"deleting pod {pod.name}", "delete", "pods"):
            try:
                core.delete_namespaced_pod(pod.name, connection.namespace, grace_period_seconds=seconds)
            except client.ApiException as error:
                if error.status != _NOT_FOUND:
                    raise


def _own_grace(connection: Connection, pod: Pod) -> int:
    """All hosts of a group have the same."""
    core: Any = client.CoreV1Api(connection.api)
    with explained(f"reading pod {pod.name}", "get", "pods"):
        found = core.read_namespaced_pod(pod.name, connection.namespace)
    seconds = found.spec.termination_grace_period_seconds
    return _KUBERNETES_GRACE_SECONDS if seconds is None else int(seconds)
