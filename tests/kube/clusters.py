"""What a cluster that can run the tiny profile has, and what KubeRay would do there."""

from __future__ import annotations

import threading

from tests.kube import manifests
from tests.kube.server.api import Api

SITE = ("storage.bucket=checkpoints", "image.uri=localhost/trainer:test")


def prepare(api: Api, pools: int = 2) -> None:
    """The webhook, DRANET's class, and node pools of one v6e 2x2 host each."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {"name": "kuberay-tpu-webhook.ray-system.svc", "rules": [rule]}
    api.add("mutatingwebhookconfigurations", "kuberay-tpu-mutating-webhook-cfg", webhooks=[hook])
    api.add("deviceclasses", "netdev.google.com")
    for number in range(pools):
        api.put("nodes", manifests.node(f"node-{number}", f"pool-{number}", topology="2x2"))


class KubeRay:
    """Holds RayJobs by a finalizer, as the operator does, and lets each go once its deletion was asked for."""

    def __init__(self, api: Api) -> None:
        self._api = api
        api.held.add("rayjobs")

    def end_when_deleted(self, name: str) -> None:
        def wait() -> None:
            self._api.await_call("DELETE", f"/rayjobs/{name}")
            self._api.await_call("GET", "watch=true")
            self._api.remove("rayjobs", name)

        threading.Thread(target=wait, daemon=True).start()
