"""Starts the programs as the cluster's scripts do, and waits for what they print."""

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
WAIT_SECONDS = 30.0


class Program:
    """A running program and its lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.seen: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, text: str) -> str:
        """The next line that begins with the text."""
        while True:
            try:
                line = self._lines.get(timeout=WAIT_SECONDS)
            except queue.Empty:
                raise AssertionError(f"no line begins with {text!r}: {self.seen}") from None
            self.seen.append(line)
            if line.startswith(text):
                return line

    def terminate(self) -> int:
        """Ends it with SIGTERM; its exit code."""
        self.process.terminate()
        return self.process.wait(WAIT_SECONDS)

    def run_inside(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command in the program's mount namespace."""
        enter = ["nsenter", "--mount", f"--target={self.process.pid}"]
        return subprocess.run([*enter, *command], capture_output=True, text=True, check=False)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())


@contextmanager
def program(module: str, *arguments: str, own_mounts: bool = False) -> Iterator[Program]:
    """Runs a module until the end of the block.

    own_mounts: in a mount namespace of its own, which ends with it.
    """
    command = [sys.executable, "-m", module, *arguments]
    if own_mounts:
        command = ["unshare", "--mount", "--propagation=private", *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY)
    try:
        yield Program(process)
    finally:
        process.kill()
        process.wait()
