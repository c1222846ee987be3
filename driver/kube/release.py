"""A release of the chart in a namespace: installed, upgraded, looked at and removed, by Helm.

What is installed is one mapping of values (driver/merging.py), and what Helm keeps of it is the only memory of it:
there is no state file here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import yaml
from pyhelm3.errors import ReleaseNotFoundError

from driver import resources
from driver.errors import USAGE, DriverError
from driver.kube import names
from driver.kube.connection import Connection
from driver.kube.helm import Helm
from driver.resources import CHART_NAME

ATTEMPT = ("job", "attempt")
ENABLED = ("job", "enabled")
SUSPEND = ("rayJob", "suspend")
_PENDING = {"pending-install", "pending-upgrade", "pending-rollback", "uninstalling"}


class InterruptedInHelmError(DriverError):
    """Ctrl-C while Helm changed a release."""


@dataclass(frozen=True)
class Revision:
    """One state of a release. manifests has no hooks: those are tests. values: the user's, without the chart's own."""

    release: str
    number: int
    status: str
    updated: datetime
    chart: str
    """Name and version, as in the label helm.sh/chart."""
    manifests: tuple[Mapping[str, Any], ...] = ()
    description: str = ""
    values: Mapping[str, Any] | None = None

    @property
    def pending(self) -> bool:
        """Whether Helm is at work on it, or was killed while it was."""
        return self.status in _PENDING

    def one(self, kind: str) -> Mapping[str, Any] | None:
        """The manifest of a kind of which the chart has at most one."""
        return next((manifest for manifest in self.manifests if manifest["kind"] == kind), None)

    def name_of(self, kind: str) -> str:
        """Empty where there is none."""
        found = self.one(kind)
        return str(found["metadata"]["name"]) if found else ""

    def check_ours(self, namespace: str) -> None:
        """Raises a DriverError where another chart made the release."""
        if self.manifests and self.chart.rpartition("-")[0] != CHART_NAME:
            raise DriverError(
                f"The release {self.release} is of {self.chart or 'another chart'}, not of {CHART_NAME}.",
                rule="The driver works with its own chart's releases only.",
                fix=f"another name, or helm itself: helm status {self.release} -n {namespace}",
                exit_code=USAGE,
            )


class Releases:
    """The releases of the connection's namespace."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._helm = Helm(connection)

    def current(self, name: str) -> Revision | None:
        """The last revision, with its values; None where there is no such release, or an uninstalled one."""
        doing = f"reading the release {name}"
        try:
            status = self._helm.ask(self._helm.command.status(name, namespace=self._namespace), doing)
            values = self._helm.ask(self._helm.command.get_values(name, namespace=self._namespace), doing)
        except ReleaseNotFoundError:
            return None
        found = _revision(status, values)
        return None if found.status == "uninstalled" else found

    def existing(self, name: str) -> Revision:
        """The same. Raises a DriverError with the nearest name where there is none, and where it is not ours."""
        found = self.current(name)
        if found is None:
            raise self.not_found(name)
        found.check_ours(self._namespace)
        return found

    def names(self) -> list[str]:
        """Of all releases in the namespace, whatever their status and chart, sorted. One that is uninstalled, and of
        which Helm keeps the history, is none."""
        # Without these, failed and pending ones are left out.
        every = ("deployed", "failed", "pending", "superseded", "uninstalling")
        wanted = {f"include_{status}": True for status in every}
        listed = self._helm.ask(
            self._helm.command.list(namespace=self._namespace, max_releases=10000, **wanted),
            f"listing the releases of namespace {self._namespace}",
        )
        return sorted({str(one["name"]) for one in listed})

    def upgrade(self, name: str, values: Mapping[str, Any], *, doing: str = "", dry_run: bool = False) -> Revision:
        """`helm upgrade --install`: what the chart makes of exactly these values, whatever the release had before.

        It returns when the API server has taken the objects. dry_run: nothing is changed, and the cluster is asked.
        doing: how its errors begin.
        Raises a DriverError with what Helm says; nothing is undone then, and the next upgrade goes on from there.
        """
        doing = doing or f"{'trying' if dry_run else 'installing'} the release {name}"
        try:
            status = self._helm.ask(
                self._helm.command.install_or_upgrade(
                    name,
                    resources.chart_dir(),
                    dict(values),
                    create_namespace=False,  # pyhelm3's default makes one out of a misspelt name
                    dry_run=dry_run,
                    namespace=self._namespace,
                    reset_values=True,  # where there are no values Helm would take the release's old ones
                ),
                doing,
            )
        except KeyboardInterrupt:
            if dry_run:
                raise
            raise self._interrupted(name, doing) from None
        return _revision(status, values)

    def history(self, name: str) -> list[Revision]:
        """The revisions that Helm keeps, latest first; none where there is no such release."""
        doing = f"reading the history of {name}"
        try:
            listed = self._helm.ask(self._helm.command.history(name, namespace=self._namespace), doing)
        except ReleaseNotFoundError:
            return []
        found = [
            Revision(
                name,
                int(one["revision"]),
                str(one["status"]),
                datetime.fromisoformat(one["updated"]),
                str(one["chart"]),
                description=str(one.get("description", "")),
            )
            for one in listed
        ]
        return sorted(found, key=lambda one: one.number, reverse=True)

    def revision(self, name: str, number: int) -> Revision | None:
        """One of the history, with its manifests; None where Helm has dropped it meanwhile, as it does the oldest."""
        doing = f"reading revision {number} of {name}"
        try:
            status = self._helm.ask(self._helm.command.status(name, namespace=self._namespace, revision=number), doing)
        except ReleaseNotFoundError:
            return None
        return _revision(status, None)

    def uninstall(self, name: str) -> None:
        """`helm uninstall`. Gone already is no error."""
        try:
            self._helm.ask(
                self._helm.command.uninstall(name, namespace=self._namespace), f"uninstalling the release {name}"
            )
        except ReleaseNotFoundError:
            return

    def _interrupted(self, name: str, doing: str) -> InterruptedInHelmError:
        """What Ctrl-C has not stopped."""
        if self._helm.command.at_work:
            stands = "Helm was not stopped, and is still at work on the release"
        else:
            stands = "Helm had begun, and has changed the release"
        return InterruptedInHelmError(
            f"Interrupted while {doing}. {stands}.",
            rule="A Helm that is killed leaves a release that nobody can change, so Ctrl-C does not end it.",
            fix=f"driver status {name} -n {self._namespace} comes back to it; driver uninstall {name} -n "
            f"{self._namespace} removes it",
        )

    @property
    def _namespace(self) -> str:
        return self.connection.namespace

    def not_found(self, name: str) -> DriverError:
        """There is no release of this name: which there are, and the nearest."""
        there = self.names()
        near = difflib.get_close_matches(name, there, n=1)
        return DriverError(
            f"There is no release {name} in namespace {self._namespace}.",
            rule=f"There {'is' if len(there) == 1 else 'are'} {', '.join(there) or 'none'}.",
            fix=f"{near[0]} for {name}" if near else "-n NAMESPACE for another namespace; driver runs lists them",
        )


def check_name(name: str) -> None:
    """Raises a DriverError where Helm takes no release of this name. The chart's own limit is narrower: its `names`."""
    if not names.is_release(name):
        raise DriverError(
            f"{name!r} cannot be a release's name.",
            rule=names.RULE,
            fix="a name such as llama3-70b",
            exit_code=USAGE,
        )


def check_not_pending(revision: Revision, namespace: str) -> None:
    """Raises a DriverError where Helm is at work on the release, or was killed while it was, with the way out."""
    if not revision.pending:
        return
    minutes = max(0, round((datetime.now(UTC) - revision.updated).total_seconds() / 60))
    name = revision.release
    if revision.status in ("pending-install", "uninstalling"):
        fix = f"driver uninstall {name} -n {namespace}, then install it again"
    else:
        fix = f"helm rollback {name} {revision.number - 1} -n {namespace}, then install it again"
    raise DriverError(
        f"The release {name} is {revision.status} since {minutes} minute{'' if minutes == 1 else 's'}.",
        rule="Helm is at work on it, or was killed while it was; then it stays so, and Helm changes nothing any more.",
        fix=f"wait, if another Helm is at work; else {fix}",
    )


def _revision(status: Mapping[str, Any], values: Mapping[str, Any] | None) -> Revision:
    """Of what `helm status` and `helm upgrade` print as JSON."""
    manifests = tuple(one for one in yaml.load_all(status["manifest"], Loader=yaml.CSafeLoader) if one)
    info = status["info"]
    return Revision(
        str(status["name"]),
        int(status["version"]),
        str(info["status"]),
        datetime.fromisoformat(info["last_deployed"]),
        _chart_of(manifests),
        manifests,
        str(info.get("description", "")),
        values,
    )


def _chart_of(manifests: Iterable[Mapping[str, Any]]) -> str:
    """`helm status` does not tell the chart, its objects do."""
    labels = (one["metadata"].get("labels") or {} for one in manifests)
    return next((str(one["helm.sh/chart"]) for one in labels if "helm.sh/chart" in one), "")
