"""The compiler as a service: as many server processes as there are cores, requests in, answers out.

The servers run trainer/compile_server.py, which documents the protocol, in an environment of their own. They end with
the driver, however it ends: the kernel ends them (see driver.local.machine), so a Compiler is made and used in the main
thread. The answers come in the order in which they are ready.
"""

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from driver import resources
from driver.errors import DriverError
from driver.local.machine import DIES_WITH_PARENT, available_memory_gib, environment
from driver.plan.request import Configuration, Until

Kind = Literal["argument", "sharding", "batch", "topology", "flag", "memory", "killed", "disk", "other"]

SERVER = "compile_server.py"

_GIB_PER_SERVER = 4.0
"""Above the 3 GB that a whole compilation of Llama 3.1 8B for v6e-16 was measured to take."""

_CLOSING_SECONDS = 5.0
_SERVER_LOG_LINES = 5
_STAGES_SHOWN = 2

_STAGES = (("*memory-usage-report.txt", "generating code"), ("*before_optimizations.txt", "planning memory"))
"""Which of the compiler's dumps is there, and what it does after it has written that one; the last one first."""


@dataclass(frozen=True)
class Failure:
    """kind: see trainer/compile_errors.py; `memory` says that the program does not fit into HBM. said: in the words of
    MaxText, JAX or libtpu."""

    kind: Kind
    said: str


@dataclass(frozen=True)
class Job:
    """One configuration on its way. dump: the folder for what the compiler writes, removed by nobody here."""

    name: str
    configuration: Configuration
    until: Until
    dump: Path
    save: Path | None = None


@dataclass(frozen=True)
class Answer:
    """What became known of a job.

    seconds: since its server took it up. report: the memory report, from `memory` on. facts: from `memory` on, what
    MaxText says of the configuration (trainer/compile_step.py): tflopsPerDevice, checkpointBytes, ...
    """

    job: Job
    event: Literal["started", "memory", "done", "failed"]
    seconds: float
    report: Path | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    failure: Failure | None = None

    @property
    def last(self) -> bool:
        """Whether nothing follows for this job."""
        return self.event in ("done", "failed") or (self.event == "memory" and self.job.until == "memory")


def usable_servers() -> int:
    """As many as there are cores for this process, and memory for: at least one."""
    return max(1, min(len(os.sched_getaffinity(0)), int(available_memory_gib() / _GIB_PER_SERVER)))


class Compiler:
    """Compiles configurations. Use it in a `with`, or call close().

    Args:
        python: interpreter of the compiler's environment (driver.plan.environment).
        work: folder for the dumps and logs; empty, without white space in its path.
        servers: how many at once; by default as usable_servers() says. They start when there is work for them.
        command: in the place of the server, for tests.
    """

    def __init__(
        self, python: Path, work: Path, *, servers: int | None = None, command: Sequence[str] | None = None
    ) -> None:
        if shutil.which(DIES_WITH_PARENT[0]) is None:
            raise DriverError(f"There is no {DIES_WITH_PARENT[0]} on the PATH.", fix="install util-linux 2.33 or newer")
        if len(str(work.absolute()).split()) != 1:
            raise DriverError(
                f"The compiler cannot write into {work}: its path has white space.",
                rule="The folder is passed in XLA_FLAGS, which is split there.",
                fix="TMPDIR=/tmp, or another folder without white space",
            )
        self._command = [*(command or [str(python), str(resources.trainer_dir() / SERVER)])]
        self._environment = environment(python)
        self._work = work.absolute()
        self._limit = servers or usable_servers()
        self._waiting: deque[Job] = deque()
        self._servers: list[_Server] = []
        self._selector = selectors.DefaultSelector()
        self._count = 0
        self._started = 0

    def __enter__(self) -> "Compiler":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, configuration: Configuration, until: Until = "memory", save: Path | None = None) -> Job:
        """Puts a configuration into the queue, also while answers() is being read. Does not wait."""
        self._count += 1
        name = str(self._count)
        job = Job(name, configuration, until, self._work / f"dump-{name}", save and save.absolute())
        self._waiting.append(job)
        return job

    def answers(self) -> Iterator[Answer]:
        """Answers as they come, until every job that was submitted has its last one.

        Raises a DriverError when the compiler cannot be started.
        """
        while True:
            self._assign()
            if not any(server.job for server in self._servers):
                return
            for key, _ in self._selector.select():
                server: _Server = key.data
                for message in server.read():
                    answer = server.answer(message)
                    if answer:
                        yield answer
                if server.lost:
                    yield from self._bury(server)

    def doing(self) -> str:
        """What is being compiled at this moment, how far it is and for how long; empty when nothing is. Another thread
        may ask, which draws it."""
        stages = [stage for server in tuple(self._servers) if (stage := server.stage())]
        more = f" and {len(stages) - _STAGES_SHOWN} more" if len(stages) > _STAGES_SHOWN else ""
        return "; ".join(stages[:_STAGES_SHOWN]) + more

    def close(self) -> None:
        """Ends servers and compilations, and waits until they are gone; what was not answered never is."""
        self._waiting.clear()
        for server in self._servers:
            server.hang_up()
        for server in self._servers:
            server.end()
        self._servers.clear()
        self._selector.close()

    def _assign(self) -> None:
        """Gives work to every server that is free for it."""
        while self._waiting:
            idle = next((server for server in self._servers if server.job is None), None)
            if idle is None and len(self._servers) == self._limit:
                return
            (idle or self._start()).take(self._waiting.popleft())

    def _start(self) -> "_Server":
        self._started += 1
        self._work.mkdir(parents=True, exist_ok=True)
        log = self._work / f"server-{self._started}.log"
        server = _Server(self._command, self._environment, log)
        self._servers.append(server)
        self._selector.register(server.output, selectors.EVENT_READ, server)
        return server

    def _bury(self, server: "_Server") -> Iterator[Answer]:
        """A server has ended by itself: its job is answered, and the next job gets a new one."""
        self._selector.unregister(server.output)
        self._servers.remove(server)
        how = server.end()
        if not server.ready and how != signal.SIGKILL.name:
            raise DriverError(
                f"The compiler could not start ({how}): {server.last_words()}",
                rule=f"Its environment is the trainer's requirements-plan.txt; {self._command[0]} was used.",
                fix="driver plan --install, or leave --compiler-python out",
            )
        if server.job:
            failure = Failure("killed", f"the compiler's server has ended ({how}): {server.last_words()}")
            yield Answer(server.job, "failed", 0.0, failure=failure)


class _Server:
    """One server process; it works on one job at a time."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [*DIES_WITH_PARENT, *command], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, start_new_session=True,  # Ctrl-C is for the driver, which ends the server in order
            )  # fmt: skip
        assert self._process.stdin
        assert self._process.stdout
        self._input, self.output = self._process.stdin, self._process.stdout
        self._rest = b""
        self._taken = 0.0
        self.job: Job | None = None
        self.ready = False
        self.lost = False

    def take(self, job: Job) -> None:
        self.job, self._taken = job, time.monotonic()
        request = job.configuration.request(job.name, job.until, job.dump, job.save)
        with contextlib.suppress(BrokenPipeError):  # it is gone: its output ends as well, and that is seen
            self._input.write(json.dumps(request).encode() + b"\n")
            self._input.flush()

    def stage(self) -> str:
        """How far its job is, by what the compiler has written; empty without a job."""
        job, seconds = self.job, time.monotonic() - self._taken
        if job is None:
            return ""
        done = [after for dump, after in _STAGES if any(job.dump.glob(dump))]
        stage = (done or ["tracing the model"])[0] if self.ready else "loading MaxText"
        return f"{stage}, {seconds:.0f} s"

    def read(self) -> list[dict[str, Any]]:
        """The messages that are there; waits if there are none."""
        new = os.read(self.output.fileno(), 1 << 16)
        self.lost = not new
        *lines, self._rest = (self._rest + new).split(b"\n")
        return [json.loads(line) for line in lines]

    def answer(self, message: Mapping[str, Any]) -> Answer | None:
        """The message as an answer; None for the one that the server is ready."""
        if message["event"] == "ready":
            self.ready = True
            return None
        job = self.job
        assert job is not None
        assert message["id"] == job.name
        own = {"id", "event", "seconds", "reportFile", "error"}
        answer = Answer(
            job,
            message["event"],
            message["seconds"],
            Path(message["reportFile"]) if "reportFile" in message else None,
            {key: value for key, value in message.items() if key not in own},
            Failure(**message["error"]) if "error" in message else None,
        )
        if answer.last:
            self.job = None
        return answer

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._input.close()

    def end(self) -> str:
        """Waits for the end, and makes one if need be. Returns how it ended, in words."""
        self.hang_up()
        try:
            self._process.wait(_CLOSING_SECONDS if self.ready or self.lost else 0)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # its compilations hear of it from the kernel
        status = self._process.wait()
        self.output.close()
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()[-_SERVER_LOG_LINES:]
        return " ".join(line.strip() for line in lines) or "it said nothing"
