"""Installs a release, stops its run, and removes it: the order of things, and what is looked at before."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver import chart, merging
from driver.chart import Rendering
from driver.errors import USAGE, DriverError
from driver.findings import Finding
from driver.kube import attempts, ending, manifests, preconditions
from driver.kube.connection import Connection
from driver.kube.release import InterruptedInHelmError, Releases, Revision, check_name, check_not_pending
from driver.values import Values

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """An install that is not carried out yet. before: the release as it is, None for the first install.
    bare_rerun: a --rerun with values, and none of them from a file."""

    release: str
    values: Mapping[str, Any]
    rendering: Rendering
    before: Revision | None
    bare_rerun: bool = False

    @property
    def job(self) -> str:
        """The RayJob's name; empty where none is submitted."""
        return _name(self.rendering, "RayJob")

    @property
    def cluster(self) -> str:
        """The name of the release's own RayCluster; empty where the RayJob makes one."""
        return _name(self.rendering, "RayCluster")

    @property
    def starts_a_run(self) -> bool:
        before = self.before
        same = before is not None and before.status == "deployed" and before.name_of("RayJob") == self.job
        return bool(self.job) and not same

    @property
    def leaves_a_cluster(self) -> bool:
        """Whether the release's run was on another cluster: one of its own, or one of another name."""
        before = self.before.manifests if self.before else ()
        return _own_cluster(before) or self.replaces_the_cluster

    @property
    def replaces_the_cluster(self) -> bool:
        before = self.before.name_of("RayCluster") if self.before else ""
        return bool(before) and before != self.cluster


def plan(connection: Connection, release: str, given: Values, *, rerun: bool) -> Plan:
    """What the values make of the release. Nothing is changed.

    With rerun and no values at all, the release's own hold. Raises a DriverError: values that the chart refuses,
    before the cluster is asked anything; a release that Helm is at work on; a run that was stopped.
    """
    check_name(release)
    bare_rerun = rerun and given != Values() and not given.files
    merged = merging.merged(given)
    if given != Values():
        with _values_explained(connection, release, bare_rerun=bare_rerun):
            render(merged, release, connection.namespace)
    releases = Releases(connection)
    before = releases.existing(release) if rerun else releases.current(release)
    if before is not None:
        check_not_pending(before, connection.namespace)
        before.check_ours(connection.namespace)
    if given == Values():
        if not rerun:
            raise DriverError(
                "No values were given.",
                rule="A run is a profile with what the site adds.",
                fix="-f llama3-8b -f SITE.values.yaml (driver bootstrap writes the second one)",
                exit_code=USAGE,
            )
        merged = dict(before.values or {}) if before else {}
    values = attempts.values_for(merged, before, rerun=rerun)
    return Plan(release, values, render(values, release, connection.namespace), before, bare_rerun)


def check(connection: Connection, planned: Plan) -> list[Finding]:
    """What would make it fail later. Raises a DriverError with every problem."""
    before = planned.before.manifests if planned.before else ()
    return preconditions.check(preconditions.Subject(connection, planned.release, planned.rendering, before))


def dry_run(connection: Connection, planned: Plan) -> Revision:
    """The manifests that Helm would apply, as the API server's state makes them; nothing is changed."""
    with _values_explained(connection, planned.release, bare_rerun=planned.bare_rerun):
        return Releases(connection).upgrade(planned.release, planned.values, dry_run=True)


def diff(connection: Connection, planned: Plan) -> list[manifests.Change]:
    """What would change in the cluster."""
    before = planned.before.manifests if planned.before else ()
    return manifests.changes(connection, before, dry_run(connection, planned).manifests)


def carry_out(connection: Connection, planned: Plan, tell: Tell) -> Revision:
    """Helm's upgrade --install, after the old job has ended where it has a cluster of its own.

    Helm makes the new RayJob before it deletes the old one, and two jobs must not write one run. On a shared cluster
    the new job waits for the old one there; on another cluster than the old one's it would know of no other.
    """
    if _own_cluster(planned.rendering.manifests) or planned.leaves_a_cluster:
        others = [name for name in ending.jobs(connection, planned.release) if name != planned.job]
        if others:
            dry_run(connection, planned)  # what Helm or the API server refuses must not cost the old run
        ending.remove_jobs(connection, others, tell)
    tell(f"installing {planned.release}")
    releases = Releases(connection)
    try:
        with _values_explained(connection, planned.release, bare_rerun=planned.bare_rerun):
            return releases.upgrade(planned.release, planned.values)
    except InterruptedInHelmError:
        raise
    except DriverError as error:
        raise _with_what_stands(error, releases, planned) from None


def stop(connection: Connection, release: str, tell: Tell) -> bool:
    """Ends the release's run and keeps its cluster, by a change of the release. False where it was stopped already.

    Raises a DriverError where this chart would make another cluster of the release's values, which would end more
    than the run.
    """
    check_name(release)
    releases = Releases(connection)
    before = releases.existing(release)
    check_not_pending(before, connection.namespace)
    old = before.values or {}
    if attempts.stopped(old) and before.status == "deployed" and not _goes_on(connection, before):
        return False  # a stop that failed, or was broken off, is made again
    values = attempts.stop_values(old)
    after = render(values, release, connection.namespace)
    if before.name_of("RayCluster") != _name(after, "RayCluster"):
        raise DriverError(
            f"{release} was installed with another version of the chart ({before.chart}), and with this one its "
            "cluster would be made again.",
            rule="A stop ends the run and keeps the cluster.",
            fix=f"the driver of that version; or driver uninstall {release}; or end the job alone, which the next "
            f"install starts again: kubectl delete rayjob {before.name_of('RayJob')} -n {connection.namespace}",
        )
    doing = f"stopping the run of {release}"
    tell(doing)
    preconditions.check_rights(connection, doing, after.manifests, before.manifests)
    running = before.name_of("RayJob")
    releases.upgrade(release, values, doing=doing)
    if running and not _name(after, "RayJob"):
        ending.await_gone(connection, "rayjobs", fields=f"metadata.name={running}")
    elif running:  # suspended: KubeRay removes the job's own cluster
        ending.await_gone(connection, "rayclusters", labels=ending.of_job(running))
    return True


def _goes_on(connection: Connection, before: Revision) -> bool:
    """Whether something of a release's run is there, though its values hold it back."""
    suspended = before.name_of("RayJob")
    if not suspended:
        return bool(ending.jobs(connection, before.release))
    return bool(ending.clusters_of_job(connection, suspended))


def uninstall(connection: Connection, release: str, tell: Tell) -> list[str]:
    """Stops the run, removes the release, and returns when its pods are gone. The answer: what could not be looked for.

    Helm alone deletes the service account first, with which the workers write their checkpoints. A release that Helm
    left pending is removed as well, and so is what a Helm that failed or was killed has left outside of the release:
    a failed upgrade may have made another cluster, and Helm removes only what its last revision has.
    """
    check_name(release)
    releases = Releases(connection)
    before = releases.current(release)
    if before is not None:
        before.check_ours(connection.namespace)
    clusters = ending.clusters(connection, release)
    names = ending.jobs(connection, release)
    if before is None and not clusters and not names:
        releases.existing(release)  # says which there are
    doing = f"uninstalling the release {release}"
    if before is not None:
        preconditions.check_rights(connection, doing, (), before.manifests)
    ending.remove_jobs(connection, names, tell)
    if before is not None:
        tell(doing)
        releases.uninstall(release)
    tell(f"removing what is left of {release}")
    unseen = ending.remove_leftovers(connection, release)
    ending.await_release_gone(connection, release, clusters, tell)
    return unseen


@contextmanager
def _values_explained(connection: Connection, release: str, *, bare_rerun: bool) -> Iterator[None]:
    """Adds to what the chart refuses that values with --rerun are not added to the release's own.

    bare_rerun: they came without a file, as those do that are meant to be added.
    """
    try:
        yield
    except DriverError as error:
        if not bare_rerun or error.exit_code != USAGE:
            raise
        file = f"{release}.release-values.yaml"
        keep = f"helm get values {release} -n {connection.namespace} -o yaml > {file}, and the same with -f {file}"
        raise DriverError(
            error.found,
            rule="Values that are given with --rerun are all that the release has then: they replace its own.",
            fix=f"{error.fix}; {keep}" if error.fix else keep,
            exit_code=error.exit_code,
        ) from None


def _with_what_stands(error: DriverError, releases: Releases, planned: Plan) -> DriverError:
    """The same error; where Helm had begun, with what it has left, which goes on costing."""
    release, namespace = planned.release, releases.connection.namespace
    try:
        now = releases.current(release)
        clusters = ending.clusters(releases.connection, release)
    except DriverError as unseen:
        stands = f"What Helm has made by then could not be looked at: {unseen.found}"
    else:
        if now is None or now.status != "failed" or (planned.before and now.number == planned.before.number):
            return error  # Helm had not begun, or another one is at work
        stands = f"The release {release} is {now.status} (revision {now.number})."
        if clusters:
            held = "is there and holds its chips" if len(clusters) == 1 else "are there and hold their chips"
            stands += f" RayCluster {' and '.join(clusters)} {held}."
    undo = (
        f"driver uninstall {release} -n {namespace} removes all that stands; the same install, mended, goes on from it"
    )
    return DriverError(
        f"{error.found}\n{stands}",
        rule=error.rule,
        fix=f"{error.fix}; {undo}" if error.fix else undo,
        exit_code=error.exit_code,
    )


def render(values: Mapping[str, Any], release: str, namespace: str) -> Rendering:
    """The chart with a mapping of values; no cluster is asked. Raises a DriverError with what the chart refuses."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "values.json"
        file.write_text(json.dumps(values))
        return chart.render(Values((file,)), release, namespace)


def _own_cluster(rendered: Sequence[Mapping[str, Any]]) -> bool:
    jobs = [one for one in rendered if one["kind"] == "RayJob"]
    return any("rayClusterSpec" in one["spec"] for one in jobs)


def _name(rendering: Rendering, kind: str) -> str:
    return next((str(one["metadata"]["name"]) for one in rendering.manifests if one["kind"] == kind), "")
