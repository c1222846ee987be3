"""The Kubernetes objects that GKE has and a plain Kubernetes lacks, as dictionaries to be applied."""

import base64
from collections.abc import Mapping
from typing import Any

from tests.gke import dranet, gcsfuse
from tests.gke.crds import crds as crds
from tests.gke.tpu import ACCELERATOR, NODE_POOL, RESOURCE, TOPOLOGY

Object = dict[str, Any]

NAMESPACE = "kube-system"
WEBHOOK_ACCOUNT = "gke-tpu-webhook"
NODE_ACCOUNT = "gke-node-plugins"
DEVICE_CLASS = "netdev.google.com"
# A webhook that hangs must not keep a pod longer than that.
WEBHOOK_SECONDS = 10
TAINT = {"key": RESOURCE, "value": "present", "effect": "NoSchedule"}


def cluster_objects() -> list[Object]:
    """What a cluster has once: the drivers' objects, and the accounts of the programs with what they may do.

    Make their tokens with `kubectl -n kube-system create token` for WEBHOOK_ACCOUNT and NODE_ACCOUNT.
    """
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DEVICE_CLASS},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{dranet.DRIVER}"'}}]},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": gcsfuse.DRIVER},
            "spec": {"attachRequired": False, "podInfoOnMount": True, "volumeLifecycleModes": ["Ephemeral"]},
        },
        *_account(WEBHOOK_ACCOUNT, [_rule("", "pods", "list")]),
        *_account(
            NODE_ACCOUNT,
            [
                _rule("", "nodes", "get"),
                _rule("", "pods", "get"),
                _rule("resource.k8s.io", "resourceclaims", "get"),
                _rule("resource.k8s.io", "resourceslices", "get", "create", "update"),
            ],
        ),
    ]


def webhook_configurations(url: str, ca_bundle: str) -> list[Object]:
    """The two configurations that send pods and RayClusters to the webhook.

    url: where it listens, such as https://10.0.0.1:9443.
    ca_bundle: the PEM text of the certificate authority that signed its certificate.
    """
    bundle = base64.b64encode(ca_bundle.encode()).decode()
    pods = _webhook("kuberay-tpu-webhook.ray-system.svc", f"{url}/mutate", bundle, "", "v1", "pods")
    pods |= {
        "reinvocationPolicy": "Never",
        "objectSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay"}},
    }
    clusters = _webhook(
        "raycluster-kuberay-tpu-webhook.ray-system.svc", f"{url}/validate", bundle, "ray.io", "*", "rayclusters"
    )
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": f"kuberay-tpu-{kind.lower()}-webhook-cfg"},
            "webhooks": [webhook],
        }
        for kind, webhook in (("Mutating", pods), ("Validating", clusters))
    ]


def node_labels(node_pool: str, tpu: Mapping[str, str] | None = None) -> dict[str, str]:
    """The labels of a node of a pool.

    tpu: {"accelerator": "tpu-v6e-slice", "topology": "2x4"}, and where the pool is of Spot VMs "spot": "true".
    """
    labels = {NODE_POOL: node_pool}
    if tpu is None:
        return labels
    unknown = tpu.keys() - {"accelerator", "topology", "spot"}
    if unknown or not {"accelerator", "topology"} <= tpu.keys():
        raise ValueError(f"{dict(tpu)} is not {{accelerator, topology}}, with spot where that is so")
    labels |= {ACCELERATOR: tpu["accelerator"], TOPOLOGY: tpu["topology"]}
    labels["cloud.google.com/gke-networking-dra-driver"] = "true"
    if "spot" in tpu:
        labels["cloud.google.com/gke-spot"] = tpu["spot"]
    return labels


def tpu_capacity(chips: int) -> list[Object]:
    """The JSON patch for a node's status (subresource `status`): so many chips, as the device plugin reports them.

    The kubelet leaves a capacity alone that it does not know, and computes the allocatable ones from it.
    """
    key = RESOURCE.replace("/", "~1")
    return [{"op": "add", "path": f"/status/{part}/{key}", "value": str(chips)} for part in ("capacity", "allocatable")]


def _account(name: str, rules: list[Object]) -> list[Object]:
    rbac = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    ]


def _rule(group: str, resource: str, *verbs: str) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _webhook(name: str, url: str, ca_bundle: str, group: str, version: str, resource: str) -> Object:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "failurePolicy": "Fail",
        "timeoutSeconds": WEBHOOK_SECONDS,
        "clientConfig": {"url": url, "caBundle": ca_bundle},
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [NAMESPACE, "kube-node-lease"]}
            ]
        },
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "operations": ["CREATE"],
                "resources": [resource],
                "scope": "Namespaced",
            }
        ],
    }
