"""Runs of `driver local` as a user makes them, and the same run as MaxText alone makes it."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arguments
import checkpoints
import metrics
from run import Run

from driver.local import training
from driver.local.machine import environment
from driver.values import Values, find_file
from tests.local.plain_runs import CPU, PROGRAM, Losses

DRIVER = Path(sys.executable).with_name("driver")
TIMEOUT_SECONDS = 900

# The tiny profile with a schedule that does not depend on job.steps, so that runs of any length can be compared, and
# with a learning rate at which a difference in the last digit does not grow (at the profile's own: 1e-3 by step 120).
MODEL = {
    "learning_rate": 1e-3,
    "max_target_length": 128,
    "learning_rate_schedule_steps": 400,
    "checkpoint_period": 10,
}


@dataclass(frozen=True)
class Ended:
    """How a `driver local` ended: its exit code, its JSON, and what it said."""

    code: int
    facts: dict[str, Any]
    said: str

    @property
    def losses(self) -> dict[int, float]:
        """Training loss by step, as the run's folder has it."""
        steps = metrics.read(Path(self.facts["folder"]) / "progress").steps
        return {step: record["loss"] for step, record in steps.items()}


def options(
    run_name: str, steps: int, out: Path, values: Mapping[str, object] | None = None, *, data: Path | None = None
) -> list[str]:
    """Options of `driver local` for the small model; `values` are further values of the chart."""
    sets: dict[str, object] = {
        "job.runName": run_name,
        "job.steps": steps,
        **{f"job.maxtext.{k}": v for k, v in MODEL.items()},
    }
    sets |= dict(values or {})
    files = [] if data is None else ["-f", str(data)]
    return ["-f", "tiny", *files, "--out", str(out), *(f"--set={k}={_text(v)}" for k, v in sets.items())]


def driver(*command: str) -> str:
    """Runs a command of the driver that must succeed; its standard output."""
    ended = subprocess.run(
        [str(DRIVER), *command], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def local(*more: str) -> Ended:
    """Runs `driver local` to its end."""
    return wait(start(*more))


def start(*more: str) -> subprocess.Popen[str]:
    """Starts `driver local`; end it with `wait`."""
    command = [str(DRIVER), "--output", "json", "local", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait(driver: subprocess.Popen[str]) -> Ended:
    """Waits for a driver's end; a driver that takes too long is ended, and what it said is in the error."""
    try:
        out, said = driver.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        driver.terminate()
        _, said = driver.communicate()
        raise AssertionError(f"driver local did not end in {TIMEOUT_SECONDS} s:\n{said[-4000:]}") from None
    return Ended(driver.returncode, json.loads(out) if out.strip() else {}, said)


def await_checkpoint(driver: subprocess.Popen[str], run_folder: Path, step: int) -> None:
    """Returns once the run has a whole checkpoint at or past `step`."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while checkpoints.last_complete(run_folder / "checkpoints") < step:
        assert driver.poll() is None, "the driver ended before its checkpoint"
        assert time.monotonic() < deadline, f"no checkpoint at {step} in {TIMEOUT_SECONDS} s"
        time.sleep(0.2)


def run_file(run_options: list[str]) -> Run:
    """The run file that `driver local` would render for these options."""
    files = [find_file(run_options[i + 1]) for i, option in enumerate(run_options) if option == "-f"]
    sets = tuple(option.removeprefix("--set=") for option in run_options if option.startswith("--set="))
    out = Path(run_options[run_options.index("--out") + 1])
    return Run.model_validate(training.plan(training.Request(Values(tuple(files), sets, ()), out)).run)


def plain(run: Run, python: Path, folder: Path) -> Losses:
    """The run's losses by MaxText alone: one process with as many devices as the run has chips, no Ray, no trainer."""
    folder.mkdir(parents=True)
    told = arguments.maxtext_arguments(run, run.slices.max) | {
        "run_name": "plain",
        "base_output_directory": str(folder),
        "ici_data_parallelism": run.chips(run.slices.max),
        "dcn_data_parallelism": 1,
        "skip_jax_distributed_system": "true",
        "enable_checkpointing": "false",
    }
    request = {
        "arguments": {key: _text(value) for key, value in told.items()},
        "processes": 1,
        "losses": str(folder / "losses-{rank}.jsonl"),
        "mend": run.data.kind == "grain",
    }
    (folder / "request.json").write_text(json.dumps(request))
    env = environment(python, CPU | {"JAX_NUM_CPU_DEVICES": str(run.chips(run.slices.max))})
    command = [str(python), str(PROGRAM), str(folder / "request.json"), "0"]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return Losses.read(folder / "losses-0.jsonl")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
