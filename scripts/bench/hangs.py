"""Does an emulated run hang? Trains the same small run many times over two emulated hosts and counts what finishes.

    scripts/bench/run hangs [--runs 50] [--steps 150] [--slices 2] [--stall 120] [--output json]

CPU collectives between processes have hung in long runs with FSDP (docs/design.md); the emulation shards by data only.
Each run is what a worker of `driver local` does, without Ray: the same arguments and environment, one process a host.
The processes are forked from one that has imported MaxText, so that a run costs its steps and not its imports.
A run that makes no step for `--stall` seconds counts as hung.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import arguments
from rich.console import Console
from rich.progress import track
from run import Run

from driver.local import environment, machine, training
from driver.values import Values, find_file
from scripts.bench import command_line

WORKER = Path(__file__).with_name("hangs_worker.py")


def main() -> int:
    options = _options()
    console = Console(stderr=True)
    python = environment.trainer_python(options.trainer_python)
    with tempfile.TemporaryDirectory(prefix="bench-hangs-") as folder:
        run = _run(options, Path(folder))
        request = {
            "hosts": run.hosts(options.slices),
            "slices": options.slices,
            "steps": options.steps,
            "stallSeconds": options.stall,
            "argv": arguments.argv(run, options.slices, "base.yml")[2:],
            "trainer": str(Path(arguments.__file__).parent),
        }
        variables = machine.environment(python, arguments.worker_environment(run))
        command = [*machine.DIES_WITH_PARENT, str(python), str(WORKER), json.dumps(request)]
        results = []
        with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              stderr=(Path(folder) / "log").open("w")) as worker:  # fmt: skip
            assert worker.stdin is not None
            assert worker.stdout is not None
            for number in track(range(options.runs), "runs", console=console):
                print(f"run-{number}", file=worker.stdin, flush=True)
                line = worker.stdout.readline()
                if not line:
                    sys.exit(f"the worker ended:\n{(Path(folder) / 'log').read_text()[-3000:]}")
                results.append(json.loads(line))
                if results[-1]["outcome"] != "finished" or not console.is_terminal:
                    console.print(results[-1])
            worker.stdin.close()
    return _report(results, options)


def _run(options: argparse.Namespace, out: Path) -> Run:
    sets = [f"tpu.slices={options.slices}", f"job.steps={options.steps}", "job.maxtext.checkpoint_period=50"]
    sets += [f"tpu.topology={options.topology}"] if options.topology else []
    request = training.Request(Values((find_file("tiny"),), tuple(sets), ()), out)
    return Run.model_validate(training.plan(request).run)


def _report(results: list[dict[str, object]], options: argparse.Namespace) -> int:
    count = {name: sum(r["outcome"] == name for r in results) for name in ("finished", "hung", "failed")}
    seconds = [float(str(r["seconds"])) for r in results if r["outcome"] == "finished"]
    median = round(statistics.median(seconds), 1) if seconds else None
    facts = {**count, "medianRunSeconds": median, "steps": options.steps, "runs": results}
    title = f"{len(results)} runs of {options.steps} steps"
    columns = (*count, "median run, s")
    command_line.answer(options.output, facts, command_line.table(title, columns, [(*count.values(), median)]))
    return 0 if count["finished"] == len(results) else 1


def _options() -> argparse.Namespace:
    parser = command_line.parser(__doc__, starts_trainer=True)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--slices", type=int, default=2)
    parser.add_argument("--topology", help="of a slice [the tiny profile's: 2x2, one host of 4 chips]; 1x1, 2x4")
    parser.add_argument("--stall", type=float, default=120, help="seconds without a step that count as a hang")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
