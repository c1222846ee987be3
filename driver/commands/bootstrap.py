"""`driver bootstrap`: makes what a run needs in Google Cloud."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driver import gcp_options, output, resources
from driver.errors import FAILED, DriverError
from driver.gcp_options import site_options

if TYPE_CHECKING:
    from driver.gcp.bootstrap import Result
    from driver.gcp.plan import Plan
    from driver.gcp.site import Site


@click.command("bootstrap")
@click.option("--dry-run", is_flag=True, help="Prints what exists, what would be made and what differs; makes nothing.")
@click.option(
    "--print-gcloud", is_flag=True, help="Prints the same as a bash script of gcloud commands; makes nothing."
)
@click.option("--update-cluster", is_flag=True, help="Lets it switch on what a cluster that is there lacks.")
@click.option("--skip-preflight", is_flag=True, help="Does not check permissions, quota and machines first.")
@click.option("--yes", is_flag=True, help="Does not ask before it removes what is broken or no longer wanted.")
@site_options
@output.output_option
def command(dry_run: bool, print_gcloud: bool, update_cluster: bool, skip_preflight: bool, yes: bool) -> int:
    """Makes what is missing of a site: APIs, networks, GKE cluster, TPU node pools, bucket, permissions to write it.

    Run again it changes nothing; interrupted and run again it finishes. Ends by writing a values file beside the site
    file, for `helm install -f`.

    \b
    driver bootstrap -c site.yaml --dry-run
    driver bootstrap -c site.yaml
    """
    if dry_run and print_gcloud:
        raise click.UsageError("--dry-run and --print-gcloud are two ways to print the plan; choose one.")
    # Google's clients take a second to import, which --help should not.
    from driver.gcp import bootstrap, cloud, script, values_file

    site, path = gcp_options.site(), gcp_options.site_path()
    connection = cloud.connect(site.project, gcp_options.api_endpoint())
    with output.stderr().status(f"Looking at project {site.project}"):
        plan = bootstrap.make_plan(site, connection, ["--update-cluster"] if update_cluster else [])
    if print_gcloud:
        click.echo(script.render(site, plan, bootstrap.project_number(site, connection)), nl=False)
        return 0
    if dry_run:
        _print_plan(plan)
        return FAILED if plan.problems else 0
    result = bootstrap.carry_out(
        plan,
        site,
        values_file.path_beside(path),
        connection,
        output.stderr(),
        lambda plan: _confirm(plan, yes),
        skip_preflight=skip_preflight,
    )
    _tell(result, site)
    return 0


def _print_plan(plan: Plan) -> None:
    if output.as_json():
        output.print_json({"steps": [step.as_data() for step in plan.steps]})
        return
    from driver.gcp import plan_table

    output.stdout().print(plan_table.table(plan))
    for problem in plan.problems:
        output.stderr().print(f"\n{problem.format_message()}", markup=False)


def _confirm(plan: Plan, yes: bool) -> None:
    from driver.gcp import plan_table

    question = f"{plan_table.removals(plan)}\nGo on? What runs there ends."
    if not yes and not output.confirmed(question):
        raise DriverError(
            "Nothing was changed.",
            rule="What is there is removed only after a yes.",
            fix="--yes goes on without asking; to keep node pools, set tpu.slices to how many there are",
        )


def _tell(result: Result, site: Site) -> None:
    if output.as_json():
        output.print_json(result.as_data())
        return
    out = output.stdout()
    out.print("Everything is there." if result.plan.changes else "Everything was there; nothing was changed.")
    out.print(f"Values for the chart: {result.values_file}. Context of kubectl: {result.context}.", markup=False)
    if result.lacks:
        out.print(result.lacks, markup=False)
    out.print("\nNext:")
    out.print(f"  {install_command(site, result.values_file)}", markup=False, soft_wrap=True)


def install_command(site: Site, values_file: Path) -> str:
    """What trains on the site, with Helm alone."""
    chart, profile = resources.chart_dir(), resources.values_dir() / "llama3-8b.yaml"
    arguments = ["helm", "install", "llama3-8b", _short(chart), "-n", site.namespace]
    return shlex.join([*arguments, "-f", _short(profile), "-f", str(values_file)])


def _short(path: Path) -> str:
    """As seen from here, where it is below here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
