"""A cluster's Kubernetes API on loopback, over TLS, as far as Helm and the driver need one.

It has no controllers and no kubelets: what KubeRay, the scheduler or a container does, a test does by hand. That the
real ones do the same is tested in tests/cluster.
"""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import trustme
import yaml
from kubernetes.config import new_client_from_config_dict

from driver.kube.connection import Connection
from tests.kube.server import discovery, resources
from tests.kube.server.calls import Call, Object, Reply, StatusError, Stream, Upgrade
from tests.kube.server.faults import Faults
from tests.kube.server.kinds import KINDS, Address, address
from tests.kube.server.lists import Lists
from tests.kube.server.logs import Logs
from tests.kube.server.objects import NAMESPACE, Objects
from tests.kube.server.watches import PATIENCE_SECONDS, Watches
from tests.kube.server.wire import Listener

_VERBS = {"POST": "create", "PUT": "update"}


class Api(Objects):
    """One cluster: its objects, its logs, who watches it, and what it refuses.

    ports: where a pod's ports are: (pod, port) to a port of loopback. token: the only one that it knows. without:
    plurals of kinds that the cluster lacks. schemas: of the OpenAPI document of ray.io. calls: all that were made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.logs = Logs(self)
        self.watches = Watches(self)
        self.faults = Faults()
        self.ports: dict[tuple[str, int], int] = {}
        self.token = "a-token"
        self.without: set[str] = set()
        self.schemas: dict[str, Any] = {}
        self.calls: list[Call] = []
        self._lists = Lists(self)
        authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
        self._authority = base64.b64encode(authority.cert_pem.bytes()).decode()
        self._listener = Listener(self._answer, tls)
        for name in ("default", "kube-system", NAMESPACE):
            self.add("namespaces", name)

    @property
    def defects(self) -> list[BaseException]:
        """What broke in the server itself."""
        return self._listener.defects

    def start(self) -> None:
        """On the port of before, if there was one."""
        self._listener.start()

    def stop(self) -> None:
        """With all of its connections, as when a control plane is upgraded."""
        self._listener.stop()
        self.watches.end()
        self.logs.stop()

    def cut_streams(self) -> None:
        """Every open log, watch and forwarded connection breaks, as when a proxy before the API server dies."""
        self._listener.cut_streams()

    def kubeconfig(self, **context: str) -> Object:
        """A kubeconfig with one context, `here`, and what more it says (namespace="team")."""
        cluster = {"server": self._listener.url, "certificate-authority-data": self._authority}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": self.token}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}],
        }

    def connection(self, namespace: str = NAMESPACE) -> Connection:
        return Connection(new_client_from_config_dict(self.kubeconfig()), namespace, "here")

    def await_call(self, method: str, part: str) -> None:
        """Until such a call has come."""
        with self.changed:
            came = self.changed.wait_for(
                lambda: any(one.method == method and part in one.target for one in self.calls), PATIENCE_SECONDS
            )
            assert came, f"no {method} with {part} among {[one.target for one in self.calls]}"

    def _answer(self, call: Call) -> Reply | Stream | Upgrade:
        with self.changed:
            self.calls.append(call)
            self.changed.notify_all()
        try:
            if call.headers.get("authorization") != f"Bearer {self.token}":
                raise StatusError(401, "Unauthorized")
            self.faults.check_call(call)
            return self._found(call)
        except StatusError as error:
            return Reply(error.body, error.code)

    def _found(self, call: Call) -> Reply | Stream | Upgrade:
        kinds = {plural: kind for plural, kind in KINDS.items() if plural not in self.without}
        described = discovery.find(call.path, kinds, self.schemas)
        if described:
            return Reply(described)
        at = address(call.path, kinds)
        if at is None:
            raise StatusError(404, "the server could not find the requested resource")
        verb = _verb(call, at)
        self.faults.check_right(verb, at)
        match verb, at.subresource or at.plural:
            case "get", "log":
                return Stream(self.logs.read(at.name, call.query))
            case "get", "portforward":
                self.get("pods", at.name, at.namespace)
                port = int(call.query["ports"])
                return Upgrade(port, self.ports.get((at.name, port)))
            case "create", "selfsubjectaccessreviews":
                return self._reviewed(call)
            case "list", _:
                return Reply(self._lists.page(at, call.query, call.accept))
            case "watch", _:
                return Stream(self.watches.begin(at, call.query, call.accept))
        return resources.answer(verb, call, at, self)

    def _reviewed(self, call: Call) -> Reply:
        """Whether the caller may do it."""
        asked = call.body["spec"]["resourceAttributes"]
        allowed = (asked["verb"], asked["resource"]) not in self.faults.denied
        return Reply(call.body | {"status": {"allowed": allowed}}, 201)


def write_kubeconfig(content: Object, path: Path) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def _verb(call: Call, at: Address) -> str:
    """As RBAC names it."""
    if call.method == "GET" and not at.name:
        return "watch" if call.query.get("watch") in ("true", "True", "1") else "list"
    return _VERBS.get(call.method, call.method.lower())
