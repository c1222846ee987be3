"""Where what is followed comes from: watches, whole looks, the gauges of the training, and the job's last words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from driver.errors import DriverError
from driver.kube import objects, reasons, snapshot
from driver.kube.connection import Connection, UnreachableError, explained
from driver.kube.following import GoneError
from driver.kube.gauges import RunGauges
from driver.kube.objects import Snapshot
from driver.kube.pod_log import last_words
from driver.kube.reasons import Reason
from driver.kube.watching import Changes, Refusal

_NOT_FOUND = 404


class ClusterSource:
    """A release on a cluster (driver.kube.following.Source). A context manager, for its watches."""

    def __init__(self, connection: Connection, release: str) -> None:
        self._connection, self._release = connection, release
        self._changes = Changes(connection, f"{objects.INSTANCE}={release}", _refused)
        self._gauges = RunGauges(connection)
        self._refused = ""

    def __enter__(self) -> Self:
        self._changes.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._changes.__exit__(kind, error, trace)

    def wait(self, seconds: float) -> bool:
        return self._changes.wait(seconds)

    def snapshot(self) -> Snapshot | None:
        try:
            return snapshot.read(self._connection, self._release)
        except UnreachableError:
            return None
        except DriverError as error:
            if self._is_there():
                raise
            raise GoneError(error.found, rule=error.rule, fix=error.fix) from None

    def gauges(self, snapshot: Snapshot) -> Mapping[str, float]:
        try:
            found = self._gauges.read(snapshot)
        except UnreachableError:
            raise
        except DriverError as error:  # a missing right: the run does not need the figures, and neither does its end
            self._refused = error.found
            return {}
        self._refused = ""
        return found

    @property
    def trouble(self) -> str:
        return self._refused or self._gauges.trouble

    def reasons(self, snapshot: Snapshot) -> Sequence[Reason]:
        return reasons.explain(snapshot)

    def words(self, snapshot: Snapshot) -> str:
        return last_words(self._connection, snapshot.submitters)

    def _is_there(self) -> bool:
        try:
            return self._release in snapshot.releases(self._connection)
        except DriverError:
            return True  # not known, and the first error says why


def _refused(refusal: Refusal) -> DriverError:
    if refusal.error.status == _NOT_FOUND:
        return DriverError(
            f"The cluster knows no {refusal.resource}.",
            rule="The chart needs the KubeRay operator and its definitions.",
            fix="driver bootstrap switches GKE's add-on on; elsewhere, install the chart kuberay-operator",
        )
    try:
        with explained(f"watching {refusal.resource}", "watch", refusal.resource):
            raise refusal.error
    except DriverError as error:
        return error
