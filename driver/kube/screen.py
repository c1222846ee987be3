"""What `driver status` and `driver nodes` show to people: the same facts as their JSON, in a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from driver.kube.objects import State
from driver.local.progress import duration

_PHASE_COLOURS = {"succeeded": "green", "training": "green", "failed": "red", "stopped": "dim"}
_STATE_COLOURS = {State.READY.value: "green", State.MISSING.value: "red", State.FAILED.value: "red"}
# More than this and only what is not ready is listed, so that a screen stays one.
_SLICES, _HOSTS, _PODS = 16, 24, 3


def status(facts: Mapping[str, Any]) -> RenderableType:
    """facts: of driver.kube.status."""
    parts: list[RenderableType] = [_headline(facts)]
    if cause := facts["cause"]:
        parts += [Text(cause["found"], "red"), *(Text(text) for text in (cause["rule"], _fix(cause)) if text)]
    elif facts["message"]:
        parts.append(Text(facts["message"], "red"))
    if facts["run"]:
        parts += [Text(line) for line in (_numbers(facts), _safety(facts)) if line]
    if facts["cluster"]:
        parts += [Text(_cluster(facts)), Text()]
    if facts["slices"]:
        parts.append(_slices(facts))
    parts += _pending(facts["pending"])
    parts += [Text(f"Lost {_ago(facts, one['time'])}: {one['pod']}: {one['why']}", "yellow") for one in facts["lost"]]
    parts += [Text(remark, "dim") for remark in facts["remarks"]]
    return Group(*parts)


def nodes(listed: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The rows of `driver nodes`."""
    table = _table("Slice", "Worker", "Ray", "Slice name", "Topology", "Resources", "Address", "Pod")
    for one in listed:
        alive = "[green]alive[/]" if one["alive"] else f"[red]dead[/] {escape(one['message'])}".rstrip()
        # Not what the other columns say again: the slice's name, and the type of its chips.
        resources = ", ".join(
            f"{name} {amount:g}"
            for name, amount in one["resources"].items()
            if name != one["sliceName"] and not name.startswith("accelerator_type:")
        )
        table.add_row(
            _dash(one["slice"]), _dash(one["worker"]), alive, _dash(one["sliceName"]), _dash(one["topology"]),
            escape(resources), one["address"], _dash(one["pod"]),
        )  # fmt: skip
    return table


def _headline(facts: Mapping[str, Any]) -> RenderableType:
    run, phase = facts["run"], facts["phase"]
    said = [(f"{facts['release']} ", "bold"), (phase, _PHASE_COLOURS.get(phase, "yellow"))]
    if run and run["step"] is not None:
        said.append((f"  step {run['step']}{f' of {run["steps"] - 1}' if run['steps'] else ''}", ""))
    if run and run["secondsLeft"] is not None:
        said.append((f"  {duration(run['secondsLeft'])} left", "dim"))
    if run and run["started"] is not None:
        said.append((f", for {duration((run['ended'] or facts['time']) - run['started'])}", "dim"))
    return Text.assemble(*said)


def _numbers(facts: Mapping[str, Any]) -> str:
    run = facts["run"]
    parts = []
    if run["loss"] is not None:
        parts.append(f"loss {run['loss']:.3f}")
    if run["stepSeconds"] is not None:
        parts.append(f"{run['stepSeconds']:.3f} s/step")
    if run["tflopsPerChip"] is not None:
        used = f" (MFU {run['mfu']:.1%})" if run["mfu"] is not None else ""
        parts.append(f"{run['tflopsPerChip']:.3f} TFLOP/s{used}")
    if run["tokensPerSecondPerChip"] is not None:
        parts.append(f"{run['tokensPerSecondPerChip']:,.0f} tokens/s per chip")
    return "  ".join(parts)


def _fix(told: Mapping[str, Any]) -> str:
    return f"Fix: {told['fix']}" if told["fix"] else ""


def _safety(facts: Mapping[str, Any]) -> str:
    """What would be lost now, and how often the run began anew."""
    run = facts["run"]
    parts = []
    if run["lastCheckpoint"] is not None:
        kept = f"checkpoint {run['lastCheckpoint']}" if run["lastCheckpoint"] >= 0 else "no checkpoint"
        at_risk = run["stepsAtRisk"]
        parts.append(kept if at_risk is None else f"{kept}: {_count(at_risk, 'step')} would be lost now")
    if run["restarts"]:
        parts.append(_count(run["restarts"], "restart"))
    if run["retries"]:
        parts.append(f"{_count(run['retries'], 'earlier try', 'earlier tries')} failed")
    return "  ".join(parts)


def _cluster(facts: Mapping[str, Any]) -> str:
    cluster, shape = facts["cluster"], facts["tpu"]
    bounds = f" (of at most {cluster['slicesMax']})" if cluster["slicesMax"] > cluster["slicesWanted"] else ""
    of = f" of {shape['type']} {shape['topology']}" if shape["type"] else ""
    head = cluster["head"]
    said = f"head {head['state']}{'' if head['rayAlive'] else f', {head["status"]}'}" if head else "no head"
    return f"{cluster['name']}: {cluster['slicesReady']} of {cluster['slicesWanted']} slices{bounds}{of} ready, {said}"


def _slices(facts: Mapping[str, Any]) -> RenderableType:
    slices = facts["slices"]
    table = _table("Slice", "Host", "State", "Status", "Ray", "Node", "Node pool", "Restarts")
    shown = slices if len(slices) <= _SLICES else [one for one in slices if one["state"] != State.READY.value]
    size = facts["tpu"]["hostsPerSlice"] or 1
    for one in shown[:_SLICES]:
        pools = sorted({host["nodePool"] for host in one["hosts"] if host["nodePool"]})
        ready = f"{one['hostsReady']}/{size} ready"
        table.add_row(str(one["slice"]), "", _state(one["state"]), ready, "", "", ", ".join(pools), "")
        for host in _hosts(one, all_of=len(slices) * size <= _HOSTS):
            at = f" {_ago(facts, host['leavingAt'])}" if host["leavingAt"] else ""
            table.add_row(
                "", _dash(host["host"]), f"{_state(host['state'])}{at}", escape(host["status"]),
                "alive" if host["rayAlive"] else "-", _dash(host["node"]), "", str(host["restarts"] or ""),
            )  # fmt: skip
    rest = len(slices) - len(shown[:_SLICES])
    if not rest:
        return table
    counts = Counter(one["state"] for one in slices)
    return Group(table, Text(f"{len(slices)} slices: " + ", ".join(f"{n} {state}" for state, n in counts.items())))


def _hosts(one: Mapping[str, Any], *, all_of: bool) -> list[Mapping[str, Any]]:
    hosts = [host for host in one["hosts"] if all_of or host["state"] != State.READY.value]
    return hosts if all_of else hosts[:_PODS]


def _pending(pending: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    for number, reason in enumerate(pending, 1):
        yield Text()
        yield Text.assemble((f"{number}. {_who(reason)}", "bold yellow"), reason["means"])
        if fix := _fix(reason):
            yield Padding(Text(fix), (0, 0, 0, 3))


def _who(reason: Mapping[str, Any]) -> str:
    slices, pods = reason["slices"], reason["pods"]
    if not pods:
        return ""
    if slices:
        listed = ", ".join(map(str, slices[:_SLICES])) + (", ..." if len(slices) > _SLICES else "")
        return f"Slice{'s' if len(slices) > 1 else ''} {listed} ({_count(len(pods), 'host')}): "
    return f"{', '.join(pods[:_PODS])}{', ...' if len(pods) > _PODS else ''}: "


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _state(state: str) -> str:
    return f"[{_STATE_COLOURS.get(state, 'yellow')}]{state}[/]"


def _dash(value: object) -> str:
    return "-" if value in (None, "") else escape(str(value))


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _ago(facts: Mapping[str, Any], then: float | None) -> str:
    return "" if then is None else f"{duration(max(0.0, facts['time'] - then))} ago"
