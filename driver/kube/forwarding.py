"""Ports of pods on this machine, through the API server: a listener that outlives its pod, and single requests."""

from __future__ import annotations

import contextlib
import errno
import http.client
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kubernetes.client import ApiException

from driver.errors import DriverError
from driver.kube import tunnel
from driver.kube.connection import explained, message_of
from driver.kube.tunnel import NotListeningError, Tunnel, TunnelError

if TYPE_CHECKING:
    from driver.kube.connection import Connection

LOOPBACK = "127.0.0.1"
_REQUEST_SECONDS = 5.0
_BODY_BYTES = 64 << 20
_PATIENCE_SECONDS = 60.0
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 3.0
_CONNECTIONS = 64
_NOT_FOUND = 404
_PASSING = (429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Target:
    """A port of a pod. uid: the pod's, which another pod of the same name does not have."""

    namespace: str
    pod: str
    uid: str
    port: int


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes


def http_get(
    connection: Connection,
    namespace: str,
    pod: str,
    port: int,
    path: str,
    headers: Mapping[str, str] | None = None,
    seconds: float = _REQUEST_SECONDS,
) -> Answer:
    """One GET from a pod. seconds: how long each part of the answer may take.

    Raises a TunnelError where there is no answer now (the pod is gone, or does not listen yet), and a DriverError where
    the caller may not ask.
    """
    target = Target(namespace, pod, "", port)
    websocket = _opened(connection, target)
    ours, theirs = socket.socketpair()
    carried = Tunnel(websocket, theirs)
    thread = threading.Thread(target=carried.run, name=f"GET {pod}:{port}", daemon=True)
    thread.start()
    request = http.client.HTTPConnection("localhost", port)
    request.sock = ours
    ours.settimeout(seconds)
    try:
        request.request("GET", path, headers={"Connection": "close", **(headers or {})})
        answer = request.getresponse()
        body = answer.read(_BODY_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        carried.cut()
        thread.join(seconds)
        if carried.not_listening:
            raise NotListeningError(_nothing_listens(target)) from error
        why = carried.trouble or str(error) or type(error).__name__
        raise TunnelError(f"{pod} does not answer on port {port}: {why}") from error
    finally:
        request.close()
        carried.cut()
    if len(body) > _BODY_BYTES:
        raise TunnelError(f"{pod} answers {path} with more than {_BODY_BYTES >> 20} MiB")
    return Answer(answer.status, body)


class Forward:
    """A local TCP port that leads to a pod, as a context; the port is free again at its end.

    target: says which pod it is now, or None while there is none; called from this object's threads. When it names
    another pod, connections to the old one are closed, so that clients connect again, and a client that comes while
    there is none waits up to a minute.
    port: 0 for a free one. tell: hears, once each, what the user should know.
    """

    def __init__(
        self,
        connection: Connection,
        target: Callable[[], Target | None],
        port: int = 0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._connection, self._target, self._tell = connection, target, tell
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._open: dict[Tunnel, Target] = {}
        self._threads: list[threading.Thread] = []
        self._serving: set[threading.Thread] = set()
        self._told = ""
        self._listener = _listener(port)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        for work in (self._accept, self._look):
            self._threads.append(threading.Thread(target=work, name=f"port {self.port}", daemon=True))
            self._threads[-1].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        # Only a shutdown wakes the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            tunnels, serving = list(self._open), list(self._serving)
        for each in tunnels:
            each.cut()
        for thread in [*self._threads, *serving]:
            thread.join(_LOOK_SECONDS)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._say("too many open files: a connection has to wait")
                    self._closing.wait(_RETRY_SECONDS)
                    continue
                return
            thread = threading.Thread(target=self._serve, args=(client,), name=f"port {self.port}", daemon=True)
            with self._lock:
                full = len(self._serving) >= _CONNECTIONS
                if not full:
                    self._serving.add(thread)
                    thread.start()
            if full:
                client.close()

    def _serve(self, client: socket.socket) -> None:
        try:
            found = self._connect()
            if found is None:
                return
            websocket, target = found
            carried = Tunnel(websocket, client)
            with self._lock:
                self._open[carried] = target
            if self._closing.is_set():
                carried.cut()
            carried.run()
            with self._lock:
                del self._open[carried]
            if carried.trouble:
                self._say(_nothing_listens(target) if carried.not_listening else f"{target.pod}: {carried.trouble}")
        finally:
            client.close()
            with self._lock:
                self._serving.discard(threading.current_thread())

    def _connect(self) -> tuple[object, Target] | None:
        """A WebSocket and where it leads; None when the patience is at an end."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._closing.is_set() and time.monotonic() < deadline:
            try:
                target = self._target()
                if target is None:
                    self._say("waiting for the pod, which is not there yet")
                else:
                    websocket = _opened(self._connection, target)
                    self._say(f"connected to {target.pod}")
                    return websocket, target
            except (TunnelError, DriverError) as error:
                self._say(str(error))
            self._closing.wait(_RETRY_SECONDS)
        return None

    def _look(self) -> None:
        """Closes what still leads to a pod that was replaced: a node that is lost closes nothing by itself."""
        while not self._closing.wait(_LOOK_SECONDS):
            with self._lock:
                led = dict(self._open)
            if not led:
                continue
            try:
                now = self._target()
            except DriverError as error:
                self._say(f"the pod cannot be looked up now: {error}")
                continue
            for carried, target in led.items():
                if now is not None and now.uid != target.uid:
                    carried.cut()

    def _say(self, text: str) -> None:
        with self._lock:
            if text == self._told:
                return
            self._told = text
        self._tell(text)


def _opened(connection: Connection, target: Target) -> object:
    """As tunnel.opened; what may pass is a TunnelError, a refusal a DriverError."""
    with explained(f"forwarding port {target.port} of {target.pod}", "get", "pods/portforward"):
        try:
            return tunnel.opened(connection, target.namespace, target.pod, target.port)
        except ApiException as error:
            if error.status == _NOT_FOUND:
                raise TunnelError(f"{target.pod} is gone") from None
            if error.status in _PASSING:
                raise TunnelError(f"{target.pod} is not reached: {error.status} {message_of(error)}") from None
            raise


def _nothing_listens(target: Target) -> str:
    return f"nothing listens on port {target.port} of {target.pod} yet"


def _listener(port: int) -> socket.socket:
    wire = socket.socket()
    # So that the port can be had again at once after an end.
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        wire.bind((LOOPBACK, port))
        wire.listen(_CONNECTIONS)
    except OSError as error:
        wire.close()
        raise DriverError(
            f"Port {port} of this machine cannot be used: {error.strerror}.",
            fix="another --port, or --port 0 for a free one",
        ) from error
    return wire
