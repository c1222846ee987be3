"""The entry point of a run, on the Ray head: `python train.py run.yaml`.

Waits for its turn, trains with Ray Train's JaxTrainer, checks the last checkpoint. Exit code 0 means that the run is
complete: its last whole checkpoint is at or past the last step. 1: it failed; 2: the run file cannot work.
`--check` trains nothing: it prints, as JSON, what MaxText would be told and what an emulated host would need.
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import arguments
import checkpoints
import metrics
from run import Run, RunFileError, load


def main() -> int:
    parser = argparse.ArgumentParser(description="Trains MaxText as a run file says, on the Ray cluster at hand.")
    parser.add_argument("run_file", type=Path)
    parser.add_argument("--check", action="store_true", help="check the run file against the installed MaxText only")
    options = parser.parse_args()
    try:
        run = load(options.run_file)
        arguments.check(run)
        if options.check:
            import check

            print(json.dumps(check.report(run)))
            return 0
    except RunFileError as error:
        return _failed(str(error), 2)
    return train(run)


def train(run: Run) -> int:
    """Runs to the end, or says why not; the exit code."""
    import ray
    import turn

    ray.init(namespace=turn.NAMESPACE)
    try:
        with turn.wait(run):
            if complete(run):
                print(f"run {run.name} is complete: {_where(run)}. Raise job.steps to train further", flush=True)
                return 0
            started = time.time()
            message = fit(run, started) or _incomplete(run, started)
            _record_end(run, message)
    except turn.TurnTimeoutError as error:
        return _failed(str(error), 1)
    if message:
        return _failed(message, 1)
    print(f"run {run.name} succeeded: {_where(run)}", flush=True)
    return 0


def fit(run: Run, started: float) -> str:
    """Trains; the cause of the failure in one line, empty when Ray Train says that all went well."""
    from ray.train import TrainingFailedError

    try:
        trainer(run, started).fit()
    except TrainingFailedError as error:
        return _cause(error, run, started)
    return ""


def trainer(run: Run, started: float) -> Any:
    """The JaxTrainer of a run: one worker a host, whole slices only. `started`: unix seconds."""
    import ranks
    import worker
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.jax import JaxTrainer

    workers = (run.hosts(run.slices.min), run.hosts(run.slices.max))
    runtime_env: dict[str, Any] = {"env_vars": arguments.worker_environment(run)}
    if run.runtime_install.packages:
        runtime_env["uv"] = {
            "packages": run.runtime_install.packages,
            "uv_pip_install_options": run.runtime_install.options,
        }
    failures = {"max_failures": run.failures.max_failures, "max_preemption_failures": run.failures.max_preemptions}
    known = {field.name for field in dataclasses.fields(FailureConfig)}  # preemptions have a count since Ray 2.60
    return JaxTrainer(
        worker.train,
        train_loop_config={"run": run.model_dump(by_alias=True), "started": started},
        jax_config=ranks.OrderedJaxConfig(
            use_tpu=True, topology=run.tpu.topology, hosts_per_slice=run.tpu.hosts_per_slice
        ),
        scaling_config=ScalingConfig(
            use_tpu=True,
            num_workers=workers if run.elastic.enabled else workers[1],
            topology=run.tpu.topology,
            accelerator_type=run.tpu.ray_accelerator_type,
            resources_per_worker={"TPU": run.tpu.chips_per_host},
            placement_strategy="SPREAD",
            elastic_resize_monitor_interval_s=run.elastic.resize_interval_seconds,
        ),
        run_config=RunConfig(
            name=run.name,
            storage_path=str(run.folder / "ray"),
            failure_config=FailureConfig(**{k: v for k, v in failures.items() if k in known}),
            worker_runtime_env=runtime_env,
        ),
    )


def complete(run: Run) -> bool:
    """Whether nothing is left to train. Without checkpoints every job trains from the start."""
    return run.checkpointing and checkpoints.last_complete(run.checkpoints) >= run.steps - 1


def _incomplete(run: Run, started: float) -> str:
    if run.checkpointing:
        if complete(run):
            return ""
        last = checkpoints.last_complete(run.checkpoints)
        return f"training ended with its last whole checkpoint at step {last} of {run.steps - 1}: {run.checkpoints}"
    last = max((n for n, step in _history(run).steps.items() if step["time"] >= started), default=-1)
    return "" if last >= run.steps - 1 else f"training ended at step {last} of {run.steps - 1}"


def _cause(error: Any, run: Run, started: float) -> str:
    """The most telling line of a failed training: a worker's own exception before the death of its neighbours."""
    history = _history(run)
    began = max((session["time"] for session in history.sessions), default=started)
    stall = next((s for s in reversed(history.stalls) if s["time"] >= max(started, began)), None)
    if stall:
        return (
            f"the workers made no progress for {stall['seconds']:g} s and were ended (job.stallTimeoutSeconds);"
            f" the last that MaxText said: {stall['last_words']}"
        )
    failures: dict[int, Exception] = getattr(error, "worker_failures", {})
    told = {rank: _last_line(failure) for rank, failure in sorted(failures.items())}
    own = {rank: text for rank, text in told.items() if hasattr(failures[rank], "_traceback_str")}
    for rank, text in (own or told).items():
        return f"worker {rank}: {text}"
    return _last_line(getattr(error, "controller_failure", error))


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _record_end(run: Run, message: str) -> None:
    last = checkpoints.last_complete(run.checkpoints)
    now = time.time()
    record = {"kind": "end", "attempt": run.attempt, "time": now, "succeeded": not message,
              "last_checkpoint": last, "message": message}  # fmt: skip
    try:
        metrics.write(run.progress, [record], run.steps, int(now * 1000))
    except OSError as error:
        print(f"the end of the run could not be recorded in {run.progress}: {error}", file=sys.stderr)


def _history(run: Run) -> metrics.History:
    """The run's records; none where the storage fails, so that it does not hide why the run did."""
    try:
        return metrics.read(run.progress)
    except (OSError, ValueError) as error:
        print(f"the records in {run.progress} cannot be read: {error}", file=sys.stderr)
        return metrics.History()


def _where(run: Run) -> str:
    return f"last checkpoint at step {checkpoints.last_complete(run.checkpoints)}, in {run.checkpoints}"


def _failed(message: str, code: int) -> int:
    print(f"run failed: {message}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
