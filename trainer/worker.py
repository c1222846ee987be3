"""The training loop of one host: checks the devices, runs MaxText's own main, and tells the truth about its end."""

from typing import Any

import arguments
import checkpoints
import data_iterator
import emulation
from progress import Reporter, listen
from run import Run
from watchdog import Watchdog


def train(config: dict[str, Any]) -> None:
    """Ray Train's train_loop_per_worker. `config["run"]` is the run file's content.

    Raises:
        RuntimeError: the devices are not those of the run, MaxText failed, or it stopped before the last step.
    """
    import jax
    import ray.train

    run = Run.model_validate(config["run"])
    slices = ray.train.get_context().get_world_size() // run.tpu.hosts_per_slice
    first = jax.process_index() == 0
    _check_devices(run, slices)
    reporter = Reporter(run, slices) if first else None
    with Watchdog(run.timeouts.stall_seconds, reporter.stalled if reporter else lambda _: None) as watchdog:
        listen(reporter, watchdog.beat)
        if reporter:
            reporter.start()
        try:
            _run_maxtext(run, slices)
        finally:
            if reporter:
                reporter.close()
    if first:
        _check_end(run)


def _run_maxtext(run: Run, slices: int) -> None:
    from absl import logging
    from maxtext.trainers.pre_train import train as pre_train

    logging.set_verbosity(logging.INFO)  # MaxText tells its steps at this level only
    if run.data.kind != "synthetic":
        data_iterator.install()
    argv = arguments.argv(run, slices, arguments.base_config())
    if run.tpu.emulated:
        argv += [f"{key}={value}" for key, value in emulation.install(slices).items()]
    try:
        pre_train.main(argv)
    except SystemExit as error:
        raise RuntimeError(f"MaxText ended the process with status {error.code}") from error
    except Exception as error:
        if type(error).__module__ == "builtins":
            raise
        # The head may have neither JAX nor MaxText, and could not load an exception of theirs.
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _check_devices(run: Run, slices: int) -> None:
    import jax

    local, total = jax.local_device_count(), jax.device_count()
    if local != run.tpu.chips_per_host or total != run.chips(slices):
        raise RuntimeError(
            f"JAX sees {local} {jax.default_backend()} devices on this host and {total} in all; the run asked for"
            f" {run.tpu.chips_per_host} and {run.chips(slices)} ({slices} slices of {run.tpu.type} {run.tpu.topology})."
            " Do tpu.topology and tpu.chipsPerHost agree with the node pool?"
        )


def _check_end(run: Run) -> None:
    """MaxText returns normally after SIGTERM; Ray Train must hear that the run is not done."""
    if not run.checkpointing:
        return
    last = checkpoints.last_complete(run.checkpoints)
    if last < run.steps - 1:
        raise RuntimeError(f"MaxText stopped with its last whole checkpoint at step {last} of {run.steps - 1}")
