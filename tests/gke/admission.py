"""Asks the TPU webhook as an API server does, about pods and RayClusters as KubeRay makes them."""

import base64
import copy
import http.client
import json
import ssl
from typing import Any


class Client:
    """Asks the webhook as an API server does, and applies its patches."""

    def __init__(self, port, certificate):
        self.port, self.tls = port, ssl.create_default_context(cafile=certificate)

    def post(self, path, body):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=10)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, content

    def review(self, path, kind, item, **request):
        request = {"uid": "u1", "kind": {"kind": kind}, "namespace": "team", "operation": "CREATE"} | request
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | {"object": item}}
        status, content = self.post(path, json.dumps(review))
        assert status == 200, content
        answer = json.loads(content)
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        assert answer["response"]["uid"] == "u1"
        return answer["response"]

    def mutated(self, item, **request):
        response = self.review("/mutate", "Pod", item, **request)
        assert response["allowed"], response
        if "patch" not in response:
            return item
        assert response["patchType"] == "JSONPatch"
        return _patched(item, json.loads(base64.b64decode(response["patch"])))

    def refusal(self, item, path="/mutate", kind="Pod"):
        response = self.review(path, kind, item)
        assert not response["allowed"]
        return response["status"]["message"]


def pod(topology="2x4", cluster="demo", labels=(), env=(), accelerator="tpu-v6e-slice", chips="4", containers=1):
    container: dict[str, Any] = {"name": "ray-worker", "resources": {"limits": {"google.com/tpu": chips}}}
    if env:
        container["env"] = [{"name": name, "value": value} for name, value in env]
    selector = {"cloud.google.com/gke-tpu-accelerator": accelerator, "cloud.google.com/gke-tpu-topology": topology}
    return {
        "metadata": {
            "generateName": f"{cluster}-workers-",
            "labels": {"app.kubernetes.io/name": "kuberay", "ray.io/cluster": cluster, "ray.io/group": "workers"}
            | dict(labels),
        },
        "spec": {
            "nodeSelector": {key: value for key, value in selector.items() if value},
            "containers": [copy.deepcopy(container) for _ in range(containers)],
        },
    }


def ray_cluster(hosts=2, topology="2x4", **changes):
    group = {"groupName": "workers", "numOfHosts": hosts, "template": pod(topology)} | changes
    return {"metadata": {"name": "demo"}, "spec": {"workerGroupSpecs": [group]}}


def variables(item, container=0):
    return {entry["name"]: entry.get("value") for entry in item["spec"]["containers"][container].get("env", [])}


def place(item):
    found = variables(item)
    return found["TPU_NAME"], int(found["TPU_WORKER_ID"])


def _patched(item, operations):
    """RFC 6902, as far as the webhook uses it."""
    item = copy.deepcopy(item)
    for operation in operations:
        assert operation["op"] == "add"
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = item
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if last == "-":
            target.append(operation["value"])
        else:
            target[last] = operation["value"]
    return item
