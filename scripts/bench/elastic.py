"""One lost slice, under the chart's trainer and under the upstream tutorial's elastic script: what does it cost?

    scripts/bench/run elastic [--steps 300] [--kill-at 40] [--away 45] [--output json]

Both train the tiny profile's model on two emulated slices with the same Ray, one after the other. After the step
`--kill-at` slice 1 vanishes, and `--away` seconds later it is given back. Printed for each: seconds from the kill to
the next step and to the first step beyond what was reached, steps trained twice, the whole run's seconds and useful
steps a second; then the ratios. Read from both jobs' logs, where MaxText tells each step.

The tutorial's script stands below as upstream has it, but for the slice's shape, the workers' environment (CPU devices;
MaxText is installed already) and the log level that MaxText 0.2.5 needs to tell its steps.
"""

import argparse
import dataclasses
import re
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import arguments
from rich.console import Console
from run import Run

from driver.chart import Rendering
from driver.local import environment, training
from driver.local.hosts import Hosts
from driver.local.job import Job
from driver.values import Values, find_file
from scripts.bench import command_line

TUTORIAL = """
import os
from absl import app
import logging
from typing import Sequence
import ray
from ray.train.v2.api.config import ScalingConfig, RunConfig, FailureConfig
from ray.train.v2.jax import JaxTrainer

def train_loop_per_worker(config):
    import maxtext
    from maxtext.trainers.pre_train.train import main as maxtext_main
    from absl import logging as absl_logging
    absl_logging.set_verbosity(absl_logging.INFO)

    argv = config["argv"]
    maxtext_main(argv)

def main(argv: Sequence[str]):
    # Convert the config file path to an absolute path
    argv = list(argv)
    if len(argv) > 1:
        argv[1] = os.path.abspath(argv[1])

    trainer = JaxTrainer(
        train_loop_per_worker=train_loop_per_worker,
        train_loop_config={"argv": argv},
        scaling_config=ScalingConfig(
            use_tpu=True,
            num_workers=(1,2),
            topology="2x2",
            accelerator_type="TPU-V6E",
            resources_per_worker={"TPU": 4},
            placement_strategy="SPREAD",
        ),
        run_config=RunConfig(
            name="maxtext_jaxtrainer",
            failure_config=FailureConfig(max_failures=3),
            worker_runtime_env={"env_vars": %s},
        ),
    )
    result = trainer.fit()
    logging.info("Training complete!")
    ray.shutdown()

if __name__ == "__main__":
    app.run(main)
"""
_LIMIT_SECONDS = 1500
_STEP = re.compile(rb"completed step: (\d+),")


def main() -> int:
    options = _options()
    console = Console(stderr=True)
    options.python = environment.trainer_python(options.trainer_python)
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-elastic-") as folder:
        for name, contender in {"tutorial": _tutorial, "chart": _chart}.items():
            place = Path(folder) / name
            (place / "work").mkdir(parents=True)
            rendering = contender(place, options)
            with console.status(f"{name}: {options.steps} steps, slice 1 away after step {options.kill_at}"):
                results[name] = _measure(rendering, place, options)
            console.print(f"{name}: {results[name]}")
    chart, tutorial = results["chart"], results["tutorial"]
    ratios = {
        key: round(chart[key] / tutorial[key], 3) if chart[key] and tutorial[key] else None
        for key in ("secondsToNextStep", "secondsToNewStep", "wholeRunSeconds", "usefulStepsPerSecond")
    }
    rows = [(key, tutorial[key], chart[key], ratios.get(key)) for key in chart]
    table = command_line.table("One lost slice", ("", "tutorial", "chart", "chart to tutorial"), rows)
    command_line.answer(options.output, {**results, "chartToTutorial": ratios}, table)
    return 0


def _chart(place: Path, options: argparse.Namespace) -> Rendering:
    rendering = _rendering(place, options)
    for name, content in rendering.trainer_files.items():
        (place / "work" / name).write_text(content)
    return rendering


def _tutorial(place: Path, options: argparse.Namespace) -> Rendering:
    """The same model by the tutorial's script and its arguments; what it does not say stays MaxText's default."""
    rendering = _rendering(place, options)
    run = Run.model_validate(rendering.run)
    (place / "work" / "maxtext_elastic_trainer.py").write_text(TUTORIAL % arguments.worker_environment(run))
    # The tutorial downloads it; here it is the installed MaxText's.
    base = next(options.python.parent.parent.glob("lib/python3*/site-packages/maxtext/configs/base.yml"))
    shutil.copy(base, place / "work")
    kept = {k: v for k, v in run.maxtext.items() if k not in ("checkpoint_period", "max_num_checkpoints_to_keep")}
    told = {**kept, "base_output_directory": str(place), "dataset_type": "synthetic", "steps": run.steps,
            "run_name": "rayjob-elastic"}  # fmt: skip
    pairs = " ".join(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in told.items())
    (place / "work" / "run.sh").write_text(f"exec python maxtext_elastic_trainer.py base.yml {pairs}\n")
    job = dict(rendering.job) | {"entrypoint": "bash run.sh", "runtimeEnvYAML": "env_vars: {RAY_DEDUP_LOGS: '0'}"}
    return dataclasses.replace(
        rendering,
        manifests=tuple(m | {"spec": job} if m["kind"] == "RayJob" else m for m in map(dict, rendering.manifests)),
    )


def _rendering(place: Path, options: argparse.Namespace) -> Rendering:
    sets = ("elastic.enabled=true", f"job.steps={options.steps}", "job.runName=bench")
    return training.plan(training.Request(Values((find_file("tiny"),), sets, ()), place))


def _measure(rendering: Rendering, place: Path, options: argparse.Namespace) -> dict[str, Any]:
    hosts = Hosts(place / "hosts", options.python, rendering.run["tpu"])
    try:
        for number in range(2):
            hosts.add_slice(number)
        while len(hosts.present()) < 2:
            hosts.advance()
            time.sleep(0.5)
        job = Job(hosts, rendering, place / "work", f"bench-{secrets.token_hex(3)}")
        return _follow(hosts, job, options)
    finally:
        hosts.close()


def _follow(hosts: Hosts, job: Job, options: argparse.Namespace) -> dict[str, Any]:
    """Kills, gives back, and waits for the end; times are of the moment when a step's line was seen (0.2 s)."""
    steps: list[tuple[float, int]] = []
    killed_at = back_at = 0.0
    read = 0
    began = time.monotonic()
    while time.monotonic() - began < _LIMIT_SECONDS:
        state, now = job.state(), time.monotonic()
        if job.log.exists():
            with job.log.open("rb") as log:
                log.seek(read)
                told = log.read()
            whole = told.rpartition(b"\n")[0]
            read += len(whole)
            steps += [(now, int(step)) for step in _STEP.findall(whole)]
        if not killed_at and steps and steps[-1][1] >= options.kill_at:
            for host in hosts.slices[1]:
                host.vanish()
            killed_at = now
            reached = max(step for _, step in steps)
            seen = len(steps)
        if killed_at and not back_at and now - killed_at >= options.away:
            back_at = now
            hosts.add_slice(1)
        if back_at:
            hosts.advance()
        if state is not None and state.ended:
            break
        time.sleep(0.2)
    after = steps[seen:] if killed_at else []
    settled = [(at, step) for at, step in after if at > killed_at + 2]  # what was under way when the slice went
    last = max((step for _, step in steps), default=-1)
    whole_run = time.monotonic() - began
    return {
        "succeeded": state is not None and state.status == "SUCCEEDED",
        "stepReached": last,
        "secondsToNextStep": _since(killed_at, settled, -1),
        "secondsToNewStep": _since(killed_at, settled, reached if killed_at else -1),
        "stepsTrainedAgain": max(0, reached - min((s for _, s in settled), default=reached) + 1) if killed_at else 0,
        "wholeRunSeconds": round(whole_run, 1),
        "usefulStepsPerSecond": round((last + 1) / whole_run, 3),
    }


def _since(start: float, steps: list[tuple[float, int]], beyond: int) -> float | None:
    return next((round(at - start, 1) for at, step in steps if step > beyond), None)


def _options() -> argparse.Namespace:
    parser = command_line.parser(__doc__, starts_trainer=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--kill-at", type=int, default=40)
    parser.add_argument("--away", type=float, default=45, help="seconds until the slice is given back")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
