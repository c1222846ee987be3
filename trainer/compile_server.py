"""Compiles MaxText's training step for TPUs that are not there: requests as JSON lines on stdin, answers on stdout.

    python compile_server.py      in an environment with requirements-plan.txt, on Linux on x86-64

It imports MaxText once and forks a process for each request, one at a time, because libtpu reads its flags when it is
loaded and cannot give up a compilation. The first line is `{"event": "ready", "versions": {package: version},
"seconds"}`.

A request, all keys there:
    id        text, returned with each answer
    run       the content of run.yaml
    slices    how many
    topology  the slice as MaxText's compile_topology names it: v6e-16
    changes   MaxText arguments beside those of the run; null removes one
    until     "memory": ends as soon as the memory report is complete, seconds in; "executable": minutes
    dump      folder for what the compiler writes, empty or not there yet; no white space in its path
    save      file for the executable, or null; only with "executable"

Answers have `id`, `event` and `seconds` since the request was begun:
    started
    memory    with reportFile, and what compile_step tells of the configuration; the last one for "memory"
    done      the last one for "executable", with the same facts and those of the executable
    failed    the last one, with error {kind, said}, see compile_errors, and what facts there are; kind "memory" has
              compiledHbmBytes as well, where libtpu names the total that it found too large

When stdin ends, so does a compilation, and the server. All that the compiler prints is in DUMP/compile.log.
"""

import contextlib
import ctypes
import errno
import json
import os
import select
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import compile_errors
import compile_step

Request = Mapping[str, Any]
Work = Callable[[Request, compile_step.Tell], None]

LOG = "compile.log"
REPORT = "-memory-usage-report.txt"
BESIDE = (".txt", "-buffer-assignment.txt", "-live-range.txt")
"""What ends the names of the dumps that are read with the report (driver/plan/memory_report.py). libtpu 0.0.46 writes
them before the report, within milliseconds."""

_LOOK_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1
_LOG_TAIL = 64 * 1024
_KEYS = frozenset({"id", "run", "slices", "topology", "changes", "until", "dump", "save"})


class Requests:
    """Lines of a pipe, read without waiting for more than one look's time."""

    def __init__(self, file: BinaryIO) -> None:
        self._fd = file.fileno()
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self.ended = False

    def look(self, seconds: float | None) -> None:
        """Reads what is there; waits at most so long, without end for None."""
        if not self.ended and select.select([self._fd], [], [], seconds)[0]:
            new = os.read(self._fd, 1 << 16)
            self.ended = not new
            *lines, self._rest = (self._rest + new).split(b"\n")
            self._lines.extend(line for line in lines if line.strip())

    def __iter__(self) -> Iterator[Request]:
        while True:
            while not self._lines and not self.ended:
                self.look(None)
            if self.ended:
                return  # who asked is gone: what is queued has no reader
            yield json.loads(self._lines.popleft())


def serve(work: Work, requests: Requests, answer: Callable[[Mapping[str, Any]], None]) -> None:
    """Answers requests until they end.

    Args:
        work: compiles, in a forked process; compile_step.compile_step but in tests.
    """
    for request in requests:
        _Compilation(work, request, requests, answer).run()


class _Compilation:
    """One request and its process."""

    def __init__(
        self, work: Work, request: Request, requests: Requests, answer: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._work = work
        self._request = request
        self._requests = requests
        self._send = answer
        self._begun = time.monotonic()
        self._facts: dict[str, Any] = {}
        self._reported = False

    def run(self) -> None:
        self._answer("started")
        problem = _problem(self._request)
        if problem:
            self._answer("failed", error=problem)
            return
        self._dump = Path(self._request["dump"])
        try:
            self._dump.mkdir(parents=True, exist_ok=True)
            log = os.open(self._dump / LOG, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        except OSError as error:
            self._answer("failed", error=compile_errors.of_exception(error))
            return
        told, tell = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(told)
            _child(self._work, self._request, tell, log)
        os.close(tell)
        os.close(log)
        try:
            self._watch(told)
        finally:
            os.close(told)
            self._end()

    def _watch(self, told: int) -> None:
        """Until the process has ended, by itself or because all is known that was asked for."""
        looks = _Looks(self._dump, self._pid)
        rest, finished = b"", False
        error: Mapping[str, str] | None = None
        while True:
            readable = bool(select.select([told], [], [], _LOOK_SECONDS)[0])
            new = os.read(told, 1 << 16) if readable else b""
            *lines, rest = (rest + new).split(b"\n")
            for message in map(json.loads, lines):
                self._facts.update(message.get("facts", {}))
                error = message.get("error", error)
                finished = finished or "finished" in message
            self._requests.look(0)
            if self._requests.ended:
                return
            if _full(self._dump):  # the compiler only logs that it could not write, and goes on for minutes
                self._answer("failed", error=self._no_room())
                return
            if readable and not new:
                break
            report = None if self._reported else looks.complete_report()
            if report:
                self._reported = True
                if self._request["until"] == "memory":
                    self._end()
                self._answer("memory", reportFile=str(report), **self._facts)
                if self._request["until"] == "memory":
                    return
        self._conclude(error, finished, looks)

    def _conclude(self, error: Mapping[str, str] | None, finished: bool, looks: "_Looks") -> None:
        """The process has ended by itself."""
        status = self._end()
        if error is None and not finished:
            error = compile_errors.of_exit(status, _tail(self._dump / LOG))
        # Past its report, and so fast that no look has seen it twice. One that was killed may have left half of it.
        if not self._reported and (finished or (error and error["kind"] == "memory")):
            report = looks.report()
            if report:
                self._answer("memory", reportFile=str(report), **self._facts)
                if self._request["until"] == "memory":
                    return
        if finished and self._request["until"] == "executable":
            self._answer("done", **self._facts)
            return
        error = error or {"kind": "other", "said": f"the compiler wrote no *{REPORT} into {self._dump}"}
        if error["kind"] in ("other", "killed") and _full(self._dump):
            error = self._no_room()
        used = compile_errors.used_hbm_bytes(error["said"]) if error["kind"] == "memory" else None
        self._facts |= {"compiledHbmBytes": used} if used else {}
        self._answer("failed", error=error, **self._facts)

    def _no_room(self) -> dict[str, str]:
        return {"kind": "disk", "said": f"{self._dump}: {os.strerror(errno.ENOSPC)}"}

    def _end(self) -> int:
        """Ends the process with all of its threads, and what it has started, and waits until its memory is free.

        Returns its status as os.waitpid gives it; that of a process that had ended by itself is its own.
        """
        if not self._pid:
            return 0
        for end in (os.killpg, os.kill):  # the process itself, should it not have made its group yet
            with contextlib.suppress(ProcessLookupError):
                end(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return status

    def _answer(self, event: str, **more: Any) -> None:
        seconds = round(time.monotonic() - self._begun, 3)
        self._send({"id": self._request.get("id"), "event": event, "seconds": seconds, **more})


class _Looks:
    """Tells when the memory report is complete, with what is read beside it: each file has a size, the process has it
    open no more, and the size is that of the look before. The compiler goes on for minutes after it."""

    def __init__(self, dump: Path, pid: int) -> None:
        self._dump = dump
        self._pid = pid
        self._sizes: dict[Path, int] = {}

    def complete_report(self) -> Path | None:
        report = self.report()
        files = [report.with_name(name) for name in _names(report)] if report else []
        before, self._sizes = self._sizes, {path: path.stat().st_size if path.exists() else 0 for path in files}
        opened = self._open_files()
        if not opened:  # the process has just ended, and may have left half of it
            return None
        settled = all(
            size and before.get(path) == size and str(path.resolve()) not in opened
            for path, size in self._sizes.items()
        )
        return report if settled else None

    def report(self) -> Path | None:
        """The newest one that is not empty."""
        written = [path for path in self._dump.glob(f"*{REPORT}") if path.stat().st_size]
        return max(written, key=lambda path: path.stat().st_mtime_ns, default=None)

    def _open_files(self) -> set[str]:
        found: set[str] = set()
        with contextlib.suppress(OSError):  # the process has just ended
            for link in Path(f"/proc/{self._pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    found.add(str(link.readlink()))
        return found


def _names(report: Path) -> list[str]:
    program = report.name.removesuffix(REPORT)
    return [report.name, *(program + end for end in BESIDE)]


def _child(work: Work, request: Request, tell: int, log: int) -> NoReturn:
    """The forked process."""
    server = os.getppid()
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
        # The kernel, short of memory, is to take the compiler and not the server or the user's editor.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("800")
        nothing = os.open(os.devnull, os.O_RDONLY)
        for fd, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(fd, target)
        sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
        work(request, lambda facts: _write(tell, {"facts": dict(facts)}))
        _write(tell, {"finished": True})
    except BaseException as error:  # noqa: BLE001  # also SystemExit, MaxText's way to refuse its arguments
        with contextlib.suppress(BaseException):
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
        _write(tell, {"error": compile_errors.of_exception(error)})
    finally:
        os._exit(0)


def _write(fd: int, message: Mapping[str, Any]) -> None:
    rest = json.dumps(message, default=str).encode() + b"\n"
    while rest:
        rest = rest[os.write(fd, rest) :]


def _problem(request: Request) -> dict[str, str] | None:
    """What is wrong with the request itself."""
    said = ""
    if set(request) != _KEYS:
        said = f"a request has the keys {', '.join(sorted(_KEYS))}"
    elif request["until"] not in ("memory", "executable"):
        said = f"until is {request['until']!r}: memory or executable"
    elif request["save"] and request["until"] != "executable":
        said = "save needs until=executable"
    elif len(str(request["dump"]).split()) != 1 or not Path(request["dump"]).is_absolute():
        said = f"dump is {request['dump']!r}: an absolute path without white space, for XLA_FLAGS has no quotes"
    elif Path(request["dump"]).exists() and any(Path(request["dump"]).iterdir()):
        said = f"{request['dump']} is not empty: an older report there would be taken for this one's"
    return {"kind": "other", "said": said} if said else None


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL))
        return file.read().decode(errors="replace")
    return ""


def _full(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free < 1 << 20
    return False


def main() -> None:
    """Serves on stdin and stdout. What libraries print goes to stderr."""
    begun = time.monotonic()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to answer: it closes stdin

    def answer(message: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            out.write(json.dumps(message) + "\n")

    compile_step.preload()
    seconds = round(time.monotonic() - begun, 3)
    answer({"event": "ready", "versions": compile_step.versions(), "seconds": seconds})
    serve(compile_step.compile_step, Requests(sys.stdin.buffer), answer)


if __name__ == "__main__":
    main()
