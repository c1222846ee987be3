"""A picture of a run: loss over steps, and throughput with the number of slices over time."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def draw(history: Any, events: Sequence[Mapping[str, Any]], run: Mapping[str, Any], path: Path) -> Path:
    """Loss over steps above, throughput and slices over time below; dotted where a group of workers started, dashed
    where a slice was taken or given."""
    from matplotlib.figure import Figure  # takes a second, which `--help` need not wait for

    steps = list(history.steps.values())
    first = min(step["time"] for step in steps)
    unit, seconds = ("minutes", 60) if steps[-1]["time"] - first > 600 else ("seconds", 1)
    times = [(step["time"] - first) / seconds for step in steps]
    timed = [(step["time"] - first) / seconds for step in steps if "tokens_per_second_per_chip" in step]
    figure = Figure(figsize=(9, 6), layout="constrained")
    loss, rate = figure.subplots(2, 1)

    loss.plot(list(history.steps), [step.get("loss") for step in steps], color="tab:blue", label="training")
    if history.evals:
        evals = [step["loss"] for step in history.evals.values()]
        loss.plot(list(history.evals), evals, "o", color="tab:orange", label="evaluation")
        loss.legend(frameon=False)
    loss.set(title=f"Run {run['name']}", xlabel="step", ylabel="loss")

    rate.plot(timed, _throughput(steps, run["tpu"]), color="tab:green", linewidth=1)
    rate.set(xlabel=f"{unit} since the first step", ylabel="tokens/s, all chips", ylim=(0, None))
    slices = rate.twinx()
    slices.step(times, [step["slices"] for step in steps], where="post", color="tab:gray", alpha=0.6)
    slices.set(ylabel="slices", ylim=(0, run["slices"]["max"] + 0.5), yticks=range(run["slices"]["max"] + 1))
    for session in history.sessions[1:]:
        loss.axvline(session["start_step"], color="tab:gray", linestyle=":")
        rate.axvline((session["time"] - first) / seconds, color="tab:gray", linestyle=":")
    for event in events:
        if event["time"] >= first:
            rate.axvline((event["time"] - first) / seconds, color="tab:red", linestyle="--", linewidth=0.8)
    figure.savefig(path, dpi=110)
    return path


def _throughput(steps: Sequence[Mapping[str, Any]], tpu: Mapping[str, Any]) -> list[float]:
    """Tokens per second of all chips; the median of five steps, because the two around a checkpoint share its time."""
    chips = tpu["hostsPerSlice"] * tpu["chipsPerHost"]
    single = [
        step["tokens_per_second_per_chip"] * step["slices"] * chips
        for step in steps
        if "tokens_per_second_per_chip" in step
    ]
    return [statistics.median(single[max(0, at - 2) : at + 3]) for at in range(len(single))]
