"""What runs in a test cluster before the chart comes: DNS, the KubeRay operator, and GKE's own objects."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError

from tests.cluster import images
from tests.cluster.programs import Programs

Manifest = Mapping[str, Any]

OPERATOR_NAMESPACE = "kuberay"
OPERATOR = "kuberay-operator"
_START_SECONDS = 180.0
_HERE = Path(__file__).parent


class Api:
    """An administrator's view of a cluster."""

    def __init__(self, kubeconfig: Path):
        self.client = config.new_client_from_config(str(kubeconfig))
        # The client's types say that every field may be missing.
        self.core: Any = client.CoreV1Api(self.client)
        self.apps: Any = client.AppsV1Api(self.client)
        self.custom: Any = client.CustomObjectsApi(self.client)
        self._dynamic: DynamicClient | None = None

    @property
    def dynamic(self) -> DynamicClient:
        if self._dynamic is None:
            self._dynamic = DynamicClient(self.client)
        return self._dynamic

    def apply(self, manifests: Iterable[Manifest], namespace: str | None = None) -> None:
        """Server-side apply. Waits for a kind whose definition was applied a moment before."""
        for manifest in manifests:
            deadline = time.monotonic() + 30
            while True:
                try:
                    kind = self.dynamic.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
                    kind.server_side_apply(
                        body=dict(manifest), namespace=namespace, field_manager="test-cluster", force_conflicts=True
                    )
                    break
                except (ResourceNotFoundError, NotFoundError, ConflictError):
                    if time.monotonic() > deadline:
                        raise
                    self._dynamic = None
                    time.sleep(0.2)

    def wait_for_deployment(self, name: str, namespace: str) -> None:
        """Until a deployment has a ready pod. Raises a TimeoutError with the pods' states."""
        deadline = time.monotonic() + _START_SECONDS
        while not self.apps.read_namespaced_deployment_status(name, namespace).status.ready_replicas:
            if time.monotonic() > deadline:
                pods = self.core.list_namespaced_pod(namespace).items
                states = {pod.metadata.name: pod.status.to_str() for pod in pods}
                raise TimeoutError(f"deployment {namespace}/{name} is not ready: {states}")
            time.sleep(0.2)

    def node_is_ready(self, name: str) -> bool:
        try:
            conditions = self.core.read_node_status(name).status.conditions or []
        except client.ApiException as error:
            if error.status != 404:
                raise
            return False
        return any(each.type == "Ready" and each.status == "True" for each in conditions)

    def token(self, service_account: str, namespace: str, hours: int = 24) -> str:
        request = client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=3600 * hours)
        )
        answer = self.core.create_namespaced_service_account_token(service_account, namespace, request)
        return str(answer.status.token)


def dns(address: str) -> list[Manifest]:
    """CoreDNS at the address of its Service."""
    return list(yaml.safe_load_all((_HERE / "coredns.yaml").read_text().replace("ADDRESS", address)))


def kuberay(fetched: Programs) -> Sequence[Manifest]:
    """KubeRay's own definitions, permissions and deployment, of its Go module, in a namespace of its own."""
    source = fetched.kuberay_config
    manifests: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}}
    ]
    files = [
        *sorted((source / "crd" / "bases").glob("*.yaml")),
        *(source / "rbac" / f"{name}.yaml" for name in _RBAC),
        source / "manager" / "manager.yaml",
    ]
    for file in files:
        # The C loader: each definition is 2 MB.
        manifests += [dict(each) for each in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader) if each]
    for manifest in manifests:
        if manifest["metadata"].get("namespace"):
            manifest["metadata"]["namespace"] = OPERATOR_NAMESPACE
        for subject in manifest.get("subjects", []):
            subject["namespace"] = OPERATOR_NAMESPACE
        if manifest["kind"] == "Deployment":
            pod = manifest["spec"]["template"]["spec"]
            container = pod["containers"][0]
            container |= {
                "image": images.OPERATOR,
                "imagePullPolicy": "Never",
                "command": ["/ray-operator"],
                "args": ["--enable-leader-election=false"],
                # 100m, its own limit, makes it slow enough on two busy cores to fail its probes.
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
            }
            pod["securityContext"]["runAsUser"] = 65532
    return manifests


_RBAC = ("service_account", "role", "role_binding", "leader_election_role", "leader_election_role_binding")
