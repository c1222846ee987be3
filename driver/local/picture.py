"""A picture of a run: loss over steps, and throughput with the number of slices over time."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Step = Mapping[str, Any]


def draw(history: Any, events: Sequence[Mapping[str, Any]], run: Mapping[str, Any], path: Path) -> Path:
    """Loss over steps above, throughput and slices over time below.

    Dotted where a group of workers started, dashed where something was done to a slice (events of kind "slice").
    """
    from matplotlib.figure import Figure  # takes a second, which `--help` need not wait for

    first = min(step["time"] for step in history.steps.values())
    last = max(step["time"] for step in history.steps.values())
    unit, seconds = ("minutes", 60) if last - first > 600 else ("seconds", 1)
    figure = Figure(figsize=(9, 6), layout="constrained")
    loss, rate = figure.subplots(2, 1)

    loss.plot(list(history.steps), [step.get("loss") for step in history.steps.values()], label="training")
    if history.evals:
        loss.plot(list(history.evals), [step["loss"] for step in history.evals.values()], "o", label="evaluation")
        loss.legend(frameon=False)
    loss.set(title=f"Run {run['name']}", xlabel="step", ylabel="loss")

    chips = run["tpu"]["hostsPerSlice"] * run["tpu"]["chipsPerHost"]
    slices = rate.twinx()
    # Group by group, so that no line is drawn over the time in which nothing was trained.
    for _, steps in itertools.groupby(history.steps.values(), key=lambda step: (step["attempt"], step["session"])):
        group = list(steps)
        times = [(step["time"] - first) / seconds for step in group]
        rate.plot(times, _throughput(group, chips), color="tab:green")
        slices.plot(times, [step["slices"] for step in group], color="tab:gray", linewidth=3, alpha=0.5)
    rate.set_title("dashed: a slice is taken or given; dotted: the workers start", fontsize="small")
    rate.set(xlabel=f"{unit} since the first step", ylabel="tokens/s, all chips (green)", ylim=(0, None))
    most = run["slices"]["max"]
    slices.set(ylabel="slices (gray)", ylim=(0, most + 0.5), yticks=range(most + 1))

    for session in history.sessions[1:]:
        loss.axvline(session["start_step"], color="tab:gray", linestyle=":")
        rate.axvline((session["time"] - first) / seconds, color="tab:gray", linestyle=":")
    for event in events:
        if event["kind"] == "slice" and event["time"] >= first:
            rate.axvline((event["time"] - first) / seconds, color="tab:red", linestyle="--")
    figure.savefig(path, dpi=110)
    return path


def _throughput(steps: Sequence[Step], chips_per_slice: int) -> list[float]:
    """Tokens per second of all chips; the median of five steps, because the two around a checkpoint share its time."""
    single = [step.get("tokens_per_second_per_chip", math.nan) * step["slices"] * chips_per_slice for step in steps]
    windows = (single[max(0, at - 2) : at + 3] for at in range(len(single)))
    return [statistics.median([rate for rate in window if not math.isnan(rate)] or [math.nan]) for window in windows]
