"""What came of a local run: facts for `--output json`, the same as a short summary, and a picture."""

import importlib.util
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from driver.local.progress import duration

_MEAN_OF = 10


def facts(
    run: Mapping[str, Any],
    work: Path,
    *,
    succeeded: bool,
    cause: str,
    begun: float,
    ended: float,
    events: Sequence[Mapping[str, Any]],
    log: Path,
) -> dict[str, Any]:
    """The result of a run as `--output json` prints it (docs/local.md).

    run: run.yaml. work: the folder with the trainer's files, whose reader of records is used. begun, ended: unix
    seconds of the command. events: `{"time", "text"}`, what was done to the slices.
    """
    folder = Path(run["outputDirectory"]) / run["name"]
    history = _reader(work).read(folder / "progress")
    losses = [record["loss"] for record in history.steps.values() if "loss" in record]
    # Records of earlier jobs of the same run are in the same folder.
    trained = [record for record in history.steps.values() if record["time"] >= begun]
    sessions = [record for record in history.sessions if record["time"] >= begun]
    checkpoint = max((int(path.name) for path in (folder / "checkpoints").glob("*") if path.name.isdigit()), default=-1)
    return {
        "run": run["name"],
        "succeeded": succeeded,
        "cause": cause,
        "steps": run["steps"],
        "slicesMin": run["slices"]["min"],
        "slicesMax": run["slices"]["max"],
        "lastStep": max(history.steps, default=-1),
        "lastCheckpoint": history.end["last_checkpoint"] if succeeded and history.end else checkpoint,
        "stepsTrained": len(trained),
        "lossFirst": statistics.fmean(losses[:_MEAN_OF]) if losses else None,
        "lossLast": statistics.fmean(losses[-_MEAN_OF:]) if losses else None,
        "evalLosses": [{"step": step, "loss": record["loss"]} for step, record in history.evals.items()],
        "medianStepSeconds": _median(trained, "step_seconds"),
        "medianTokensPerSecondPerChip": _median(trained, "tokens_per_second_per_chip"),
        "wallSeconds": round(ended - begun, 1),
        "secondsToFirstStep": round(min(record["time"] for record in trained) - begun, 1) if trained else None,
        "restarts": max(0, len(sessions) - 1),
        "sessions": [{key: record[key] for key in ("time", "slices", "start_step")} for record in sessions],
        "events": list(events),
        "folder": str(folder),
        "log": str(log),
        "picture": str(_draw(history, events, run, folder / "progress.png")) if history.steps else None,
    }


def summary(facts: Mapping[str, Any], console: Console, next_command: str) -> None:
    """Prints the facts for a person."""
    rows: list[tuple[str, str]] = []
    first, last = facts["lossFirst"], facts["lossLast"]
    if first is not None:
        rows.append(("loss", f"{first:.3f} → {last:.3f} (means of the first and last {_MEAN_OF} steps)"))
    if facts["evalLosses"]:
        rows.append(("evaluation", ", ".join(f"{e['loss']:.3f} at step {e['step']}" for e in facts["evalLosses"][-4:])))
    rows.append(("checkpoint", f"step {facts['lastCheckpoint']}" if facts["lastCheckpoint"] >= 0 else "none"))
    times = f"{duration(facts['wallSeconds'])} in all"
    if facts["secondsToFirstStep"] is not None:
        times += f", {duration(facts['secondsToFirstStep'])} to the first step"
    if facts["medianStepSeconds"] is not None:
        tokens = facts["medianTokensPerSecondPerChip"]
        times += f", then {facts['medianStepSeconds']:.3f} s a step ({tokens:,.0f} tokens/s per chip)"
    rows.append(("time", times))
    if facts["restarts"]:
        rows.append(("restarts", str(facts["restarts"])))
    rows += [("files", facts["folder"]), ("log", facts["log"])]
    if facts["picture"]:
        rows.append(("picture", facts["picture"]))
    if next_command:
        rows.append(("next", next_command))
    result = "[bold green]succeeded[/]" if facts["succeeded"] else "[bold red]failed[/]"
    console.print(
        f"\nRun [bold]{facts['run']}[/] {result}: step {facts['lastStep']} of {facts['steps'] - 1}", soft_wrap=True
    )
    if facts["succeeded"] and not facts["stepsTrained"]:
        console.print("It was complete before: nothing was left to train. --steps N trains on.")
    if facts["cause"]:
        console.print(facts["cause"], style="red", markup=False, soft_wrap=True)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, Text(text))  # as it stands: paths and commands may have brackets
    console.print(table)


def _draw(history: Any, events: Sequence[Mapping[str, Any]], run: Mapping[str, Any], path: Path) -> Path:
    """Loss over steps above, throughput and slices over time below; dotted where a group of workers started, dashed
    where a slice was taken or given."""
    from matplotlib.figure import Figure  # takes a second, which `--help` need not wait for

    records = list(history.steps.values())
    first = min(record["time"] for record in records)
    unit, seconds = ("minutes", 60) if records[-1]["time"] - first > 600 else ("seconds", 1)
    times = [(record["time"] - first) / seconds for record in records]
    timed = [(record["time"] - first) / seconds for record in records if "tokens_per_second_per_chip" in record]
    figure = Figure(figsize=(9, 6), layout="constrained")
    loss, rate = figure.subplots(2, 1)

    loss.plot(list(history.steps), [record.get("loss") for record in records], color="tab:blue", label="training")
    if history.evals:
        evals = [record["loss"] for record in history.evals.values()]
        loss.plot(list(history.evals), evals, "o", color="tab:orange", label="evaluation")
        loss.legend(frameon=False)
    loss.set(title=f"Run {run['name']}", xlabel="step", ylabel="loss")

    rate.plot(timed, _throughput(records, run["tpu"]), color="tab:green", linewidth=1)
    rate.set(xlabel=f"{unit} since the first step", ylabel="tokens/s, all chips", ylim=(0, None))
    slices = rate.twinx()
    slices.step(times, [record["slices"] for record in records], where="post", color="tab:gray", alpha=0.6)
    slices.set(ylabel="slices", ylim=(0, run["slices"]["max"] + 0.5), yticks=range(run["slices"]["max"] + 1))
    for session in history.sessions[1:]:
        loss.axvline(session["start_step"], color="tab:gray", linestyle=":")
        rate.axvline((session["time"] - first) / seconds, color="tab:gray", linestyle=":")
    for event in events:
        if event["time"] >= first:
            rate.axvline((event["time"] - first) / seconds, color="tab:red", linestyle="--", linewidth=0.8)
    figure.savefig(path, dpi=110)
    return path


def _throughput(records: Sequence[Mapping[str, Any]], tpu: Mapping[str, Any]) -> list[float]:
    """Tokens per second of all chips; the median of five steps, because the two around a checkpoint share its time."""
    chips = tpu["hostsPerSlice"] * tpu["chipsPerHost"]
    single = [
        record["tokens_per_second_per_chip"] * record["slices"] * chips
        for record in records
        if "tokens_per_second_per_chip" in record
    ]
    return [statistics.median(single[max(0, at - 2) : at + 3]) for at in range(len(single))]


def _median(records: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [record[key] for record in records if key in record]
    return statistics.median(values) if values else None


def _reader(work: Path) -> ModuleType:
    """The trainer's own reader of its records, from the files that the chart rendered."""
    specification = importlib.util.spec_from_file_location("maxtext_multislice_metrics", work / "metrics.py")
    if specification is None or specification.loader is None:
        raise ImportError(str(work / "metrics.py"))
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up there
    specification.loader.exec_module(module)
    return module
