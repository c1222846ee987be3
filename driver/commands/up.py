"""`driver up`: from a site file and values to a training run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from driver import followed, gcp_options, output
from driver.completion import release_argument
from driver.errors import USAGE, DriverError
from driver.gcp_options import site_options
from driver.memory_check import check_memory, no_plan_option, refuse_without_install
from driver.values import release_name
from driver.values_options import given, values_options

if TYPE_CHECKING:
    from driver.gcp.bootstrap import Result
    from driver.gcp.cloud import Cloud
    from driver.gcp.plan import Plan
    from driver.up import Wanted

_START_SECONDS = 3600
"""The node pools are there by then; the image has to be pulled, and the bucket mounted."""


@click.command("up")
@release_argument(required=False)
@values_options
@click.option("--update-cluster", is_flag=True, help="Lets it switch on what a cluster that is there lacks.")
@click.option("--dry-run", is_flag=True, help="Says what it would make; makes nothing.")
@click.option("--detach", is_flag=True, help="Returns after the install.")
@followed.start_timeout_option(_START_SECONDS)
@click.option("--yes", is_flag=True, help="Does not ask.")
@no_plan_option
@site_options
@output.output_option
def command(
    release: str,
    files: tuple[str, ...],
    sets: tuple[str, ...],
    texts: tuple[str, ...],
    update_cluster: bool,
    dry_run: bool,
    detach: bool,
    start_timeout: int,
    yes: bool,
    no_plan: bool,
) -> int:
    """Preflight, bootstrap and install in one: makes what is missing of a site, and trains on it.

    Everything is checked before anything is made, and it asks once, with the chips that it takes. Run again it goes on
    where it was. The site's own values come after the first -f and before the others. The exit code is 0 when the run
    has succeeded and its last checkpoint is there.

    \b
    driver up -c site.yaml -f llama3-8b
    driver up -c site.yaml -f llama3-8b -f team.yaml --set job.steps=200
    """
    if dry_run:
        refuse_without_install(no_plan, "--dry-run")
    if not files:
        raise DriverError(
            "No values were given.", rule="A run is a profile and what changes it.", fix="-f llama3-8b", exit_code=USAGE
        )
    # Google's and Kubernetes' clients take seconds to import, which --help should not.
    from driver import up
    from driver.gcp import bootstrap, cloud, values_file

    site, path = gcp_options.site(), values_file.path_beside(gcp_options.site_path())
    values = given(files, sets, texts)
    wanted = up.Wanted(site, values, release or release_name(values.files), path)
    run = up.plan_run(wanted)
    connection = cloud.connect(site.project, gcp_options.api_endpoint())
    with output.stderr().status(f"Looking at project {site.project}"):
        plan = bootstrap.make_plan(site, connection, ["--update-cluster"] if update_cluster else [])
    plan.check()
    complete = _preflight(wanted, connection)
    if dry_run:
        _tell_plan(wanted, plan, run)
        return 0
    if not no_plan:
        check_memory(run)
    _ask(wanted, plan, run, yes)
    # What the plan removes stood in the question.
    result = bootstrap.carry_out(plan, site, path, connection, output.stderr(), lambda _: None, skip_preflight=complete)
    return _install(wanted, result, detach=detach, start_timeout=start_timeout)


def _preflight(wanted: Wanted, connection: Cloud) -> bool:
    """Whether everything could be checked: in a project whose APIs are off, bootstrap checks again when they are on."""
    from driver import up
    from driver.gcp import preflight
    from driver.gcp.findings import Subject
    from driver.gcp.prerequisites import prerequisites

    site = wanted.site
    checks = [check for check in preflight.CHECKS if check.name != "resources"]  # the plan has looked at those
    with output.stderr().status(f"Checking project {site.project}"):
        outcomes = preflight.run(Subject(site, prerequisites(site), lambda: connection), checks)
    return up.check(outcomes)


def _tell_plan(wanted: Wanted, plan: Plan, run: Mapping[str, Any]) -> None:
    from driver import up
    from driver.gcp import plan_table

    if output.as_json():
        output.print_json(up.as_data(wanted, plan, run))
        return
    output.stdout().print(plan_table.table(plan))
    output.stdout().print(f"\n{up.question(wanted, plan, run)}", markup=False, soft_wrap=True)


def _ask(wanted: Wanted, plan: Plan, run: Mapping[str, Any], yes: bool) -> None:
    from driver import up
    from driver.gcp import plan_table

    output.stderr().print(up.question(wanted, plan, run), markup=False, soft_wrap=True)
    removals = plan_table.removals(plan)
    if removals:
        output.stderr().print(f"What is removed, with what runs there:\n{removals}", style="yellow", markup=False)
    if not yes and not output.confirmed("Go on?"):
        raise DriverError(
            "Nothing was changed.", rule="It makes what costs money only after a yes.", fix="--yes does not ask"
        )


def _install(wanted: Wanted, result: Result, *, detach: bool, start_timeout: int) -> int:
    from driver.kube import connection, installing

    if result.lacks:
        raise DriverError(
            f"The site is there. {result.lacks}",
            rule="The install needs it.",
            fix="install it, then driver up again: it goes on where it was",
        )
    console, release, namespace = output.stderr(), wanted.release, wanted.site.namespace
    cluster = connection.connect(context=result.context, namespace=namespace)
    planned = installing.plan(cluster, release, wanted.all_values(result.values_file), rerun=False)
    followed.tell_findings(installing.check(cluster, planned))
    installing.carry_out(cluster, planned, lambda text: console.print(text, markup=False, soft_wrap=True))
    made = {"bootstrap": result.as_data()}
    if not detach:
        return followed.follow(
            cluster, release, planned.job, planned.rendering.run, start_timeout=start_timeout, more=made
        )
    if output.as_json():
        output.print_json({**made, "release": release, "namespace": namespace, "job": planned.job})
    else:
        come_back = f"driver status {release} -n {namespace} --watch"
        output.stdout().print(f"Installed. To look at it: {come_back}", markup=False, soft_wrap=True)
    return 0
