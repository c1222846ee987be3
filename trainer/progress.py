"""Reports a worker's progress: live as Ray gauges, for keeps as records in the run's folder.

Listens to MaxText's own metric logger and checkpoint call, on process 0 only. Records wait in memory until the next
checkpoint: what a killed group had not written belongs to steps that are trained again anyway.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import checkpoints
import metrics
from ray.util.metrics import Gauge
from run import Run

Record = dict[str, Any]

_GAUGE_SECONDS = 1.0


class Reporter:
    """Gauges and records of one session: the time from one start of the worker group to its end."""

    def __init__(self, run: Run, slices: int, job_started: float):
        """`job_started`: unix seconds; sessions since then are this job's."""
        self._run = run
        self._slices = slices
        self._pending: list[Record] = []
        self._flush_at: int | None = None
        self._previous: float | None = None
        tags = {"run": run.name, "attempt": str(run.attempt)}
        self._gauges = {
            name: Gauge(f"maxtext_{name}", text, tag_keys=tuple(tags)) for name, text in metrics.GAUGES.items()
        }
        for gauge in self._gauges.values():
            gauge.set_default_tags(tags)
        self._values: dict[str, float] = {}
        self._closed = threading.Event()
        history = metrics.read(run.progress)
        self._restarts = sum(session["time"] >= job_started for session in history.sessions)
        self._session = sum(session["attempt"] == run.attempt for session in history.sessions) + 1

    def start(self) -> None:
        """Tells that the group is about to train; written at once, because restarts are counted from it."""
        last = checkpoints.last_complete(self._run.checkpoints)
        self._add("session", last + 1, start_step=last + 1, slices=self._slices,
                  hosts=self._run.hosts(self._slices), chips=self._run.chips(self._slices))  # fmt: skip
        self._set(slices=self._slices, restarts=self._restarts, last_checkpoint_step=last)
        self.flush()
        threading.Thread(target=self._keep_gauges, name="gauges", daemon=True).start()

    def close(self) -> None:
        """The session is over: writes what is pending."""
        self._closed.set()
        self.flush()

    def step(self, step: int, scalars: Mapping[str, Any]) -> None:
        """One trained step; called when its loss is there, so the time between two calls is a step's wall time."""
        now = time.time()
        seconds = now - self._previous if self._previous is not None else None
        self._previous = now
        devices = self._run.tpu.devices_per_chip
        values = {"loss": float(scalars["learning/loss"])}
        if seconds:
            values |= {
                "step_seconds": seconds,
                "tflops_per_chip": devices * float(scalars.get("perf/per_device_tflops", math.nan)) / seconds,
                "tokens_per_second_per_chip": devices
                * float(scalars.get("perf/per_device_tokens", math.nan))
                / seconds,
            }
        self._set(step=step, **values)
        rate = float(scalars.get("learning/current_learning_rate", math.nan))
        record = {k: v for k, v in (values | {"learning_rate": rate}).items() if math.isfinite(v)}
        self._add("step", step, slices=self._slices, restarts=self._restarts, **record)
        if self._flush_at is not None and step >= self._flush_at:
            self._flush_at = None
            self.flush()

    def evaluating(self) -> None:
        """An evaluation ran since the last step: the next step's wall time would count it, so it is left out."""
        self._previous = None

    def evaluation(self, step: int, scalars: Mapping[str, Any]) -> None:
        self.evaluating()
        self._add("eval", step, loss=float(scalars["eval/avg_loss"]), perplexity=float(scalars["eval/avg_perplexity"]))

    def checkpoint(self, step: int) -> None:
        """A checkpoint of `step` began to be saved; the records up to that step follow it to the folder."""
        self._add("checkpoint", step)
        self._flush_at = step

    def stalled(self, seconds: float, last_words: str) -> None:
        """The watchdog ends this worker. `last_words`: the newest line that MaxText or Orbax logged."""
        self._add("stall", 0, seconds=seconds, last_words=last_words)
        self.flush()

    def flush(self) -> None:
        """Writes what is pending as one file."""
        if not self._pending:
            return
        first: int = min(record["start_step" if record["kind"] == "session" else "step"] for record in self._pending)
        metrics.write(self._run.progress, self._pending, first, time.time_ns() // 1_000_000)
        self._pending = []
        self._set(last_checkpoint_step=checkpoints.last_complete(self._run.checkpoints))

    def _add(self, kind: metrics.Kind, step: int, **values: Any) -> None:
        place = {} if kind == "session" else {"step": step}
        self._pending.append(
            {
                "kind": kind,
                "attempt": self._run.attempt,
                "session": self._session,
                **place,
                "time": time.time(),
                **values,
            }
        )

    def _set(self, **values: float) -> None:
        self._values |= values
        for name, value in values.items():
            self._gauges[name].set(value)

    def _keep_gauges(self) -> None:
        """Sets all gauges again and again: Ray (2.60) exports one only while it is being set."""
        while not self._closed.wait(_GAUGE_SECONDS):
            self._set(**self._values)


def listen(reporter: Reporter | None, beat: Callable[[], None]) -> None:
    """Hooks into MaxText (0.2.5): `beat` at every step and evaluation step, and the reporter where there is one.

    MaxText calls its metric logger once a step, one step late, with the values still on the device; the logger's own
    line has fetched the loss by the time it returns.
    """
    from maxtext.common import checkpointing, metric_logger

    class ListeningLogger(metric_logger.MetricLogger):
        def write_metrics(self, metrics: Any, step: int, metric_type: str = "train") -> None:
            super().write_metrics(metrics, step, metric_type)
            beat()
            if reporter is None or not metrics:
                return
            match metric_type:
                case "train":
                    reporter.step(int(step), metrics["scalar"])
                case "eval":
                    reporter.evaluation(int(step), metrics["scalar"])
                case _:
                    reporter.evaluating()

    save = checkpointing.save_checkpoint

    def save_checkpoint(checkpoint_manager: Any, step: int, *args: Any, **kwargs: Any) -> bool:
        saved = save(checkpoint_manager, step, *args, **kwargs)
        beat()
        if saved and reporter is not None:
            reporter.checkpoint(int(step))
        return saved

    metric_logger.MetricLogger = ListeningLogger
    checkpointing.save_checkpoint = save_checkpoint
