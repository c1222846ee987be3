"""The objects are what the API server knows: every field is one of Kubernetes' own, and what must be there is there."""

import base64
import json
from functools import cache
from pathlib import Path

import pytest

from tests.chart.rendering import tool
from tests.gke import dranet, gcsfuse, objects
from tests.gke.api import Api
from tests.gke.fake_api import fake_api

PREFIXES = {
    "admissionregistration.k8s.io/v1": "io.k8s.api.admissionregistration.v1",
    "apiextensions.k8s.io/v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "rbac.authorization.k8s.io/v1": "io.k8s.api.rbac.v1",
    "resource.k8s.io/v1": "io.k8s.api.resource.v1",
    "storage.k8s.io/v1": "io.k8s.api.storage.v1",
    "v1": "io.k8s.api.core.v1",
}
URL = "https://10.0.0.1:9443"


def all_objects():
    return [*objects.cluster_objects(), *objects.webhook_configurations(URL, "PEM"), *objects.crds()]


@pytest.mark.parametrize("item", all_objects(), ids=lambda item: f"{item['kind']}-{item['metadata']['name']}")
def test_every_field_is_one_that_kubernetes_knows(item):
    assert list(_wrong(item, _definitions()[f"{PREFIXES[item['apiVersion']]}.{item['kind']}"], item["kind"])) == []


def test_a_misspelt_field_would_be_found():
    item = objects.cluster_objects()[1]
    wrong = item | {"spec": item["spec"] | {"podInfoOnMonut": True}}
    definition = _definitions()["io.k8s.api.storage.v1.CSIDriver"]
    assert list(_wrong(wrong, definition, "CSIDriver")) == ["CSIDriver.spec.podInfoOnMonut is unknown"]


def test_a_resource_slice_of_the_driver_is_one_that_kubernetes_knows(tmp_path):
    with fake_api() as server:
        server.put("/api/v1/nodes/node1", metadata={"uid": "u"})
        publisher = dranet.Publisher(Api(server.kubeconfig(tmp_path)), "node1", dranet.devices(2, 2))
        assert [publisher.publish(), publisher.publish()] == [True, False]
        created = server.wait_for("/apis/resource.k8s.io/v1/resourceslices/node1-dra.net")
    assert list(_wrong(created, _definitions()["io.k8s.api.resource.v1.ResourceSlice"], "ResourceSlice")) == []


def test_the_programs_may_do_what_they_do_and_no_more():
    roles = {item["metadata"]["name"]: item for item in objects.cluster_objects() if item["kind"] == "ClusterRole"}
    assert _allowed(roles[objects.WEBHOOK_ACCOUNT]) == {("pods", "list")}
    assert _allowed(roles[objects.NODE_ACCOUNT]) == {
        ("nodes", "get"),
        ("pods", "get"),
        ("resourceclaims", "get"),
        *(("resourceslices", verb) for verb in ("get", "create", "update")),
    }


def test_the_webhook_sees_only_what_gkes_sees():
    mutating, validating = (item["webhooks"][0] for item in objects.webhook_configurations(URL, "PEM"))
    assert mutating["objectSelector"] == {"matchLabels": {"app.kubernetes.io/name": "kuberay"}}
    assert mutating["clientConfig"] == {"url": f"{URL}/mutate", "caBundle": base64.b64encode(b"PEM").decode()}
    assert (mutating["rules"][0]["resources"], mutating["rules"][0]["operations"]) == (["pods"], ["CREATE"])
    assert validating["clientConfig"]["url"] == f"{URL}/validate"
    assert (validating["rules"][0]["apiGroups"], validating["rules"][0]["resources"]) == (["ray.io"], ["rayclusters"])


def test_the_drivers_and_the_objects_go_by_the_same_names():
    device_class, csi_driver, *_ = objects.cluster_objects()
    assert device_class["metadata"]["name"] == "netdev.google.com"
    assert dranet.DRIVER in device_class["spec"]["selectors"][0]["cel"]["expression"]
    assert csi_driver["metadata"]["name"] == gcsfuse.DRIVER


@pytest.mark.parametrize("crd", objects.crds(), ids=lambda crd: crd["spec"]["names"]["kind"])
def test_the_schemas_are_structural_and_closed(crd):
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    assert "x-kubernetes-preserve-unknown-fields" not in json.dumps(crd)
    assert list(_not_structural(schema, crd["spec"]["names"]["kind"])) == []


def test_a_node_of_a_tpu_pool_has_gkes_labels():
    tpu = {"accelerator": "tpu-v6e-slice", "topology": "2x4", "spot": "true"}
    assert objects.node_labels("pool-1", tpu) == {
        "cloud.google.com/gke-nodepool": "pool-1",
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "2x4",
        "cloud.google.com/gke-networking-dra-driver": "true",
        "cloud.google.com/gke-spot": "true",
    }
    assert objects.node_labels("system") == {"cloud.google.com/gke-nodepool": "system"}
    with pytest.raises(ValueError, match="is not {accelerator, topology}"):
        objects.node_labels("pool-1", {"acelerator": "tpu-v6e-slice", "topology": "2x4"})


def test_chips_are_added_to_what_a_node_has():
    assert objects.tpu_capacity(8)[0] == {"op": "add", "path": "/status/capacity/google.com~1tpu", "value": "8"}
    assert [patch["path"].split("/")[2] for patch in objects.tpu_capacity(8)] == ["capacity", "allocatable"]


def _allowed(role):
    return {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


@cache
def _definitions():
    return json.loads((Path(tool("kubernetes-openapi")) / "swagger.json").read_text())["definitions"]


def _wrong(value, schema, path):
    """The fields of a value that its schema does not name, and those that it requires in vain."""
    if "$ref" in schema:
        schema = _definitions()[schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _wrong(item, schema["items"], f"{path}[{index}]")
    elif isinstance(value, dict):
        yield from (f"{path}.{name} is missing" for name in schema.get("required", []) if name not in value)
        for name, item in value.items():
            below = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if below is not None:
                yield from _wrong(item, below, f"{path}.{name}")
            elif "properties" in schema:
                yield f"{path}.{name} is unknown"


def _not_structural(schema, path):
    """What a CustomResourceDefinition's schema lacks: a type everywhere, and named or free keys but not both."""
    if schema.get("type") is None and not schema.get("x-kubernetes-int-or-string"):
        yield f"{path} has no type"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path} has both properties and additionalProperties"
    yield from (f"{path} requires {name}" for name in schema.get("required", []) if name not in schema["properties"])
    for name, below in schema.get("properties", {}).items():
        yield from _not_structural(below, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from _not_structural(schema[key], f"{path}.{key}")
