"""Fields that the installed definitions do not have."""

from driver.kube.schema import unknown_fields

MANIFEST = {"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": {"a": 1, "deep": [{"b": 1}], "any": {"z": 1}}}


def document(**properties):
    spec = {"type": "object", "properties": properties}
    kind = {"group": "ray.io", "version": "v1", "kind": "RayJob"}
    job = {"properties": {"spec": {"$ref": "#/components/schemas/spec"}}, "x-kubernetes-group-version-kind": [kind]}
    return {"components": {"schemas": {"job": job, "spec": spec}}}


def test_a_field_that_is_not_there_is_named_by_its_path():
    deep = {"type": "array", "items": {"type": "object", "properties": {"c": {}}}}
    found = unknown_fields(document(a={"type": "integer"}, deep=deep, any={"type": "object"}), MANIFEST)
    assert found == ["spec.deep[0].b"]


def test_what_is_below_an_unknown_field_is_not_told_as_well():
    assert unknown_fields(document(a={}, deep={"items": {}}), MANIFEST) == ["spec.any"]


def test_maps_of_any_key_and_preserved_fields_are_known():
    open_map = {"type": "object", "additionalProperties": {"type": "integer"}}
    kept = {"type": "object", "properties": {}, "x-kubernetes-preserve-unknown-fields": True}
    assert unknown_fields(document(a={}, deep={"items": kept}, any=open_map), MANIFEST) == []


def test_a_kind_that_is_not_described_is_not_judged():
    assert unknown_fields({"components": {"schemas": {}}}, MANIFEST) == []
