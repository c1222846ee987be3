"""Machines of a test cluster: each is a set of Linux namespaces (network, mounts, processes) that one process holds.

Everything that runs on a machine is in its process namespace, so ending the holder ends all of it at once, as a
Spot VM goes: containers, kubelet, mounts and network devices with it. Nothing needs to be taken down by hand.
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# Process 1 of a machine reaps its orphans by ignoring SIGCHLD, which an exec keeps. The mounts are shared with what
# runs on the machine (containers see volumes that are mounted later) and not with the machine below. /run is the
# machine's own, so that sockets, locks and the mounted network namespaces of pods go when it goes.
_HOLD = """
trap "" CHLD
mount --make-rshared / && mount -t tmpfs run /run && mount --make-shared /run && exec sleep infinity
"""


class MachineError(Exception):
    """A machine could not be made, or a command on it failed; the message has its output."""


@dataclass(frozen=True)
class Machine:
    """pid: of the holder, as seen from below. started: its start time in clock ticks, because ids come again."""

    name: str
    pid: int
    started: int

    @classmethod
    def start(cls, name: str) -> "Machine":
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        outer = subprocess.Popen(
            [*command, "--propagation=private", "sh", "-c", _HOLD],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert outer.stderr is not None
        while outer.poll() is None:
            children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
            if children and _command(int(children[0])) == "sleep":
                machine = cls(name, int(children[0]), start_time(int(children[0])))
                machine.run("ip", "link", "set", "lo", "up")
                return machine
            time.sleep(0.01)
        raise MachineError(f"machine {name} does not start: {outer.stderr.read().decode().strip()}")

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started

    def end(self) -> None:
        """Ends all that runs on the machine, at once; nothing of it is left when this returns. Safe to call twice."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
        while self.alive:
            time.sleep(0.01)

    def command(self, *command: str) -> list[str]:
        """The command line that runs a command on the machine."""
        return ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--", *command]

    def run(self, *command: str, stdin: str = "") -> str:
        """Runs a command on the machine to its end; returns its standard output."""
        result = subprocess.run(self.command(*command), input=stdin, capture_output=True, text=True, check=False)
        if result.returncode:
            raise MachineError(f"on {self.name}: {' '.join(command)}: {(result.stderr or result.stdout).strip()}")
        return result.stdout

    def spawn(
        self, log: Path, command: Sequence[str], environment: dict[str, str] | None = None, cwd: Path | None = None
    ) -> "Process":
        """Starts a program on the machine that stays; it outlives this process and ends with the machine."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return Process(log, _spawn(self.command(*command), output, environment, cwd))


@dataclass(frozen=True)
class Process:
    """A program that was started on a machine. log: what it says."""

    log: Path
    popen: subprocess.Popen[bytes]

    def check(self) -> None:
        """Raises a MachineError with its last words when it has ended."""
        if self.popen.poll() is not None:
            lines = self.log.read_text(errors="replace").splitlines()[-15:]
            raise MachineError("\n".join([f"{self.log.stem} has ended ({self.popen.returncode}):", *lines]))


def start_time(pid: int) -> int:
    """Start time of a process in clock ticks, 0 when there is none or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, IndexError):
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _spawn(
    command: Sequence[str], output: IO[bytes], environment: dict[str, str] | None, cwd: Path | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        cwd=cwd,
        start_new_session=True,
    )
