"""The run's gauges (docs/progress.md), from the host that has process 0 of the training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from driver import gauges
from driver.kube.forwarding import http_get
from driver.kube.tunnel import TunnelError

if TYPE_CHECKING:
    from driver.kube.connection import Connection
    from driver.kube.objects import Pod, Snapshot


class RunGauges:
    """Asks one host, once a second at most: an answer costs it some of the time that it trains with.

    The host that answered last is asked again; when it has no gauges any more, those that may have process 0 are asked,
    one at each reading.
    trouble: why the last question had no answer; empty when it had one, with gauges or without.
    """

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self.trouble = ""
        self._connection, self._clock = connection, clock
        self._asked_at = -math.inf
        self._found: Mapping[str, float] = {}
        self._reporting = ""
        self._next = 0

    def read(self, snapshot: Snapshot, tries: int = 1) -> Mapping[str, float]:
        """The gauges by name without their prefix (`step`, `loss`, ...), those that were set in the last two seconds;
        empty where the host has none. Within a second of the last question, what was found then.

        tries: how many hosts are asked at most until one has them; for who will not read again.

        Raises a DriverError where the caller may not ask.
        """
        now = self._clock()
        if now - self._asked_at >= gauges.SECONDS:
            self._asked_at, self._found = now, {}
            for _ in range(min(tries, max(1, len(reporting_hosts(snapshot))))):
                self._found = self._search(snapshot)
                if self._found:
                    break
        return self._found

    def _search(self, snapshot: Snapshot) -> Mapping[str, float]:
        hosts = reporting_hosts(snapshot)
        if snapshot.cluster is None or not hosts:
            self.trouble = ""
            return {}
        again = next((host for host in hosts if host.uid == self._reporting), None)
        asked = again or hosts[self._next % len(hosts)]
        found = self._ask(asked, snapshot.cluster.metrics_port)
        if found:
            self._reporting, self._next = asked.uid, 0
        else:
            # The one that reported may be between two groups of workers: the search begins with it or slice 0.
            self._reporting = ""
            self._next = 0 if again else self._next + 1
        return found

    def _ask(self, host: Pod, port: int) -> Mapping[str, float]:
        try:
            answer = http_get(self._connection, self._connection.namespace, host.name, port, "/metrics")
        except TunnelError as error:
            self.trouble = str(error)
            return {}
        self.trouble = "" if answer.status == 200 else f"{host.name} answers its metrics with HTTP {answer.status}"
        return gauges.parse(answer.body.decode(errors="replace")) if not self.trouble else {}


def reporting_hosts(snapshot: Snapshot) -> list[Pod]:
    """The hosts that may have process 0, which is on the first host of the first slice that trains (trainer/ranks.py):
    the first of each slice, all of a slice whose numbers are not known; of these the ones that are ready."""
    return [
        host
        for one in snapshot.slices
        for host in one.hosts
        if host.ready and not host.leaving and host.address
        if host.host == 0 or all(each.host is None for each in one.hosts)
    ]
