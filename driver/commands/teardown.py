"""`driver teardown`: removes what bootstrap made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from driver import gcp_options, output
from driver.errors import DriverError
from driver.gcp_options import site_options

if TYPE_CHECKING:
    from driver.gcp.teardown import Teardown


@click.command("teardown")
@click.option("--dry-run", is_flag=True, help="Prints what would be deleted; deletes nothing.")
@click.option("--delete-bucket", is_flag=True, help="Deletes the bucket too, with every checkpoint in it.")
@click.option("--remove-releases", is_flag=True, help="Uninstalls the releases that live on the cluster first.")
@click.option("--yes", is_flag=True, help="Does not ask.")
@site_options
@output.output_option
def command(dry_run: bool, delete_bucket: bool, remove_releases: bool, yes: bool) -> None:
    """Deletes what bootstrap and image made for a site, and nothing else: what carries the site's mark.

    The bucket with the checkpoints stays unless --delete-bucket is given.

    \b
    driver teardown -c site.yaml --dry-run
    driver teardown -c site.yaml
    """
    from driver.gcp import cloud, teardown

    site = gcp_options.site()
    connection = cloud.connect(site.project, gcp_options.api_endpoint())
    with output.stderr().status(f"Looking at project {site.project}"):
        plan = teardown.make_plan(site, connection, delete_bucket=delete_bucket)
    _show(plan)
    if dry_run:
        return
    plan.check(remove_releases=remove_releases)
    if plan.steps and not yes and not output.confirmed(f"Delete these {len(plan.steps)}?"):
        raise DriverError("Nothing was deleted.", fix="--yes deletes without asking")
    teardown.carry_out(plan, site, connection, output.stderr(), remove_releases=remove_releases)
    if not output.as_json():
        output.stdout().print("Everything is removed." if plan.steps else "There was nothing to remove.")


def _show(plan: Teardown) -> None:
    if output.as_json():
        output.print_json(
            {
                "deletes": [{"kind": step.resource.kind, "name": step.resource.name} for step in plan.steps],
                "goWithTheCluster": [{"kind": one.kind, "name": one.name} for one in plan.with_cluster],
                "ofOthers": [{"kind": one.kind, "name": one.name} for one in plan.of_others],
                "stays": [{"kind": one.kind, "name": one.name} for one in plan.stays],
                "releases": [str(release) for release in plan.releases],
            }
        )
        return
    out = output.stderr()
    for step in plan.steps:
        out.print(f"- {step.resource.key}", markup=False)
    for one in plan.with_cluster:
        out.print(f"- {one.key} (goes with the cluster)", markup=False)
    for one in plan.of_others:
        out.print(f"! {one.key} was not made by us, and goes with the cluster", markup=False)
    for one in plan.stays:
        out.print(f"  {one.key} stays; --delete-bucket deletes it with every checkpoint in it", markup=False)
    for release in plan.releases:
        out.print(f"! release {release} lives on the cluster", markup=False)
