"""Removes what carries a site's mark, and nothing else, in an order that Google Cloud accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console

from driver.errors import DriverError
from driver.gcp import bootstrap, errors, kubeconfig, plan, releases
from driver.gcp.cloud import Cloud
from driver.gcp.kinds.bucket import Bucket
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.node_pool import NodePool
from driver.gcp.plan import Action, Step
from driver.gcp.prerequisites import NEEDS, needed_by
from driver.gcp.resource import Resource
from driver.gcp.site import Site


@dataclass(frozen=True)
class Teardown:
    """What is removed, what goes with it by itself, what stays, and what others have on what is removed.

    of_others: node pools in our cluster that we did not make.
    releases: that live on what is removed.
    """

    steps: tuple[Step, ...]
    with_cluster: tuple[Resource, ...]
    stays: tuple[Resource, ...]
    of_others: tuple[Resource, ...]
    releases: tuple[releases.Release, ...]

    def check(self, *, remove_releases: bool) -> None:
        """Raises a DriverError while releases live and are not to be removed."""
        if self.releases and not remove_releases:
            names = ", ".join(str(release) for release in self.releases)
            raise DriverError(
                f"These releases live on the cluster: {names}.",
                rule="A teardown does not end runs unless it is told to.",
                fix="helm uninstall each, or driver teardown --remove-releases",
            )


def make_plan(site: Site, cloud: Cloud, *, delete_bucket: bool) -> Teardown:
    """What teardown would do. Reads only."""
    with errors.explained("looking at what is there", site):
        return _make_plan(site, cloud, delete_bucket=delete_bucket)


def _make_plan(site: Site, cloud: Cloud, *, delete_bucket: bool) -> Teardown:
    marked = plan.marked(NEEDS, site, cloud)
    stays = tuple(one for one in marked if isinstance(one, Bucket) and not delete_bucket)
    cluster_goes = any(isinstance(one, Cluster) for one in marked)
    with_cluster = tuple(one for one in marked if cluster_goes and one.inside == Cluster.kind)
    removed = [one for one in marked if one not in stays and one not in with_cluster]
    on_cluster = any(Cluster.kind in (one.kind, one.inside) for one in removed)
    living = releases.of_site(site, cloud, everywhere=cluster_goes) if on_cluster else ()
    of_others = tuple(NodePool.of_others(site, cloud)) if cluster_goes and site.cluster.mode == "standard" else ()
    steps = tuple(Step(one, Action.REMOVE) for one in removed)
    return Teardown(steps, with_cluster, stays, of_others, tuple(living))


def carry_out(the_teardown: Teardown, site: Site, cloud: Cloud, console: Console, *, remove_releases: bool) -> None:
    """Removes it all. Raises a DriverError while releases live and remove_releases is not set."""
    the_teardown.check(remove_releases=remove_releases)
    cluster_goes = any(isinstance(step.resource, Cluster) for step in the_teardown.steps)
    if cluster_goes and kubeconfig.find().exists():
        kubeconfig.check()
    for release in the_teardown.releases:
        console.print(f"release {release}: uninstalling", markup=False)
        with errors.explained(f"uninstalling release {release}", site):
            releases.remove(release, site, cloud)
    bootstrap.run(the_teardown.steps, _before(the_teardown), cloud, console, site, "driver teardown")
    if cluster_goes:
        kubeconfig.remove(site)


def _before(the_teardown: Teardown) -> Callable[[Step], Sequence[Step]]:
    """What is removed first: all that needs the kind of a resource. What goes with the cluster is gone when that is."""
    by_resource = {step.resource: step for step in the_teardown.steps}
    cluster = next((step for step in the_teardown.steps if isinstance(step.resource, Cluster)), None)
    if cluster is not None:
        by_resource |= dict.fromkeys(the_teardown.with_cluster, cluster)

    def before(step: Step) -> list[Step]:
        first = {by_resource[one] for one in needed_by(step.resource, list(by_resource))}
        return list(first - {step})

    return before
