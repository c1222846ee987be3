"""Lists in pages, of one moment, in the forms that the real server has: whole, metadata alone, the Table that kubectl
prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from tests.kube.server.calls import Object, StatusError
from tests.kube.server.kinds import KINDS, Address
from tests.kube.server.objects import Objects
from tests.kube.server.selectors import chosen

_COLUMNS = ("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates")
_METADATA = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}


class Lists:
    """Answers lists. What of one is left after a page is kept as it was, for the token that the page ends with."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._left: dict[str, tuple[str, list[Object]]] = {}
        self._tokens = count(1)

    def page(self, at: Address, query: Mapping[str, str], accept: str) -> Object:
        version, found = self._rest(at, query)
        limit = int(query.get("limit", 0)) or len(found)
        metadata = {"resourceVersion": version}
        if len(found) > limit:
            metadata["continue"] = str(next(self._tokens))
            self._left[metadata["continue"]] = version, found[limit:]
        return _listed(at.plural, found[:limit], accept) | {"metadata": metadata}

    def _rest(self, at: Address, query: Mapping[str, str]) -> tuple[str, list[Object]]:
        if "continue" in query:
            if query["continue"] not in self._left:
                raise StatusError(410, "The provided continue parameter is too old to display a consistent list result")
            return self._left[query["continue"]]
        with self._objects.changed:
            found = [one for one in self._objects.all(at.plural, at.namespace) if chosen(one, query)]
            return str(self._objects.version), found


def in_form(one: Object, accept: str) -> Object:
    """One object as the caller accepts it."""
    return _METADATA | {"metadata": one["metadata"]} if "as=PartialObjectMetadata" in accept else one


def _listed(plural: str, page: list[Object], accept: str) -> Object:
    if "as=Table" in accept:
        return {
            "apiVersion": "meta.k8s.io/v1",
            "kind": "Table",
            "columnDefinitions": [{"name": name} for name in _COLUMNS],
            "rows": [{"cells": _cells(one), "object": in_form(one, "as=PartialObjectMetadata")} for one in page],
        }
    items = [in_form(one, accept) for one in page]
    if "as=PartialObjectMetadata" in accept:
        return {"apiVersion": _METADATA["apiVersion"], "kind": f"{_METADATA['kind']}List", "items": items or None}
    return {"apiVersion": KINDS[plural].version, "kind": f"{KINDS[plural].name}List", "items": items}


def _cells(pod: Object) -> list[Any]:
    """As printPod of Kubernetes 1.36 (pkg/printers/internalversion), as far as the tests' pods need it."""
    status = pod.get("status", {})
    containers = status.get("containerStatuses", [])
    ready = sum(bool(one.get("ready")) for one in containers)
    word = status.get("reason") or status.get("phase", "Pending")
    for one in containers:
        for state in ("waiting", "terminated"):
            word = one.get("state", {}).get(state, {}).get("reason", word)
    if pod["metadata"].get("deletionTimestamp"):
        word = "Terminating"
    restarts = sum(one.get("restartCount", 0) for one in containers)
    node = pod.get("spec", {}).get("nodeName") or "<none>"
    restarted = f"{restarts} (5m ago)" if restarts else "0"
    counted = f"{ready}/{len(containers) or 1}"
    address = status.get("podIP") or "<none>"
    return [pod["metadata"]["name"], counted, word, restarted, "5m", address, node, "<none>", "<none>"]
