"""What `driver plan` prints for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from driver.plan.search import Found, Tally
from driver.plan.verdict import StepTime, Verdict, chips, usable_gib

_GIB = 2.0**30
_STYLES = {"yes": "green", "no": "red", "too close to tell": "yellow"}


def title(run: Mapping[str, Any]) -> str:
    tpu, slices = run["tpu"], run["slices"]
    some = f"{slices['min']} to {slices['max']}" if slices["min"] < slices["max"] else str(slices["max"])
    shape = f"{some} x {tpu['type']} {tpu['topology']}"
    count = chips(run, slices["max"])
    return f"{run['name']} on {shape}, {count} {'chip' if count == 1 else 'chips'}"


def facts(verdicts: Sequence[Verdict], names: Sequence[str]) -> Table:
    """One column for each verdict: its memory by kind, its step by parts, what it moves and costs."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for label, cells in rows(verdicts):
        table.add_row(label, *(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
    return table


def rows(verdicts: Sequence[Verdict]) -> list[tuple[str, list[str]]]:
    """All figures: a label, and a cell for each verdict. A figure that none of them has is left out."""
    kinds = _in_order(kind for v in verdicts if v.memory for kind in v.memory.kinds)
    parts = _in_order(part for v in verdicts if v.step for part in v.step.parts)
    found = [("fits", [_fits(v) for v in verdicts])]

    def add(label: str, values: Sequence[str | None]) -> None:
        if any(value is not None for value in values):
            found.append((label, [value or "-" for value in values]))

    add(
        "HBM per device, GiB",
        [f"{v.memory.total:.2f} of {v.usable_gib:g}" if v.memory is not None else None for v in verdicts],
    )
    for kind in kinds:
        add(f"  {kind}", [_number(v.memory.kinds.get(kind), "{:.2f}") if v.memory else None for v in verdicts])
    add("  in host memory", [_number(v.memory.host_gib or None, "{:.2f}") if v.memory else None for v in verdicts])
    add("predicted step, s", [seconds(v.step) if v.step else None for v in verdicts])
    for part in parts:
        add(f"  {part}", [_number(v.step.parts.get(part), "{:.3f}") if v.step else None for v in verdicts])
    for label, rate, form in (
        ("tokens/s per chip", "tokensPerSecondPerChip", "{:,.0f}"),
        ("TFLOP/s per chip", "tflopsPerChip", "{:.1f}"),
        ("MFU", "mfu", "{:.1%}"),
    ):
        add(label, [_bounded("at most", v, _number(v.rates.get(rate), form)) for v in verdicts])
    add("over ICI per chip and step, GiB", [_gib(v.step.ici_bytes) if v.step else None for v in verdicts])
    add("over DCN per chip and step, GiB", [_gib(v.step.dcn_bytes) if v.step else None for v in verdicts])
    add("checkpoint, GB", [_number(v.checkpoint_gb, "{:,.1f}") for v in verdicts])
    for label, cost in (
        ("cost per step", "perStep"),
        ("cost per billion tokens", "perBillionTokens"),
        ("cost of the run", "run"),
    ):
        add(label, [_bounded("at least", v, _money(v.cost.get(cost))) for v in verdicts])
    return found


def largest(verdict: Verdict) -> Table:
    """The largest tensors in HBM."""
    table = Table(box=None, pad_edge=False, title="Largest in HBM", title_justify="left")
    table.add_column("GiB", justify="right")
    table.add_column("what")
    for tensor in verdict.memory.largest if verdict.memory else ():
        table.add_row(f"{tensor.gib:.2f}", Text(tensor.name))
    return table


def fixes(verdicts: Sequence[Verdict]) -> Table:
    """The single changes that fit, the best first."""
    table = Table(box=None, pad_edge=False, title="Single changes that fit, each compiled", title_justify="left")
    timed = any(verdict.step for verdict in verdicts)
    for heading in ("change", "HBM, GiB", *(["predicted, s"] if timed else []), "--set"):
        table.add_column(heading, justify="left" if heading in ("change", "--set") else "right")
    for verdict in verdicts:
        says = f"{verdict.says} ({verdict.warns})" if verdict.warns else verdict.says
        predicted = [seconds(verdict.step) if verdict.step else "-"] if timed else []
        total = f"{verdict.memory.total:.2f}" if verdict.memory else "-"
        table.add_row(says, total, *predicted, set_argument(dict(verdict.case.changes)))
    return table


def set_argument(changes: Mapping[str, Any]) -> str:
    """The changes as one `--set` of Helm's."""
    return ",".join(f"job.maxtext.{key}={_helm(value)}" for key, value in changes.items())


def found(ranked: Sequence[Found]) -> Table:
    """What a search has found, the fastest first."""
    table = Table(box=None, pad_edge=False)
    head, *lines = found_rows(ranked)
    for heading in head:
        table.add_column(heading, justify="left" if heading == head[-1] else "right")
    for cells in lines:
        table.add_row(*(Text(cell, style="" if cells[0] else "dim") for cell in cells))
    return table


def found_rows(ranked: Sequence[Found], most: int = 12) -> list[list[str]]:
    """Below their headings; how many more there are is the last one."""
    lines = [["", "HBM, GiB", "predicted, s", "sharding, batch and what is kept"]]
    for place, one in enumerate(ranked[:most], 1):
        predicted = seconds(one.step) if one.step else "-"
        lines.append([str(place), f"{one.hbm_gib:.2f}", predicted, one.candidate.says])
    left = len(ranked) - most
    return [*lines, ["", "", "", f"and {left} more that fit"]] if left > 0 else lines


def progress(run: Mapping[str, Any], tally: Tally) -> RenderableType:
    """How far a search is, and the best so far."""
    head = (
        f"{tally.phase}: {tally.compiled} compiled, {len(tally.fitting)} fit; dropped {tally.by_bound} by the bound,"
        f" {tally.by_neighbour} by a neighbour, {tally.too_slow} as too slow; {tally.candidates} in all"
    )
    best = tally.best
    if best is None:
        return Text(head)
    predicted = f", {seconds(best.step)} s predicted" if best.step else ""
    usable = usable_gib(run)
    said = f"best so far: {best.candidate.says} ({best.hbm_gib:.2f} of {usable:g} GiB{predicted})"
    return Group(Text(head), Text(said, style="bold"))


def _bounded(how: str, verdict: Verdict, cell: str | None) -> str | None:
    """A figure that comes of a step time; of a program without code that is too short."""
    return f"{how} {cell}" if cell and verdict.step and not verdict.step.generated else cell


def seconds(step: StepTime) -> str:
    """Of a program without code the time is too short."""
    return f"{step.seconds:.3f}" if step.generated else f"at least {step.seconds:.3f}"


def _fits(verdict: Verdict) -> str:
    """What else refuses a run ends the plan; of memory alone there is something to tell."""
    return "yes" if verdict.fits else "too close to tell" if verdict.close else "no"


def _in_order(names: Any) -> list[str]:
    return list(dict.fromkeys(names))


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else form.format(value)


def _money(value: float | None) -> str | None:
    """Cents, and of less than one the first digits."""
    return None if value is None else f"{value:,.2f}" if value >= 1 else f"{value:.3g}"


def _gib(value: float | None) -> str | None:
    return None if value is None else f"{value / _GIB:,.2f}"


def _helm(value: Any) -> str:
    if value is None:
        return "null"
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
