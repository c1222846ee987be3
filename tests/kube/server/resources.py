"""What is done with single objects: read, create, update, patch, delete, and asking whether one may."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from tests.kube.server.calls import Call, Object, Reply, StatusError
from tests.kube.server.kinds import Address
from tests.kube.server.lists import in_form
from tests.kube.server.objects import Objects


def answer(verb: str, call: Call, at: Address, objects: Objects) -> Reply:
    """Raises a StatusError."""
    match verb:
        case "get":
            return Reply(in_form(objects.get(at.plural, at.name, at.namespace), call.accept))
        case "create":
            return Reply(_create(call, at, objects), HTTPStatus.CREATED)
        case "update":
            return Reply(_put(call, at, objects, objects.get(at.plural, at.name, at.namespace) | call.body))
        case "patch":
            return Reply(_patch(call, at, objects))
        case "delete":
            return Reply(objects.delete(at.plural, at.name, at.namespace))
    raise StatusError(405, "the server does not allow this method on the requested resource")


def _create(call: Call, at: Address, objects: Objects) -> Object:
    made = call.body
    name = made["metadata"]["name"]
    if name in objects.names(at.plural, at.namespace):
        raise StatusError(409, f'{at.plural} "{name}" already exists')
    return _put(call, at, objects, made)


def _patch(call: Call, at: Address, objects: Objects) -> Object:
    given = call.body
    if "apply-patch" not in call.headers.get("content-type", ""):
        return _put(call, at, objects, _merged(objects.get(at.plural, at.name, at.namespace), given))
    there = objects.get(at.plural, at.name, at.namespace) if at.name in objects.names(at.plural, at.namespace) else {}
    metadata = there.get("metadata", {}) | given["metadata"]
    status = {"status": there["status"]} if "status" in there else {}
    return _put(call, at, objects, status | given | {"metadata": metadata})


def _put(call: Call, at: Address, objects: Objects, made: Object) -> Object:
    made = made | {"metadata": made["metadata"] | {"namespace": at.namespace}}
    if call.query.get("dryRun") == "All":
        return objects.completed(at.plural, made)
    return objects.put(at.plural, made)


def _merged(there: Any, given: Any) -> Any:
    """A merge patch (RFC 7386); a strategic one of what Helm changes is the same but for lists."""
    if not isinstance(given, dict) or not isinstance(there, dict):
        return given
    merged = dict(there)
    for key, value in given.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(there.get(key), value)
    return merged
