"""Ray's dashboard on the head: where it is, and the nodes that it lists, with labels and resources."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driver.errors import DriverError
from driver.kube import objects, parsing
from driver.kube.connection import explained
from driver.kube.forwarding import Target, http_get
from driver.kube.lists import Listing, Object, collect
from driver.kube.tunnel import NotListeningError, TunnelError

if TYPE_CHECKING:
    from driver.kube.connection import Connection

TOKEN_VARIABLE = "RAY_AUTH_TOKEN"
_PORT = 8265
_NODES = 10000  # as many as Ray's dashboard lists at most; without a number it lists 100
_LIST_SECONDS = 30.0
_REFUSED = (401, 403)


@dataclass(frozen=True)
class Node:
    """A node as Ray has it. resources: in all. message: why a dead one died."""

    id: str
    ip: str
    alive: bool
    head: bool
    message: str
    labels: Mapping[str, str]
    resources: Mapping[str, float]

    @property
    def slice_name(self) -> str:
        """GROUP-NUMBER, empty on a node without chips."""
        return self.labels.get("ray.io/tpu-slice-name", "")

    @property
    def slice(self) -> int | None:
        return parsing.slice_in(self.slice_name)

    @property
    def worker_id(self) -> int | None:
        """The host's number in its slice, None on a node without chips."""
        number = self.labels.get("ray.io/tpu-worker-id", "")
        return int(number) if number.isdecimal() else None

    @property
    def topology(self) -> str:
        return self.labels.get("ray.io/tpu-topology", "")


def head(connection: Connection, release: str) -> Target | None:
    """The dashboard's port of the release's newest running head; None while there is none."""
    heads = collect(connection, Listing("pods", f"{objects.INSTANCE}={release},{objects.ROLE}=head"), _running)
    return max(heads, key=lambda each: each[0], default=("", None))[1]


def nodes(connection: Connection, release: str, token_secret: str = "") -> list[Node]:
    """The nodes that Ray knows, dead ones too (it forgets the oldest of more than a thousand); none in the moment in
    which Ray itself knows none yet.

    token_secret: as RayCluster.token_secret. Raises a DriverError where the dashboard does not answer, is not up yet,
    or refuses the caller.
    """
    path = f"/api/v0/nodes?detail=1&limit={_NODES}"
    try:
        target = head(connection, release)
        if target is None:
            raise NotListeningError("no Ray head is running")
        answer = _get(connection, target, path, token(connection, token_secret))
    except NotListeningError as error:
        raise DriverError(
            f"Ray's dashboard is not up yet: {error}.",
            rule="It runs on the Ray head, and begins some seconds after it.",
            fix=f"look again in a moment; driver status {release} shows what the head waits for",
        ) from None
    except TunnelError as error:
        raise DriverError(
            f"Ray's nodes cannot be read: {error}.",
            rule="They come from the dashboard on the Ray head, which must run.",
            fix=f"driver status {release} shows how the head is",
        ) from None
    # While the cluster starts, the data may be null.
    result = ((answer.get("data") or {}).get("result") or {}) if isinstance(answer, dict) else {}
    return [_node(each) for each in result.get("result") or []]


def token(connection: Connection, secret: str) -> str:
    """The token in RayCluster.token_secret, empty where there is none: $RAY_AUTH_TOKEN, or what the secret has.

    Raises a DriverError where the secret may not be read: the chart's operators may not, because whoever has the token
    may run code in the cluster.
    """
    if not secret:
        return ""
    if given := os.environ.get(TOKEN_VARIABLE, ""):
        return _one_word(given, TOKEN_VARIABLE)
    path = f"/api/v1/namespaces/{connection.namespace}/secrets/{secret}"
    with explained(f"reading Ray's token ({TOKEN_VARIABLE} is not set)", "get", f"secrets/{secret}"):
        data = connection.request("GET", path).get("data") or {}
    if "auth_token" not in data:
        raise DriverError(
            f"The secret {secret} has no key auth_token.",
            rule="The pods of a cluster with auth.mode=token get Ray's token from there.",
            fix=f"set {TOKEN_VARIABLE} to the token",
        )
    return _one_word(base64.b64decode(data["auth_token"]).decode(errors="replace"), f"the secret {secret}")


def _one_word(token: str, where: str) -> str:
    """The token without what an editor puts behind it. An error does not quote it."""
    word = token.strip()
    if not word.isascii() or not word.isprintable() or " " in word:
        raise DriverError(
            f"Ray's token in {where} has characters that an HTTP header may not have.",
            rule="It is one word of ASCII letters, digits and signs.",
            fix=f"set {TOKEN_VARIABLE} to the token",
        )
    return word


def _running(pod: Object) -> tuple[str, Target] | None:
    metadata = pod["metadata"]
    if pod["status"].get("phase") != "Running" or metadata.get("deletionTimestamp"):
        return None
    port = parsing.port(pod["spec"], "dashboard", _PORT)
    return metadata["creationTimestamp"], Target(metadata["namespace"], metadata["name"], metadata["uid"], port)


def _get(connection: Connection, target: Target, path: str, token: str) -> Any:
    """The answer as JSON. Raises a TunnelError where there is none, a DriverError where the caller is refused."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = http_get(
        connection, target.namespace, target.pod, target.port, path, headers=headers, seconds=_LIST_SECONDS
    )
    if answer.status in _REFUSED:
        raise DriverError(
            f"Ray's dashboard on {target.pod} refuses {'the' if token else 'who has no'} token (HTTP {answer.status}).",
            rule="With auth.mode=token it answers only to who has the cluster's token.",
            fix=f"the right to read the token's secret (NOTES.txt names it), or the token in {TOKEN_VARIABLE}",
        )
    if answer.status != 200:
        raise TunnelError(f"Ray's dashboard answers HTTP {answer.status}")
    try:
        return json.loads(answer.body)
    except ValueError:
        raise TunnelError("Ray's dashboard answers with what is no JSON") from None


def _node(node: Mapping[str, Any]) -> Node:
    return Node(
        id=node["node_id"],
        ip=node.get("node_ip") or "",
        alive=node.get("state") == "ALIVE",
        head=bool(node.get("is_head_node")),
        message=node.get("state_message") or "",
        labels=node.get("labels") or {},
        resources=node.get("resources_total") or {},
    )
