"""What does the trainer cost? A step of a run through `driver local` against the same step of MaxText alone.

    scripts/bench/run overhead [--pairs 3] [--steps 300] [--output json]

One emulated slice of one host with one chip, so that nothing but the trainer and Ray is between the two: MaxText's
process has the same arguments and environment in both. Runs alternate; a run's figure is its median wall time of a
step after the first ten, and the ratio is that of the medians. Ray's own processes share the machine's cores with the
training, which they do not on a TPU host.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import arguments
import metrics
from rich.console import Console
from run import Run

from driver.local import environment, machine, training
from driver.values import Values, find_file
from scripts.bench import command_line

WORKER = Path(__file__).with_name("hangs_worker.py")
_SKIPPED_STEPS = 10


def main() -> int:
    options = _options()
    console = Console(stderr=True)
    python = environment.trainer_python(options.trainer_python)
    through: list[float] = []
    alone: list[float] = []
    with tempfile.TemporaryDirectory(prefix="bench-overhead-") as folder:
        for pair in range(options.pairs):
            sets = [f"job.runName=pair-{pair}", f"job.steps={options.steps}", "tpu.topology=1x1", "tpu.slices=1"]
            sets.append(f"job.maxtext.per_device_batch_size={options.batch},job.maxtext.checkpoint_period=100000")
            request = training.Request(
                Values((find_file("tiny"),), tuple(sets), ()), Path(folder), trainer_python=python
            )
            with console.status(f"pair {pair + 1} of {options.pairs}"):
                alone.append(_alone(Run.model_validate(training.plan(request).run), python, Path(folder)))
                through.append(_through(request))
            console.print(
                f"pair {pair + 1}: MaxText alone {alone[-1]:.4f} s, through the trainer {through[-1]:.4f} s a step"
            )
    ratio = round(statistics.median(through) / statistics.median(alone), 4)
    rows = [(f"pair {number}", *each) for number, each in enumerate(zip(alone, through, strict=True), 1)]
    title = f"Seconds a step; ratio of the medians {ratio}"
    table = command_line.table(title, ("", "MaxText alone", "through the trainer"), rows)
    command_line.answer(options.output, {"aloneSeconds": alone, "throughSeconds": through, "ratio": ratio}, table)
    return 0


def _through(request: training.Request) -> float:
    facts: dict[str, object] = {}
    if not training.train(request, Console(stderr=True, quiet=True), facts.update):
        sys.exit(f"the run failed: {facts.get('cause')}")
    steps = metrics.read(Path(str(facts["folder"])) / "progress").steps
    return statistics.median(s["step_seconds"] for n, s in steps.items() if n > _SKIPPED_STEPS and "step_seconds" in s)


def _alone(run: Run, python: Path, folder: Path) -> float:
    request = {
        "hosts": 1,
        "slices": 1,
        "steps": run.steps,
        "stallSeconds": 300,
        "argv": [*arguments.argv(run, 1, "base.yml")[2:], f"base_output_directory={folder / 'alone'}"],
        "trainer": str(Path(arguments.__file__).parent),
    }
    command = [*machine.DIES_WITH_PARENT, str(python), str(WORKER), json.dumps(request)]
    variables = machine.environment(python, arguments.worker_environment(run))
    ended = subprocess.run(command, input=f"{run.name}\n", env=variables, capture_output=True, text=True, check=False)
    if not ended.stdout:
        sys.exit(ended.stderr[-3000:])
    return float(json.loads(ended.stdout)["stepSeconds"])


def _options() -> argparse.Namespace:
    parser = command_line.parser(__doc__, starts_trainer=True)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8, help="sequences of 256 tokens a step")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
