"""How a plugin makes itself known to the kubelet: a registration socket beside the plugin's own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from tests.gke.protocols import listen, protocol

# The kubelet prepares pods side by side.
THREADS = 8
# How long calls may take that run when the program is told to end.
GRACE_SECONDS = 5.0


class KubeletPlugin:
    """Two sockets below the kubelet's folder: the plugin's services and its registration.

    kind: `DRAPlugin` or `CSIPlugin`, as the kubelet names it.
    short: what the sockets are called by, as a socket's path may not be long; the kubelet takes any name.
    versions: of the services, as that kind of plugin names them.
    registered: called each time that the kubelet takes the plugin in: also after a restart of the kubelet.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        short: str,
        versions: Sequence[str],
        kubelet: Path,
        registered: Callable[[], None] | None = None,
    ) -> None:
        self.folder = kubelet / "plugins" / short
        self._kind, self._name, self._versions = kind, name, list(versions)
        self._registered = registered
        self._sockets = [self.folder / f"{kind[:3].lower()}.sock", kubelet / "plugins_registry" / f"{short}-reg.sock"]
        self._server, self._registration = (grpc.server(ThreadPoolExecutor(THREADS)) for _ in self._sockets)
        registration = protocol("registration").services
        registration.add_RegistrationServicer_to_server(self, self._registration)

    def serve(self, name: str, implementation: Any, *services: str) -> None:
        """Serves a protocol's services with the methods that the implementation has; the others are unimplemented.

        The registration comes last: the kubelet calls the plugin as soon as it sees that socket.
        """
        for service in services:
            base = getattr(protocol(name).services, f"{service}Servicer")
            names = [method for method in vars(base) if method[0] != "_" and hasattr(implementation, method)]
            servicer = type(service, (base,), {method: getattr(implementation, method) for method in names})()
            getattr(protocol(name).services, f"add_{service}Servicer_to_server")(servicer, self._server)
        for server, socket in zip((self._server, self._registration), self._sockets, strict=True):
            listen(server, socket)
            server.start()

    def stop(self) -> None:
        """Ends the registration first, so that the kubelet no longer counts on the plugin."""
        for server, socket in reversed(list(zip((self._server, self._registration), self._sockets, strict=True))):
            socket.unlink(missing_ok=True)
            server.stop(GRACE_SECONDS).wait()

    def GetInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802, the protocol's name
        messages = protocol("registration").messages
        return messages.PluginInfo(
            type=self._kind, name=self._name, endpoint=str(self._sockets[0]), supported_versions=self._versions
        )

    def NotifyRegistrationStatus(self, request: Any, _context: Any) -> Any:  # noqa: N802, the protocol's name
        if request.plugin_registered:
            print(f"registered {self._name}", flush=True)
            if self._registered is not None:
                self._registered()
        else:
            print(f"not registered {self._name}: {request.error}", flush=True)
        return protocol("registration").messages.RegistrationStatusResponse()
