"""The kubelet's plugin protocols in Python: DRA, plugin registration and CSI.

The stubs are made from the .proto files of the modules that Kubernetes itself is built with (`scripts/fetch-tools
kubelet-protos`), once per content and grpcio-tools version, below the user's cache.
"""

import hashlib
import importlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc

FETCH_TOOLS = Path(__file__).parents[2] / "scripts" / "fetch-tools"
NAMES = ("csi", "dra", "registration")
# The length of sun_path, with its closing zero, in unix(7).
LONGEST_SOCKET_PATH = 107


@dataclass(frozen=True)
class Protocol:
    """One .proto file: its messages, and its services' stubs and registration functions."""

    messages: Any
    services: Any


@cache
def protocol(name: str) -> Protocol:
    """The protocol `csi`, `dra` or `registration`."""
    folder = str(_generated(_proto_files()))
    if folder not in sys.path:
        sys.path.append(folder)
    return Protocol(_module(f"{name}_pb2"), _module(f"{name}_pb2_grpc"))


def socket_address(path: Path) -> str:
    """gRPC's address of a socket.

    Raises ValueError for a path that the kernel would cut.
    """
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise ValueError(
            f"The socket's path {path} has {len(os.fsencode(path))} bytes and Linux takes {LONGEST_SOCKET_PATH}; "
            "put the kubelet's folder somewhere shorter."
        )
    # With two slashes gRPC counts them, too.
    return f"unix:{path}"


def listen(server: grpc.Server, path: Path) -> None:
    """Makes the server listen on a socket; one that a killed process left behind is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    server.add_insecure_port(socket_address(path))


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


def _proto_files() -> Path:
    result = subprocess.run(
        [sys.executable, FETCH_TOOLS, "kubelet-protos"], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise RuntimeError(f"scripts/fetch-tools kubelet-protos failed: {result.stderr.strip()}")
    return Path(result.stdout.strip())


def _generated(protos: Path) -> Path:
    """The folder of the stubs of these .proto files, made if it is not there."""
    content = hashlib.sha256(version("grpcio-tools").encode())
    for name in NAMES:
        content.update((protos / f"{name}.proto").read_bytes())
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maxtext-multislice"
    home = cache_folder / "kubelet-stubs" / content.hexdigest()[:16]
    if home.exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".stubs-") as scratch:
        filled = Path(scratch) / "filled"
        filled.mkdir()
        _generate(protos, filled)
        try:
            filled.rename(home)
        except OSError:
            if not home.exists():  # else another process was faster, with the same content
                raise
    return home


def _generate(protos: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{protos}", f"--python_out={folder}"]
    command += [f"--grpc_python_out={folder}", *(f"{name}.proto" for name in NAMES)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"grpcio-tools cannot make the stubs: {result.stderr.strip()}")
