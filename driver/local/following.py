"""Follows a run from the first host to the end of the job: starts what is due, watches, rehearses preemptions."""

import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.chart import Rendering
from driver.local import progress, records
from driver.local.dashboard import JobState
from driver.local.hosts import Hosts, State
from driver.local.job import Job
from driver.local.preemption import Event, Rehearsal

_TICK_SECONDS = 0.5
# Ray shows the gauges of a group of workers for two seconds after its end; the next one's first step takes longer.
_STALE_SECONDS = 2.5


class Follower:
    """One job on one cluster of emulated hosts.

    work: the folder with the trainer's files. display: an entered display. happened: what was done to the slices and
    what came of it, in order: `{"time", "kind", "text"}`, kind being "slice" or "restart".
    """

    def __init__(
        self, hosts: Hosts, rendering: Rendering, work: Path, events: Sequence[Event], display: progress.Display
    ) -> None:
        self.happened: list[dict[str, Any]] = []
        self.view = progress.View(rendering.run, "Starting the Ray head")
        self._hosts, self._rendering, self._work, self._display = hosts, rendering, work, display
        self._rehearsal = Rehearsal(events, hosts, rendering.worker_pod, self._tell)
        self._submission_id = f"{rendering.run['name']}-{secrets.token_hex(3)}"
        self._gauges = progress.Gauges()
        self._job: Job | None = None
        self._begun = time.time()
        self._run_folder = Path(rendering.run["outputDirectory"]) / rendering.run["name"]
        self._files: list[Path] = []
        self._sessions, self._session_seen = 0, 0.0
        self._stepping, self._heard = False, 0.0
        self._slices = rendering.run["slices"]["max"]

    @property
    def not_rehearsed(self) -> Sequence[Event]:
        """What was planned for steps that the run had passed, or never came to, before they were seen."""
        return self._rehearsal.pending

    def until_the_end(self) -> JobState:
        """Returns how the job ended. Raises a DriverError when the hosts or the job do not start."""
        for number in range(self._slices):
            self._hosts.add_slice(number)
        while True:
            state = self._tick()
            self._display.show(self.view)
            if state is not None and state.ended:
                return state
            time.sleep(_TICK_SECONDS)

    def cause(self, state: JobState) -> str:
        """Why the job failed, in one line; empty when it succeeded."""
        told = self._job.cause() if self._job else ""
        return "" if state.status == "SUCCEEDED" else told or state.message

    def save_logs(self, folder: Path, *, everything: bool) -> Path:
        """Copies the job's log, and on request those of Ray and its workers on every host, out of the cluster's folder.

        Returns the path of the job's log there, which may not exist if there was no job.
        """
        kept = folder / f"{self._submission_id}.log"
        folder.mkdir(exist_ok=True)
        if self._job is not None and self._job.log.exists():
            shutil.copyfile(self._job.log, kept)
        if everything:
            for host in self._hosts.all():
                logs = self._hosts.ray_logs(host)
                if logs.exists():
                    shutil.copytree(logs, folder / self._submission_id / host.name, symlinks=True)
        return kept

    def _tick(self) -> JobState | None:
        for host in self._hosts.advance():
            self._tell(f"{host.name} ended by itself and is started again")
        self.view.slices = self._hosts.states()
        if self._job is None:
            self._start_when_ready()
            return None
        state = self._job.state()
        self._see_sessions()
        self._see_gauges(self._gauges.read(self._hosts.metrics_ports()))
        self.view.said = _last_line(self._job.log)
        self.view.phase = self._phase(state)
        self._rehearsal.advance(self.view.step, self.view.restarts)
        return state

    def _start_when_ready(self) -> None:
        if self._hosts.head.state is State.READY:
            self.view.phase = "Starting the hosts"
        if len(self._hosts.present()) == self._slices:
            self._job = Job(self._hosts, self._rendering, self._work, self._submission_id)

    def _see_sessions(self) -> None:
        """Counts the groups of workers, by the record that each writes when it starts."""
        files = sorted((self._run_folder / "progress").glob("*.jsonl"))
        if files == self._files:
            return
        self._files = files
        history = records.read(self._work, self._run_folder)
        sessions = [session for session in history.sessions if session["time"] >= self._begun]
        for session in sessions[self._sessions :]:
            if self._sessions:
                slices = f"{session['slices']} {'slice' if session['slices'] == 1 else 'slices'}"
                self._tell(f"the workers start again on {slices} from step {session['start_step']}", "restart")
            self._sessions += 1
            self._stepping, self._session_seen = False, time.monotonic()
            self.view.gauges = {**self.view.gauges, "step": session["start_step"] - 1}
        self.view.restarts = max(0, self._sessions - 1)

    def _see_gauges(self, gauges: Mapping[str, float]) -> None:
        """Ray exports a gauge only after it was set, so what is missing is as it was last."""
        if time.monotonic() - self._session_seen < _STALE_SECONDS:
            return
        self.view.gauges = {**self.view.gauges, **gauges}
        if gauges:
            self._heard = time.monotonic()
        if "step" in gauges and self._sessions:
            self._stepping = True

    def _phase(self, state: JobState | None) -> str:
        if state is None and not self._sessions:
            return "Submitting the job"
        if not self._sessions:
            return "Waiting for the workers"
        if not self._stepping:
            return "Loading MaxText and compiling"
        if time.monotonic() - self._heard > max(10.0, 3 * self.view.gauges.get("step_seconds", 0)):
            return "Waiting for the workers to start again"
        return progress.TRAINING if self.view.step < self.view.run["steps"] - 1 else "Saving the last checkpoint"

    def _tell(self, text: str, kind: str = "slice") -> None:
        self.happened.append({"time": time.time(), "kind": kind, "text": text})
        self._display.tell(text)


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
