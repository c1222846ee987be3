"""Takes hosts away as a Spot preemption does, and tells who may not.

A Spot VM that is preempted gives its pods some seconds: the kubelet runs their preStop hooks, ends them, and the node
is gone. Here the pods are deleted with such a grace; everything after that is the same, but that the nodes stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubernetes.client import ApiException

from driver.errors import DriverError
from driver.kube.connection import explained

if TYPE_CHECKING:
    from driver.kube.connection import Connection
    from driver.kube.objects import Pod

_KUBERNETES_GRACE_SECONDS = 30
_NOT_FOUND = 404
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def check_right(connection: Connection) -> None:
    """Raises a DriverError where the caller may not delete pods, with what is needed."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": connection.namespace, "verb": "delete", "resource": "pods"}},
    }
    with explained("asking what you may do", "create", "selfsubjectaccessreviews"):
        answer = connection.request("POST", _REVIEWS, body=review)
    if not answer["status"]["allowed"]:
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
    seconds = min(grace, _own_grace(connection, pods[0]))
    for pod in pods:
        with explained(f"deleting pod {pod.name}", "delete", "pods"):
            try:
                connection.request("DELETE", _path(connection, pod), {"gracePeriodSeconds": str(seconds)})
            except ApiException as error:
                if error.status != _NOT_FOUND:
                    raise


def _own_grace(connection: Connection, pod: Pod) -> int:
    """All hosts of a group have the same."""
    with explained(f"reading pod {pod.name}", "get", "pods"):
        seconds = connection.request("GET", _path(connection, pod))["spec"].get("terminationGracePeriodSeconds")
    return _KUBERNETES_GRACE_SECONDS if seconds is None else int(seconds)


def _path(connection: Connection, pod: Pod) -> str:
    return f"/api/v1/namespaces/{connection.namespace}/pods/{pod.name}"
