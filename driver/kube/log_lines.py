"""What a line of a run's log says: which host said it, and how often it was said."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from driver.kube.connection import UnreachableError
from driver.kube.pod_log import NANO, Line

if TYPE_CHECKING:
    from driver.kube.log_hosts import Host

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# As ray._private.worker.print_worker_logs (Ray 2.60) writes it, without its colours.
_PREFIX = re.compile(
    r"\((?:(?P<system>raylet|autoscaler[^,)]*)|(?:(?P<actor>[^()]+) )?pid=[^,)]+)(?:, ip=(?P<ip>[^)]+))?\)"
    r" (?P<text>.*)",
    re.DOTALL,
)
_WORKER = "RayTrainWorker"
_WINDOW = 3 * NANO
_TEXTS = 1000
_LOOK_SECONDS = 5.0
# An address that nobody had at the last look is of a host that is gone, whose lines may go on for a while.
_UNKNOWN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Said:
    """A line and who said it. slice, host: -1 for the run's own process on the head, and for a host that is not known.
    ip: the speaker's; empty on the head. times: how often within some seconds; above 1 it was shown once before."""

    time: int
    slice: int
    host: int
    ip: str
    pod: str
    text: str
    times: int = 1
    speakers: int = 1

    @property
    def place(self) -> str:
        """SLICE/HOST, the address of a host that is gone, or `run`."""
        if self.slice >= 0:
            return f"{self.slice}/{max(self.host, 0)}"
        return self.ip or "run"


class Speakers:
    """Knows the hosts of the lines by their addresses; those of pods that are gone too, if it has seen them.

    look: lists the hosts; called at the first line of an unknown address, every five seconds at most. What is
    remembered is twice the hosts at most.
    """

    def __init__(self, look: Callable[[], Iterable[Host]], clock: Callable[[], float] = time.monotonic) -> None:
        self._look, self._clock = look, clock
        self._hosts: OrderedDict[str, Host] = OrderedDict()
        self._looked_at: float | None = None
        self._unknown: set[str] = set()

    def said(self, line: Line) -> Said:
        """The line with its speaker, without Ray's prefix and colours."""
        plain = _COLOUR.sub("", line.text)
        found = _PREFIX.match(plain)
        ip = (found["ip"] or "") if found else ""
        text = found["text"] if found else plain
        name = (found["system"] or found["actor"] or "") if found else ""
        if name not in ("", _WORKER):
            text = f"{name}: {text}"
        host = self._host(ip) if ip else None
        if host is None:
            return Said(line.time, -1, -1, ip, "", text)
        return Said(line.time, host.slice, host.host, ip, host.pod, text)

    def _host(self, ip: str) -> Host | None:
        now = self._clock()
        pause = _UNKNOWN_SECONDS if ip in self._unknown else _LOOK_SECONDS
        if ip not in self._hosts and (self._looked_at is None or now - self._looked_at >= pause):
            self._looked_at = now
            try:
                there = [host for host in self._look() if host.ip]
            except UnreachableError:
                return None  # the log goes on, and so does the run; the next unknown address looks again
            for host in there:
                self._hosts[host.ip] = host
                self._hosts.move_to_end(host.ip)
            self._unknown = {ip} - self._hosts.keys()
            while len(self._hosts) > max(2 * len(there), 64):
                self._hosts.popitem(last=False)
        return self._hosts.get(ip)


class Folding:
    """Says a text once when it is repeated, by one host or by many, within three seconds, and then how often.

    It remembers a thousand texts at most: the oldest count is given out before a further one.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Repeated] = OrderedDict()
        # One bit for each speaker: a set of them for each text would be the whole run's hosts a thousand times.
        self._bits: dict[str, int] = {}

    def add(self, said: Said) -> Iterator[Said]:
        """What is to be shown now that this was said."""
        yield from self.due(said.time)
        if not said.text.strip():
            yield said
            return
        bit = 1 << self._bits.setdefault(said.place, len(self._bits))
        repeated = self._open.get(said.text)
        if repeated is not None:
            repeated.times += 1
            repeated.speakers |= bit
            return
        if len(self._open) >= _TEXTS:
            yield from self._open.popitem(last=False)[1].told()
        self._open[said.text] = _Repeated(said, 1, bit)
        yield said

    def due(self, now: int | None = None) -> Iterator[Said]:
        """The counts whose time is over at `now`, Unix nanoseconds of the log; without it all of them."""
        while self._open:
            text, repeated = next(iter(self._open.items()))
            if now is not None and now - repeated.first.time < _WINDOW:
                return
            del self._open[text]
            yield from repeated.told()


@dataclass(slots=True)
class _Repeated:
    first: Said
    times: int
    speakers: int

    def told(self) -> Iterator[Said]:
        if self.times > 1:
            yield replace(self.first, times=self.times, speakers=self.speakers.bit_count())
