"""How a release looks while it is followed: the local run's block of lines, with the slices of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from driver.local import progress

if TYPE_CHECKING:
    from driver.kube.objects import Slice

_COLOURS = {"ready": "green", "missing": "red", "failed": "red"}
_EACH_UP_TO = 8


@dataclass
class ReleaseView(progress.View):
    """hosts: the slices as they were at the last look. waiting: why what is pending does not start, a line each.

    away: seconds for which the API server has not answered; what is shown is then as it was before.
    """

    hosts: Sequence[Slice] = ()
    waiting: Sequence[str] = ()
    away: float = 0.0

    def slices_line(self) -> RenderableType:
        """Each slice with its hosts where they are few, else how many are in which state."""
        line = Text("slices")
        if len(self.hosts) <= _EACH_UP_TO:
            for one in self.hosts:
                ready = sum(host.ready and not host.leaving for host in one.hosts)
                line.append("  ● ", _COLOURS.get(one.state.value, "yellow"))
                line.append(f"{one.number} {one.state.value}")
                if ready < one.size > 1:
                    line.append(f" ({ready} of {one.size} hosts)", "dim")
        else:
            for state, count in Counter(one.state.value for one in self.hosts).items():
                line.append("  ● ", _COLOURS.get(state, "yellow")).append(f"{count} {state}")
        rows = [line, *(Text(text, "yellow", no_wrap=True, overflow="ellipsis") for text in self.waiting[:3])]
        if self.away:
            away = f"The API server has not answered for {progress.duration(self.away)}; the run does not need it."
            rows.append(Text(away, "red"))
        return Group(*rows)


def joined(slices: Sequence[Slice]) -> Mapping[str, tuple[int, int | None, str]]:
    """The pods of the hosts that are in the Ray cluster: slice, host and node of each."""
    return {
        host.name: (one.number, host.host, host.node)
        for one in slices
        for host in one.hosts
        if host.ready and not host.leaving
    }


def changes(before: Sequence[Slice], now: Sequence[Slice]) -> list[str]:
    """What happened to the hosts between two looks, in sentences: each of a few, else how many.

    before: empty at the first look, which tells how many are there and not when they came.
    """
    was, has = joined(before), joined(now)
    wanted = sum(one.size for one in now)
    here = [has[name] for name in sorted(has.keys() - was.keys())]
    gone = [was[name] for name in sorted(was.keys() - has.keys())]
    if not before:
        return [f"{len(has):,} of {wanted:,} hosts are there"] if has else []
    said = []
    for hosts, words, at in ((here, "has joined", " on"), (gone, "has left", "")):
        if len(hosts) > _EACH_UP_TO // 2:
            many = words.replace("has", "have")
            said.append(f"{len(hosts)} hosts {many}: {len(has):,} of {wanted:,} are there")
            continue
        for number, host, node in hosts:
            name = f"a host of slice {number}" if host is None else f"slice {number}, host {host},"
            said.append(f"{name} {words}{f'{at} {node}' if node else ''}: {len(has):,} of {wanted:,} are there")
    return said
