"""What an install would change: its manifests against what the cluster has, and against the release as it was."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import yaml
from kubernetes.client.exceptions import ApiException

from driver.kube.connection import Connection, explained

CREATED, CHANGED, DELETED = "created", "changed", "deleted"

# Kinds of the whole cluster, and plurals that are not the kind's name with an s.
_OF_THE_CLUSTER = {"ComputeClass", "Namespace"}
_PLURALS = {"NetworkPolicy": "networkpolicies", "ComputeClass": "computeclasses", "PodMonitoring": "podmonitorings"}

_HASHED = re.compile(r"-[0-9a-f]{6}$")
"""The end of a name that changes with the content: the chart's `hash`."""

Manifest = Mapping[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True)
class Change:
    """One object that an install makes, changes or deletes. text: a unified diff of YAML, - is what the cluster has.

    replaces: the name of the deleted object whose place a created one takes; text is then what differs between the two,
    and the deletion has none.
    """

    kind: str
    name: str
    change: str
    text: str = ""
    replaces: str = ""

    def as_data(self) -> dict[str, str]:
        return asdict(self)


def changes(connection: Connection, before: Sequence[Manifest], after: Sequence[Manifest]) -> list[Change]:
    """What makes `after` out of what the cluster has, in the order of the manifests; deletions last.

    before: of the release as it is; empty for a first install. What the cluster has is compared in the fields that
    either of the two says: the API server and operators add others. One call per object.
    """
    old = {_key(one): one for one in before}
    new = {_key(one): one for one in after}
    gone = {key: live for key, one in old.items() if key not in new and (live := read(connection, one)) is not None}
    followed = {}
    found = []
    for key, wanted in new.items():
        live = read(connection, wanted)
        if live is None:
            former = next((one for one in gone if one not in followed and _of_one_series(one, key)), None)
            if former is None:
                found.append(Change(*key, CREATED, _unified(key, None, _shortened(wanted))))
            else:
                followed[former] = key
                said = shape(gone[former], [wanted, old[former]])
                text = _unified(key, *(_content(one) for one in (said, wanted)))
                found.append(Change(*key, CREATED, text, replaces=former[1]))
            continue
        said = shape(live, [wanted, old[key]] if key in old else [wanted])
        if said != _plain(wanted):
            found.append(Change(*key, CHANGED, _unified(key, said, wanted)))
    for key in gone:
        text = "" if key in followed else _unified(key, _shortened(old[key]), None)
        found.append(Change(*key, DELETED, text))
    return found


def read(connection: Connection, manifest: Manifest) -> dict[str, Any] | None:
    """The cluster's object of the manifest's kind and name; None where it is not there."""
    kind, name = _key(manifest)
    with explained(f"reading {kind} {name}", "get", plural(kind)):
        try:
            found: dict[str, Any] = connection.request("GET", path(manifest, connection.namespace))
        except ApiException as error:
            if error.status == 404:
                return None
            raise
    return found


def path(manifest: Manifest, namespace: str) -> str:
    """Of the object in the API."""
    version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    start = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if not of_the_cluster(kind):
        start += f"/namespaces/{manifest['metadata'].get('namespace', namespace)}"
    return f"{start}/{plural(kind)}/{manifest['metadata']['name']}"


def of_the_cluster(kind: str) -> bool:
    """Whether its objects are in no namespace."""
    return kind in _OF_THE_CLUSTER


def plural(kind: str) -> str:
    return _PLURALS.get(kind, f"{kind.lower()}s")


def shape(live: Any, manifests: Sequence[Any]) -> Any:
    """What of the live object stands where one of the manifests says something.

    The items of a list are matched by their name where they have one, else by their place.
    """
    if isinstance(live, Mapping):
        parts = [one for one in manifests if isinstance(one, Mapping)]
        if not parts:
            return dict(live)
        keys = dict.fromkeys(key for one in parts for key in one if key in live)
        return {key: shape(live[key], [one[key] for one in parts if key in one]) for key in keys}
    if isinstance(live, list):
        lists = [one for one in manifests if isinstance(one, list)]
        if not lists:
            return live
        return [shape(item, _alike(item, place, lists)) for place, item in enumerate(live)]
    return live


def _alike(item: Any, place: int, lists: Sequence[Sequence[Any]]) -> list[Any]:
    if isinstance(item, Mapping) and "name" in item:
        return [one for each in lists for one in each if isinstance(one, Mapping) and one.get("name") == item["name"]]
    return [each[place] for each in lists if place < len(each)]


def _of_one_series(former: Key, later: Key) -> bool:
    """Whether the chart made both names from one and the hash of what is in them."""
    return (
        former[0] == later[0]
        and all(_HASHED.search(name) for _, name in (former, later))
        and (_HASHED.sub("", former[1]) == _HASHED.sub("", later[1]))
    )


def _content(manifest: Any) -> dict[str, Any]:
    """Without what names it."""
    return {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")}


def _shortened(manifest: Manifest) -> Manifest:
    """With the names of a ConfigMap's keys alone, where their values are whole files."""
    data = manifest.get("data")
    if manifest["kind"] != "ConfigMap" or not isinstance(data, Mapping):
        return manifest
    short = {
        key: f"({len(value.splitlines())} lines)" if str(value).count("\n") > 1 else value
        for key, value in data.items()
    }
    return {**manifest, "data": short}


def _key(manifest: Manifest) -> Key:
    return str(manifest["kind"]), str(manifest["metadata"]["name"])


def _plain(manifest: Any) -> Any:
    """As JSON has it, so that both sides compare."""
    if isinstance(manifest, Mapping):
        return {key: _plain(value) for key, value in manifest.items()}
    return [_plain(one) for one in manifest] if isinstance(manifest, list | tuple) else manifest


def _unified(key: Key, live: Any, wanted: Any) -> str:
    before, after = (
        [] if one is None else yaml.safe_dump(_plain(one), width=120).splitlines() for one in (live, wanted)
    )
    title = " ".join(key)
    return "\n".join(difflib.unified_diff(before, after, f"{title} (cluster)", f"{title} (new)", lineterm=""))
