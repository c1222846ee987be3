"""The driver's commands against Google Cloud on loopback, in processes of their own that can be killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

import yaml

from driver import cli
from driver.gcp import retrying, waiting
from tests.gcp.google import Google
from tests.gcp.sites import content

# Google's clients take seconds to import: once, in the process from which the others are forked.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.gcp.preloaded"])
POLL_SECONDS = 0.02
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Desk:
    """A user's folder with site.yaml, credentials and a kubeconfig of its own."""

    google: Google
    folder: Path
    key_file: Path

    def write_site(self, **changes: Any) -> None:
        """site.yaml: the tutorial's with these changes (tests.gcp.sites)."""
        (self.folder / "site.yaml").write_text(yaml.safe_dump(content(**changes)))

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "MAXTEXT_MULTISLICE_API_ENDPOINT": self.google.endpoint,
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.key_file),
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "HOME": str(self.folder),
            "COLUMNS": "100",
        }

    def start(self, *arguments: str) -> Running:
        """`driver ARGUMENTS` in a process of its own, in the user's folder."""
        log = self.folder / f"{arguments[0]}.log"
        process = _FORKS.Process(target=_drive, args=(arguments, dict(self.environment), self.folder, log))
        process.start()
        return Running(process, log)

    def run(self, *arguments: str) -> Running:
        """The same, up to its end."""
        running = self.start(*arguments)
        running.wait()
        return running


@dataclass(frozen=True)
class Running:
    process: Any
    log: Path

    def kill(self) -> None:
        """SIGKILL, and its end. May be called while another thread waits, which alone reads the exit code then."""
        os.kill(self.process.pid, signal.SIGKILL)
        assert connection.wait([self.process.sentinel], PATIENCE_SECONDS)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        os.kill(self.process.pid, signal.SIGINT)

    def wait(self) -> int:
        """The exit code; negative for the signal that ended it."""
        self.process.join(PATIENCE_SECONDS)
        assert self.process.exitcode is not None, f"still running: {self.said}"
        return int(self.process.exitcode)

    @property
    def said(self) -> str:
        """What it wrote, to stdout and stderr."""
        return self.log.read_text()


def _drive(arguments: tuple[str, ...], environment: dict[str, str], folder: Path, log: Path) -> None:
    os.environ.update(environment)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting.POLL_SECONDS = POLL_SECONDS
    retrying.FIRST_PAUSE_SECONDS = POLL_SECONDS
    with log.open("w", buffering=1) as out, redirect_stdout(out), redirect_stderr(out):
        code = cli.run(arguments)
    os._exit(code)
