"""The run as a Ray job: submitted as the chart's submitter pod does it, and its log."""

import json
import shlex
import subprocess
import time
from pathlib import Path

import yaml

from driver.chart import Rendering
from driver.errors import DriverError
from driver.local.dashboard import JobState
from driver.local.hosts import Hosts
from driver.local.machine import DIES_WITH_PARENT, environment

_SILENT_SECONDS = 300.0


class Job:
    """One submission of the run in the folder `work`, which holds the trainer's files.

    Poll `state` from time to time; nothing waits.
    """

    def __init__(self, hosts: Hosts, rendering: Rendering, work: Path, submission_id: str) -> None:
        self._hosts, self._id = hosts, submission_id
        self._heard = time.monotonic()
        runtime_env = yaml.safe_load(rendering.job["runtimeEnvYAML"])
        runtime_env.pop("working_dir", None)  # the pod's folder; here it is `work`
        ray = [str(hosts.python.parent / "ray"), "job", "submit", "--no-wait", "--address", hosts.dashboard.address]
        ray += ["--submission-id", submission_id, "--working-dir", str(work)]
        ray += ["--runtime-env-json", json.dumps(runtime_env), "--", *shlex.split(rendering.job["entrypoint"])]
        self._submission = subprocess.Popen(
            [*DIES_WITH_PARENT, *ray],
            cwd=work,
            env=environment(hosts.python, hosts.authentication),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def state(self) -> JobState | None:
        """What Ray says of the job; None while it is being submitted, and while Ray's dashboard does not answer.

        Raises a DriverError when the job was not accepted, and when nothing was heard for some minutes.
        """
        submitted = self._submission.poll()
        if submitted:
            said = self._submission.stdout.read().strip().splitlines() if self._submission.stdout else []
            raise DriverError(f"Ray did not accept the job: {said[-1] if said else 'it said nothing'}")
        state = self._hosts.dashboard.job_state(self._id) if submitted == 0 else None
        if state is not None:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > _SILENT_SECONDS:
            why = self._hosts.dashboard.trouble or "the job is still being submitted"
            raise DriverError(f"Ray has told nothing of the job for {_SILENT_SECONDS:.0f} s: {why}.")
        return state

    @property
    def log(self) -> Path:
        """Everything the job and its workers printed, as long as the cluster's folder exists."""
        return self._hosts.ray_logs(self._hosts.head) / f"job-driver-{self._id}.log"

    def cause(self) -> str:
        """Why the job failed, in the trainer's own line; empty when it printed none."""
        try:
            _, told, message = self.log.read_text(errors="replace").rpartition("run failed: ")
        except OSError:
            return ""
        return message.strip() if told else ""
