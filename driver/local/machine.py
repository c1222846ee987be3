"""What this machine allows: Linux namespaces, free ports, free memory, and processes that never outlive the driver.

Everything is started with DIES_WITH_PARENT, so that the kernel ends it when the driver ends, however it ends. The
kernel's signal follows the thread that started the process: start processes from the main thread only.
"""

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from driver.errors import DriverError

DIES_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]

# $1: a boot id, $2: the host's /tmp/ray, then the command that becomes the host's first process.
ENTER_HOST = """
mount --bind "$1" /proc/sys/kernel/random/boot_id &&
mount --bind "$2" /tmp/ray &&
mount -t tmpfs -o mode=1777 tmpfs /dev/shm &&
shift 2 && exec "$@"
"""
AS_ROOT = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
AS_USER = ["unshare", "--user", "--map-root-user", *AS_ROOT[1:]]

# What the user's shell may hold and a pod would not. With PYTHONDONTWRITEBYTECODE each of Ray's many processes would
# compile all that it imports: 12 s of work instead of 4 for MaxText alone.
_FOREIGN = ("RAY_", "TPU_", "JAX_", "XLA_", "LIBTPU_", "MEGASCALE_", "PYTHON", "VIRTUAL_ENV")


def namespace_command() -> list[str]:
    """The `unshare` command that this user may run: root's own, or the one with a user namespace.

    Raises a DriverError where neither is allowed, as in most containers.
    """
    missing = [name for name in ("unshare", "setpriv", "nsenter", "mount") if shutil.which(name) is None]
    if missing:
        raise DriverError(
            f"Emulated slices need {', '.join(missing)}, which this machine lacks.",
            fix="run on Linux with util-linux 2.33 or newer",
        )
    ray_folder = Path("/tmp/ray")  # Ray's fixed folder; each host mounts its own over it
    ray_folder.mkdir(exist_ok=True)
    said = ""
    for command in [AS_ROOT, AS_USER] if os.geteuid() == 0 else [AS_USER]:
        probe = [*command, "sh", "-c", ENTER_HOST, "sh", "/proc/version", str(ray_folder), "true"]
        result = subprocess.run(probe, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return command
        said = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise DriverError(
        f"This user may not create Linux namespaces with mounts of their own ({said}).",
        rule="Each emulated host has its own process table, /tmp/ray and boot id.",
        fix="run as root, or allow user namespaces (sysctl user.max_user_namespaces above 0, and "
        "kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu); in a container add --privileged",
    )


def environment(python: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for everything that runs the trainer's Python: the user's, without what belongs to another Ray
    or JAX, with that Python's programs first on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    path = f"{python.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    local = {"NO_PROXY": "127.0.0.0/8,localhost", "no_proxy": "127.0.0.0/8,localhost"}
    return {**kept, **local, "PATH": path, **(extra or {})}


def free_ports(count: int) -> list[int]:
    """Loopback ports that nothing listens on: below the range that the kernel hands out by itself, so that no outgoing
    connection takes one before Ray does."""
    found: list[int] = []
    for port in random.sample(range(20000, 32000), 12000):
        if len(found) == count:
            return found
        if port_is_free(port):
            found.append(port)
    raise DriverError(f"Between ports 20000 and 32000 there are no {count} free ones on this machine.")


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def available_memory_gib() -> float:
    """Memory that new processes may use without swapping, GiB."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 2**20
    raise DriverError("This kernel does not say how much memory is available (/proc/meminfo).")
