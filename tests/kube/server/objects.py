"""The objects of a cluster, with the versions and the history that watches go by."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.gcp.operations import now
from tests.kube.server.calls import Object, StatusError
from tests.kube.server.kinds import KINDS

NAMESPACE = "team"


@dataclass(frozen=True)
class Event:
    """A change. version: the collection's, from this change on. type: ADDED, MODIFIED, DELETED, BOOKMARK."""

    version: int
    plural: str
    type: str
    object: Object


class Objects:
    """By (plural, namespace, name), in the order in which they were made; the namespace of those that are in none is
    empty.

    held: plurals whose objects a finalizer keeps when they are deleted, until they are removed. version: of the last
    change. compacted: the versions before it are forgotten. changed: notified of every change; guards all of it.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.held: set[str] = set()
        self.version = 100
        self.compacted = 0
        self.history: list[Event] = []

    def add(self, plural: str, name: str, namespace: str = NAMESPACE, **fields: Any) -> Object:
        """An object that somebody made or changed. metadata: what it has besides its name and namespace."""
        metadata = {"name": name, "namespace": namespace} | fields.pop("metadata", {})
        return self.put(plural, {"metadata": metadata, **fields})

    def put(self, plural: str, manifest: Object) -> Object:
        """Makes or replaces the object; what the server sets is set where the manifest does not have it."""
        with self.changed:
            made = self.completed(plural, manifest)
            key = _key(plural, made["metadata"]["name"], made["metadata"].get("namespace", ""))
            self.version += 1
            made["metadata"]["resourceVersion"] = str(self.version)
            self._tell(plural, "MODIFIED" if key in self.objects else "ADDED", made)
            self.objects[key] = made
        return made

    def put_all(self, manifests: Mapping[str, Sequence[Object]]) -> None:
        """By plural."""
        for plural, each in manifests.items():
            for manifest in each:
                self.put(plural, manifest)

    def completed(self, plural: str, manifest: Object) -> Object:
        """The object that `put` would store, but for its version."""
        kind, given = KINDS[plural], manifest["metadata"]
        where = {"namespace": given.get("namespace") or NAMESPACE} if kind.namespaced else {}
        there = self.objects.get(_key(plural, given["name"], where.get("namespace", "")), {}).get("metadata", {})
        new = {"creationTimestamp": now(), "uid": f"uid-{given['name']}-{self.version}"}
        metadata = {key: there.get(key, value) for key, value in new.items()} | given | where
        if not kind.namespaced:
            metadata.pop("namespace", None)
        return {"apiVersion": kind.version, "kind": kind.name} | manifest | {"metadata": metadata}

    def get(self, plural: str, name: str, namespace: str = NAMESPACE) -> Object:
        """Raises a StatusError where it is not there."""
        try:
            return self.objects[_key(plural, name, namespace)]
        except KeyError:
            raise StatusError(404, f'{plural} "{name}" not found') from None

    def all(self, plural: str, namespace: str = "") -> list[Object]:
        """namespace: empty for all; of no matter for kinds that are in none."""
        anywhere = not namespace or not KINDS[plural].namespaced
        with self.changed:
            return [
                one for (of, where, _), one in self.objects.items() if of == plural and (anywhere or where == namespace)
            ]

    def names(self, plural: str, namespace: str = NAMESPACE) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.all(plural, namespace))

    def delete(self, plural: str, name: str, namespace: str = NAMESPACE) -> Object:
        """As the API does; what is held stays for now."""
        there = self.get(plural, name, namespace)
        if plural not in self.held:
            return self.remove(plural, name, namespace)
        return self.put(plural, there | {"metadata": there["metadata"] | {"deletionTimestamp": now()}})

    def remove(self, plural: str, name: str, namespace: str = NAMESPACE) -> Object:
        """It is gone, whoever held it."""
        with self.changed:
            gone = self.objects.pop(_key(plural, name, namespace))
            self.version += 1
            gone = gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self.version)}}
            self._tell(plural, "DELETED", gone)
        return gone

    def remove_all(self, *plurals: str) -> None:
        """Of these kinds."""
        for plural, namespace, name in list(self.objects):
            if plural in plurals:
                self.remove(plural, name, namespace)

    def bookmark(self, plural: str) -> None:
        """Tells the watches of a newer version, which changes nothing."""
        with self.changed:
            self.version += 1
            metadata = {"resourceVersion": str(self.version)}
            self._tell(plural, "BOOKMARK", {"kind": KINDS[plural].name, "metadata": metadata})

    def compact(self) -> None:
        """Forgets all versions up to now, and one that nobody has seen."""
        with self.changed:
            self.version += 1
            self.compacted = self.version

    def _tell(self, plural: str, kind: str, made: Object) -> None:
        self.history.append(Event(self.version, plural, kind, made))
        self.changed.notify_all()


def _key(plural: str, name: str, namespace: str) -> tuple[str, str, str]:
    return plural, namespace if KINDS[plural].namespaced else "", name
