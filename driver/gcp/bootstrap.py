"""Makes what a site needs: plans, carries out, and leaves a values file and a kubeconfig entry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from driver.errors import DriverError, raise_all
from driver.gcp import apply, errors, kubeconfig, plan, preflight, values_file
from driver.gcp.cloud import Cloud
from driver.gcp.findings import Status, Subject
from driver.gcp.following import Following
from driver.gcp.kinds.bucket import Bucket
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.node_pool import NodePool
from driver.gcp.kinds.services import Services
from driver.gcp.plan import Action, Plan, Step
from driver.gcp.prerequisites import needed_for, prerequisites
from driver.gcp.resource import Resource
from driver.gcp.site import Site

_AGAIN = "driver bootstrap"


@dataclass(frozen=True)
class Result:
    """What bootstrap leaves. values_file: for helm. context: of the kubeconfig. lacks: what the user has to install."""

    plan: Plan
    values_file: Path
    context: str
    lacks: str = ""

    def as_data(self) -> dict[str, Any]:
        """For `--output json`."""
        return {
            "steps": [step.as_data() for step in self.plan.steps],
            "changed": len(self.plan.changes),
            "valuesFile": str(self.values_file),
            "context": self.context,
        }


def make_plan(site: Site, cloud: Cloud, allowed: Collection[str] = ()) -> Plan:
    """What bootstrap would do. Reads only. Raises a DriverError for what Google does not answer."""
    wanted = prerequisites(site)
    kept = {resource.key for resource in wanted}
    with errors.explained("looking at what is there", site):
        pools = [pool for pool in plan.marked([NodePool], site, cloud) if pool.key not in kept]
        return plan.make(wanted, cloud, pools, allowed)


def project_number(site: Site, cloud: Cloud) -> int | None:
    """None in a project that cannot tell it yet, because the API for that is off."""
    try:
        return cloud.project_number
    except errors.GOOGLE_ERRORS as error:
        if errors.is_api_off(error):
            return None
        raise errors.explain(error, "asking for the project's number", site) from error


def carry_out(
    the_plan: Plan,
    site: Site,
    path: Path,
    cloud: Cloud,
    console: Console,
    confirm: Callable[[Plan], None],
    *,
    skip_preflight: bool = False,
) -> Result:
    """Carries the plan out and writes the values file and the kubeconfig entry.

    path: the values file.
    confirm: asks before something is removed; raises to stop.
    Raises a DriverError with everything that preflight finds or that failed, or when Ctrl-C ended the waiting.
    """
    the_plan.check()
    values_file.check(path)
    kubeconfig.check()
    if the_plan.removals:
        confirm(the_plan)
    # Most of preflight asks APIs, which a fresh project has off.
    apis = [step for step in the_plan.changes if isinstance(step.resource, Services)]
    steps = [step for step in the_plan.changes if step not in apis]
    run(apis, _before(apis), cloud, console, site, _AGAIN)
    if steps and not skip_preflight:
        _check(the_plan, site, cloud)
    run(steps, _before(steps), cloud, console, site, _AGAIN)
    return _finish(the_plan, site, path, cloud)


def _check(the_plan: Plan, site: Site, cloud: Cloud) -> None:
    """Preflight, without what the plan has looked at already."""
    checks = [check for check in preflight.CHECKS if check.name not in ("resources", "local tools")]
    subject = Subject(site, [step.resource for step in the_plan.steps], lambda: cloud)
    found = [finding for outcome in preflight.run(subject, checks) for finding in outcome.findings]
    problems = [finding for finding in found if finding.status == Status.PROBLEM]
    raise_all([DriverError(one.found, rule=one.rule, fix=one.fix) for one in problems], "things are in the way:")


def run(
    steps: Sequence[Step],
    before: Callable[[Step], Sequence[Step]],
    cloud: Cloud,
    console: Console,
    site: Site,
    again: str,
) -> None:
    """Carries steps out and shows how it goes. again: the command that takes it up after an interruption."""
    try:
        with Following(steps, console) as follower:
            failures = apply.carry_out(steps, before, cloud, follower)
    except apply.NotFinishedError as stopped:
        names = ", ".join(step.resource.key for step in stopped.going_on) or "nothing"
        raise DriverError(
            f"Stopped waiting. Going on in Google Cloud: {names}.", fix=f"`{again}` takes it up where it is"
        ) from None
    raise_all(_explain(failures, site), "things failed:", fix=f"mend these, then `{again}` does what is left")


def _explain(failures: Sequence[apply.Failure], site: Site) -> list[DriverError]:
    return [errors.explain(failure.error, _doing(failure.step), site) for failure in failures]


def _doing(step: Step) -> str:
    return f"{'removing' if step.action == Action.REMOVE else 'making'} {step.resource.key}"


def _before(steps: Sequence[Step]) -> Callable[[Step], list[Step]]:
    by_resource = {step.resource: step for step in steps if step.action != Action.REMOVE}

    def before(step: Step) -> list[Step]:
        if step.action == Action.REMOVE:
            return []
        return [by_resource[one] for one in needed_for(step.resource, list(by_resource))]

    return before


def _finish(the_plan: Plan, site: Site, path: Path, cloud: Cloud) -> Result:
    """What bootstrap writes on this machine, from what is there now."""
    kinds = (Cluster, Bucket)
    resources: list[Resource] = [step.resource for step in the_plan.steps if isinstance(step.resource, kinds)]
    with errors.explained("looking at what is there", site):
        found = dict(zip(map(type, resources), plan.look(resources, cloud), strict=True))
    cluster, bucket = found[Cluster], found[Bucket]
    if cluster is None or bucket is None:
        raise DriverError("The cluster or the bucket went away while we worked.", fix="run driver bootstrap again")
    values_file.write(site, path, hierarchical_namespace=bucket.details["hierarchicalNamespace"])
    kubeconfig.add(site, cluster.details)
    return Result(the_plan, path, kubeconfig.name_of(site), kubeconfig.missing_plugin())
