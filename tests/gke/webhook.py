"""Plays GKE's TPU webhook: an admission webhook over HTTPS for pods (/mutate) and RayClusters (/validate).

    python -m tests.gke.webhook --kubeconfig FILE --listen ADDRESS:PORT --certificate FILE --key FILE

Prints `serving` when it answers, and a line for each pod that it places. Ends clean on SIGTERM.
"""

import argparse
import base64
import json
import signal
import ssl
import sys
import threading
import urllib.parse
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from tests.gke import mutation
from tests.gke.api import Api
from tests.gke.slots import Group, Slot, Slots
from tests.gke.tpu import TOPOLOGY, TopologyError, hosts_of, tpu_containers

# A connection of the API server that sends nothing for so long is closed.
IDLE_SECONDS = 120


class RefusedError(Exception):
    """The message is what whoever makes the object reads."""


class Webhook:
    """The decisions, without HTTP."""

    def __init__(self, api: Api, slots: Slots | None = None) -> None:
        self._api = api
        self._slots = slots or Slots()

    def mutate(self, request: Mapping[str, Any]) -> list[mutation.Operation]:
        """The patch for a pod. Raises RefusedError."""
        _require_kind(request, "Pod")
        pod = request["object"]
        if not pod["spec"].get("containers"):
            raise RefusedError("Container path not specified")
        if request["operation"] != "CREATE" or not any(tpu_containers(pod)):
            return []
        labels = pod["metadata"].get("labels", {})
        for label, name in ((mutation.CLUSTER_LABEL, "RayCluster"), (mutation.GROUP_LABEL, "Group")):
            if not labels.get(label):
                raise RefusedError(f"Ray Pod created by KubeRay missing {name} label")
        if not pod["spec"].get("nodeSelector", {}).get(TOPOLOGY):
            raise RefusedError("Ray Pod created by KubeRay missing TPU topology nodeSelector")
        group = Group(request["namespace"], labels[mutation.CLUSTER_LABEL], labels[mutation.GROUP_LABEL])
        try:
            slot = mutation.indexed_slot(labels)
            if slot is None:
                # A pod that is refused must not have taken a slot.
                mutation.patch(pod, Slot(0, 0))
                keep = not request.get("dryRun", False)
                slot = self._slots.take(group, hosts_of(pod), lambda: self._pods(group), keep)
            operations = mutation.patch(pod, slot)
        except TopologyError as error:
            raise RefusedError(f"Ray Pod created by KubeRay: {error}") from error
        except (ApiException, HTTPError) as error:
            raise RefusedError(f"the pods of {'/'.join(group)} cannot be listed: {error}") from error
        print(f"{'/'.join(group)}: slice {slot.replica} host {slot.host}", flush=True)
        return operations

    def validate(self, request: Mapping[str, Any]) -> None:
        """Raises RefusedError where a worker group's hosts are not those of its topology."""
        _require_kind(request, "RayCluster")
        for group in request["object"]["spec"].get("workerGroupSpecs", []):
            template = group["template"]
            if not template["spec"].get("containers"):
                raise RefusedError("Container path not specified")
            if not any(tpu_containers(template)):
                continue
            if not group.get("numOfHosts"):
                raise RefusedError("workerGroupSpec NumOfHosts not set")
            try:
                hosts = hosts_of(template)
            except TopologyError as error:
                raise RefusedError(str(error)) from error
            if hosts != group["numOfHosts"]:
                raise RefusedError("Number of workers in worker group not equal to specified topology")

    def _pods(self, group: Group) -> Iterable[Mapping[str, Any]]:
        selector = f"{mutation.CLUSTER_LABEL}={group.cluster},{mutation.GROUP_LABEL}={group.name}"
        pods: list[Mapping[str, Any]] = self._api.get(
            f"/api/v1/namespaces/{urllib.parse.quote(group.namespace)}/pods", labelSelector=selector
        )["items"]
        return pods


def review(webhook: Webhook, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The AdmissionReview that answers a request. A refusal is one that the maker of the object can read."""
    response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
    operations: list[mutation.Operation] = []
    try:
        if path == "/mutate":
            operations = webhook.mutate(request)
        else:
            webhook.validate(request)
    except RefusedError as refused:
        print(f"refused {request['kind']['kind']} of {request.get('namespace', '')}: {refused}", flush=True)
        response |= {"allowed": False, "status": {"code": 403, "message": str(refused)}}
    if operations:
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def server(webhook: Webhook, address: tuple[str, int], certificate: Path, key: Path) -> ThreadingHTTPServer:
    """An HTTPS server, not yet serving, on an address (port 0: a free one)."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = IDLE_SECONDS
        # Headers and body leave together: apart, the second would wait 40 ms for the first one's acknowledgement.
        wbufsize = -1

        def do_GET(self) -> None:
            self._answer(200, b"kuberay-tpu-webhook", "text/plain")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = urllib.parse.urlsplit(self.path).path
            if path not in ("/mutate", "/validate"):
                self._answer(404, b"There are /mutate and /validate.", "text/plain")
                return
            try:
                request = json.loads(body)["request"]
                answer = review(webhook, path, request)
            except (ValueError, KeyError, TypeError) as error:
                self._answer(400, f"Error decoding request body: {error!r}".encode(), "text/plain")
                return
            self._answer(200, json.dumps(answer).encode(), "application/json")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """The lines of the decisions are log enough."""

    result = _Server(address, Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    # The handshake is done by a connection's own thread: one that says nothing must not keep the others waiting.
    result.socket = context.wrap_socket(result.socket, server_side=True, do_handshake_on_connect=False)
    return result


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # The API server connects for many pods at once.
    request_queue_size = 128


def _require_kind(request: Mapping[str, Any], kind: str) -> None:
    if request["kind"]["kind"] != kind:
        raise RefusedError(f"Expected {kind} but got {request['kind']['kind']}")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is not ADDRESS:PORT")
    return host.strip("[]"), int(port)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.gke.webhook", description="Plays GKE's TPU webhook.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--listen", type=_address, required=True, metavar="ADDRESS:PORT")
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    options = parser.parse_args(arguments)
    https = server(Webhook(Api(options.kubeconfig)), options.listen, options.certificate, options.key)
    # shutdown() waits for the loop that this signal interrupts.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=https.shutdown).start())
    print("serving", flush=True)
    https.serve_forever(poll_interval=0.1)
    https.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
