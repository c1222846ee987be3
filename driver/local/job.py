"""The run as a Ray job: submitted as the chart's submitter pod does it, and its log."""

import json
import shlex
import subprocess
from pathlib import Path

import yaml

from driver.chart import Rendering
from driver.errors import DriverError
from driver.local.dashboard import JobState
from driver.local.hosts import Hosts
from driver.local.machine import DIES_WITH_PARENT, environment


class Job:
    """One submission of the run in the folder `work`, which holds the trainer's files.

    Poll `state` from time to time; nothing waits.
    """

    def __init__(self, hosts: Hosts, rendering: Rendering, work: Path, submission_id: str) -> None:
        self._hosts, self._id = hosts, submission_id
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
        """What Ray says of the job; None while it is being submitted. Raises a DriverError when it was not accepted."""
        if self._submission.poll() is None:
            return None
        if self._submission.returncode != 0:
            said = self._submission.stdout.read().strip().splitlines() if self._submission.stdout else []
            raise DriverError(f"Ray did not accept the job: {said[-1] if said else 'it said nothing'}")
        return self._hosts.dashboard.job_state(self._id)

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
