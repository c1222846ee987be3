"""The Kubernetes APIs of the clusters that were made, as far as the driver needs one: namespaces, secrets, Ray's.

One HTTPS server per cluster, on a port of its own, all with certificates of one authority. They take Google's bearer
tokens only, and are gone when their cluster is. Or a real API server in place of them all: `Kubernetes.hand_out`.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import trustme

from tests.gcp import kubernetes_discovery, kubernetes_protobuf
from tests.gcp.errors import GoogleError
from tests.gcp.operations import now
from tests.gcp.routing import MUTATING, Call, Reply
from tests.gcp.wire import Listener

if TYPE_CHECKING:
    from tests.gcp.google import Google

# Plural to (API, kind, namespaced).
KINDS = {
    "namespaces": ("/api/v1", "Namespace", False),
    "secrets": ("/api/v1", "Secret", True),
    "rayclusters": ("/apis/ray.io/v1", "RayCluster", True),
    "rayjobs": ("/apis/ray.io/v1", "RayJob", True),
}
_PATH = re.compile(
    r"(?P<api>/api/v1|/apis/ray\.io/v1)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?"
)


class StatusError(GoogleError):
    """A refusal as Kubernetes writes it."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__("UNAVAILABLE", message, code=code)
        self.kubernetes_reason = reason

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": self.message,
            "reason": self.kubernetes_reason, "code": self.code,
        }  # fmt: skip


class Kubernetes:
    """The servers of all clusters. Objects are in Google.resources as <cluster>/<plural>/<namespace>/<name>."""

    def __init__(self, google: Google) -> None:
        self.google = google
        authority = trustme.CA()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self._tls)
        self.ca_base64 = base64.b64encode(authority.cert_pem.bytes()).decode()
        self._servers: dict[str, Listener] = {}
        self._real = ""
        self.defects: list[BaseException] = []

    def hand_out(self, address: str, ca_base64: str) -> None:
        """Clusters that are made from now on have this API server of somebody else's, which goes on without them: for
        tests whose pods must run. Its callers come with the token that Google gives them (Tokens.granted).

        address: host and port, as GKE's `endpoint` has it. ca_base64: the authority of its certificate.
        """
        self._real, self.ca_base64 = address, ca_base64

    def open(self, cluster: str) -> str:
        """Starts the cluster's server. Returns its address, as GKE's `endpoint` has it."""
        if self._real:
            return self._real
        server = Listener(lambda call: self._answer(cluster, call), self._tls)
        server.start()
        self._servers[cluster] = server
        for name in ("default", "kube-system"):
            self.add(cluster, "namespaces", "", name)
        return server.address

    def close(self, cluster: str) -> None:
        server = self._servers.pop(cluster, None)
        if server:
            server.stop()
            self.defects += server.defects

    def stop(self) -> None:
        for cluster in list(self._servers):
            self.close(cluster)

    def add(self, cluster: str, plural: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
        """An object that somebody made."""
        api, kind, _ = KINDS[plural]
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | fields.pop("metadata", {})
        made = {"apiVersion": api.removeprefix("/apis/").removeprefix("/api/"), "kind": kind}
        made |= {"metadata": metadata | {"creationTimestamp": now()}} | fields
        self.google.resources[_key(cluster, plural, namespace, name)] = made
        return made

    def _answer(self, cluster: str, call: Call) -> tuple[Reply, bool]:
        call.google = self.google
        return self.google.with_faults(call, call.method in MUTATING, lambda: self._apply(cluster, call))

    def _apply(self, cluster: str, call: Call) -> Reply:
        try:
            call.account = self.google.tokens.caller(call)
        except GoogleError:
            raise StatusError(401, "Unauthorized", "Unauthorized") from None
        if cluster not in self.google.resources:
            raise StatusError(503, "ServiceUnavailable", "the cluster is gone")
        kinds = {plural: one for plural, one in KINDS.items() if self._has(cluster, one[0])}
        described = kubernetes_discovery.find(call.path, kinds)
        if described:
            return Reply(described)
        match = _PATH.fullmatch(call.path)
        found = kinds.get(match["plural"]) if match else None
        if not match or not found or found[0] != match["api"]:
            raise StatusError(404, "NotFound", "the server could not find the requested resource")
        name, namespace, plural = match["name"], match["namespace"] or "", match["plural"]
        match call.method, name:
            case "GET", None if call.query.get("watch") == "true":
                return Reply(self._watch(cluster, plural, namespace, call.query))
            case "GET", None:
                return Reply(self._list(cluster, plural, namespace, call.query.get("labelSelector", "")))
            case "POST", None:
                # Kubernetes takes a body without a content type for JSON, and its Python client gives none.
                body = call.body or json.loads(call.raw)
                return Reply(self._create(cluster, plural, namespace, body), HTTPStatus.CREATED)
            case "GET", _:
                return Reply(self.google.resources[self._find(cluster, plural, namespace, name)])
            case "PUT", _:
                key = self._find(cluster, plural, namespace, name)
                there = self.google.resources[key]
                self.google.resources[key] = there | (kubernetes_protobuf.secret(call.raw) or call.body)
                return Reply(self.google.resources[key])
            case "PATCH", _:
                there = self.google.resources[self._find(cluster, plural, namespace, name)]
                for field, value in call.body.get("metadata", {}).items():
                    merged = there["metadata"].get(field, {}) | value if isinstance(value, dict) else value
                    there["metadata"][field] = merged
                return Reply(there)
            case "DELETE", _:
                return Reply(self._delete(cluster, plural, namespace, name))
        raise StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _has(self, cluster: str, api: str) -> bool:
        """Ray's API is there with the add-on."""
        addons = self.google.resources[cluster].get("addonsConfig", {})
        return api == "/api/v1" or bool(addons.get("rayOperatorConfig", {}).get("enabled"))

    def _list(self, cluster: str, plural: str, namespace: str, selector: str) -> dict[str, Any]:
        start = f"{cluster}/{plural}/" + (f"{namespace}/" if namespace else "")
        wanted = [term.partition("=")[::2] for term in selector.replace("==", "=").split(",") if term]
        items = [
            one
            for name, one in self.google.resources.items()
            if name.startswith(start)
            and all(one["metadata"].get("labels", {}).get(key) == value for key, value in wanted)
        ]
        api, kind, _ = KINDS[plural]
        return {
            "apiVersion": api.removeprefix("/apis/").removeprefix("/api/"),
            "kind": f"{kind}List",
            "metadata": {"resourceVersion": "1"},
            "items": items,
        }

    def _watch(self, cluster: str, plural: str, namespace: str, query: dict[str, str]) -> bytes:
        """What is there, where that is asked for, and then the end of the watch, which may come at any time."""
        if query.get("sendInitialEvents") != "true":
            return b""
        listed = self._list(cluster, plural, namespace, query.get("labelSelector", ""))
        events = [{"type": "ADDED", "object": one} for one in listed["items"]]
        end = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
        kind = {"apiVersion": listed["apiVersion"], "kind": KINDS[plural][1]}
        events.append({"type": "BOOKMARK", "object": kind | {"metadata": end}})
        return b"".join(json.dumps(event).encode() + b"\n" for event in events)

    def _create(self, cluster: str, plural: str, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if _key(cluster, plural, namespace, name) in self.google.resources:
            raise StatusError(409, "AlreadyExists", f'{plural} "{name}" already exists')
        if namespace:
            self._find(cluster, "namespaces", "", namespace)
        fields = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
        return self.add(cluster, plural, namespace, name, **fields)

    def _delete(self, cluster: str, plural: str, namespace: str, name: str) -> dict[str, Any]:
        key = self._find(cluster, plural, namespace, name)
        gone = self.google.resources.pop(key)
        if plural == "namespaces":
            inside = [
                one for one in self.google.resources if re.match(rf"{re.escape(cluster)}/\w+/{re.escape(name)}/", one)
            ]
            for one in inside:
                del self.google.resources[one]
        return gone

    def _find(self, cluster: str, plural: str, namespace: str, name: str) -> str:
        key = _key(cluster, plural, namespace, name)
        if key not in self.google.resources:
            raise StatusError(404, "NotFound", f'{plural} "{name}" not found')
        return key


def _key(cluster: str, plural: str, namespace: str, name: str) -> str:
    return f"{cluster}/{plural}/" + (f"{namespace}/{name}" if namespace else name)
