"""What came of a local run: facts for `--output json`, the same as a short summary, and a picture."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from driver.local import picture, records
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

    run: run.yaml. work: the folder with the trainer's files, whose readers are used. begun, ended: unix
    seconds of the command. events: Follower.happened.
    """
    folder = Path(run["outputDirectory"]) / run["name"]
    history = records.read(work, folder)
    losses = [record["loss"] for record in history.steps.values() if "loss" in record]
    # Records of earlier jobs of the same run are in the same folder.
    trained = [record for record in history.steps.values() if record["time"] >= begun]
    sessions = [record for record in history.sessions if record["time"] >= begun]
    return {
        "run": run["name"],
        "succeeded": succeeded,
        "cause": cause,
        "steps": run["steps"],
        "slicesMin": run["slices"]["min"],
        "slicesMax": run["slices"]["max"],
        "lastStep": max(history.steps, default=-1),
        "lastCheckpoint": history.end["last_checkpoint"]
        if succeeded and history.end
        else records.last_checkpoint(work, folder),
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
        "picture": str(picture.draw(history, events, run, folder / "progress.png")) if history.steps else None,
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
    where = f"step {facts['lastStep']} of {facts['steps'] - 1}" if facts["lastStep"] >= 0 else "before the first step"
    console.print(f"\nRun [bold]{facts['run']}[/] {result}: {where}", soft_wrap=True)
    if facts["succeeded"] and not facts["stepsTrained"]:
        console.print("It was complete before: nothing was left to train. --steps N trains on.")
    if facts["cause"]:
        console.print(facts["cause"], style="red", markup=False, soft_wrap=True)
    for label, text in rows:
        # Lines are left to the terminal to wrap, so that paths and commands can be copied.
        console.print(Text.assemble((f"{label:<12}", "dim"), text), soft_wrap=True)


def _median(records: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [record[key] for record in records if key in record]
    return statistics.median(values) if values else None
