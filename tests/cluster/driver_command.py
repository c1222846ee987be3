"""The driver's commands on a test cluster, in processes of their own, as a user runs them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tests.chart.rendering import REPOSITORY
from tests.cluster.release import TINY, Release

_MAIN = "from driver.cli import main; main()"


@dataclass
class Running:
    """A command that runs. said: the lines of stderr so far."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def await_words(self, words: str, seconds: float) -> None:
        """Until a line of stderr has them."""
        with self._changed:
            heard = self._changed.wait_for(lambda: any(words in line for line in self.said), seconds)
        assert heard, f"{words!r} was not said: {''.join(self.said)}"

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def facts(self, seconds: float) -> tuple[int, dict[str, Any]]:
        """The exit code and the JSON on stdout, empty where there is none; at most so many seconds from now."""
        code = self.process.wait(seconds)
        self._listener.join(10)  # until stderr is read to its end
        out = self.process.stdout.read() if self.process.stdout else ""
        return code, json.loads(out) if out.strip() else {}

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.said.append(line)
                self._changed.notify_all()


def start(demo: Release, *arguments: str) -> Running:
    """`driver ARGUMENTS --output json` in the release's namespace."""
    return spawn([*_command(demo, arguments), "--output", "json"], _environment(demo), REPOSITORY)


def start_in(folder: Path, environment: Mapping[str, str], *arguments: str) -> Running:
    """`driver ARGUMENTS --output json` in a folder, with nothing of the test's environment that is not given."""
    return spawn([sys.executable, "-c", _MAIN, *arguments, "--output", "json"], environment, folder)


def spawn(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Running:
    return Running(
        subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


def run(demo: Release, *arguments: str, code: int = 0) -> str:
    """What `driver ARGUMENTS` prints to stdout, and to stderr where it fails. code: the exit code that it must have."""
    done = subprocess.run(
        _command(demo, arguments), cwd=REPOSITORY, env=_environment(demo), capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def values(demo: Release) -> list[str]:
    """The arguments for values/tiny.yaml with the site's file and the test's bucket."""
    chosen = [argument for each in demo.bucket.settings for argument in ("--set", each)]
    return ["-f", str(TINY), "-f", str(demo.site), *chosen]


def install(demo: Release, *sets: str, options: Sequence[str] = ()) -> Running:
    """`driver install` with those values and more."""
    more = [argument for each in sets for argument in ("--set", each)]
    return start(demo, "install", demo.name, *values(demo), *more, *options)


def as_service_account(demo: Release, name: str, folder: Path) -> Release:
    """The release as a new service account of its namespace sees it, through a kubeconfig in the folder."""
    demo.kubectl("create", "serviceaccount", name)
    config = yaml.safe_load(demo.kubectl("config", "view", "--raw", "--minify", "--flatten"))
    config["users"][0]["user"] = {"token": demo.api.token(name, demo.namespace)}
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    return replace(demo, kubeconfig=kubeconfig)


def _command(demo: Release, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", _MAIN, *arguments, "-n", demo.namespace, "--kubeconfig", str(demo.kubeconfig)]


def _environment(demo: Release) -> dict[str, str]:
    return {**demo.environment, "PYTHONPATH": str(REPOSITORY)}
