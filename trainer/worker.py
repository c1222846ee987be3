"""The training loop of one host: checks the devices, runs MaxText's own main, and tells the truth about its end."""

import logging
from typing import Any

import arguments
import checkpoints
import data_iterator
import emulation
import saved_trainstep
from progress import Reporter, listen
from run import Run
from watchdog import Watchdog

_LONGEST_WORDS = 4000
"""Letters; MaxText lists all of its arguments when it does not know one."""


def train(config: dict[str, Any]) -> None:
    """Ray Train's train_loop_per_worker.

    Args:
        config: `run`, the run file's content, and `started`, when the job began to train, unix seconds.

    Raises:
        RuntimeError: the devices are not those of the run, MaxText failed, or it stopped before the last step.
    """
    import jax
    import ray.train

    run = Run.model_validate(config["run"])
    slices = ray.train.get_context().get_world_size() // run.tpu.hosts_per_slice
    first = jax.process_index() == 0
    _check_devices(run, slices)
    reporter = Reporter(run, slices, config["started"]) if first else None
    words = _LastWords()

    def stalled(seconds: float) -> None:
        if reporter:
            reporter.stalled(seconds, words.last)

    with Watchdog(run.timeouts.stall_seconds, stalled) as watchdog:
        listen(reporter, watchdog.beat)
        if reporter:
            reporter.start()
        try:
            _run_maxtext(run, slices, words)
        finally:
            if reporter:
                reporter.close()
    if first:
        _check_end(run)


def _run_maxtext(run: Run, slices: int, words: "_LastWords") -> None:
    from absl import logging as absl_logging
    from maxtext.trainers.pre_train import train as pre_train

    absl_logging.set_verbosity(absl_logging.INFO)  # MaxText tells its steps at this level only
    if run.data.kind != "synthetic":
        data_iterator.install()
    argv = arguments.argv(run, slices, arguments.base_config())
    if run.tpu.emulated:
        argv += [f"{key}={value}" for key, value in emulation.install(slices).items()]
    saved = saved_trainstep.choose(run, slices)
    if saved:
        saved_trainstep.install()
        argv.append(f"compiled_trainstep_file={saved}")
    absl_logging.get_absl_logger().addHandler(words)
    try:
        pre_train.main(argv)
    except SystemExit as error:
        raise RuntimeError(f"MaxText ended the process with status {error.code}: {words.last}") from error
    except Exception as error:
        if type(error).__module__ == "builtins":
            raise
        # The head may have neither JAX nor MaxText, and could not load an exception of theirs.
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


class _LastWords(logging.Handler):
    """Remembers the newest log line that says something, as one line: MaxText tells why before it ends a process, and
    draws a line of equals signs below it."""

    last = "it said nothing"

    def emit(self, record: logging.LogRecord) -> None:
        said = " ".join(record.getMessage().split())
        if any(letter.isalpha() for letter in said):
            self.last = said[:_LONGEST_WORDS]


def _check_devices(run: Run, slices: int) -> None:
    import jax

    local, total = jax.local_device_count(), jax.device_count()
    if local != run.devices_per_host or total != run.devices(slices):
        raise RuntimeError(
            f"JAX sees {local} {jax.default_backend()} devices on this host and {total} in all; the run asked for"
            f" {run.devices_per_host} and {run.devices(slices)} ({slices} slices of {run.tpu.type} {run.tpu.topology})."
            " Do tpu.topology and tpu.chipsPerHost agree with the node pool?"
        )


def _check_end(run: Run) -> None:
    """MaxText returns normally after SIGTERM; Ray Train must hear that the run is not done."""
    if not run.checkpointing:
        return
    last = checkpoints.last_complete(run.checkpoints)
    if last < run.steps - 1:
        raise RuntimeError(f"MaxText stopped with its last whole checkpoint at step {last} of {run.steps - 1}")
