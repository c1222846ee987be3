"""`driver install`: a release of the chart on the cluster, and its run followed to the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from driver import followed, kube_options, output
from driver.completion import release_argument
from driver.kube_options import kube_options as with_cluster
from driver.memory_check import check_memory, no_plan_option, refuse_without_install
from driver.values_options import given, values_options

if TYPE_CHECKING:
    from driver.kube.installing import Plan
    from driver.kube.manifests import Change

_START_SECONDS = 1800
"""An image of some GB has to be pulled, and where a cluster autoscaler makes the nodes, a slice of them."""


@click.command("install")
@release_argument(required=True)
@values_options
@click.option("--detach", is_flag=True, help="Returns when the release is installed, and does not follow the run.")
@followed.start_timeout_option(_START_SECONDS)
@click.option("--dry-run", is_flag=True, help="Prints the manifests; changes nothing.")
@click.option("--diff", "as_diff", is_flag=True, help="Prints what would change in the cluster; changes nothing.")
@click.option(
    "--rerun",
    is_flag=True,
    help="Starts the run again, from its last checkpoint (raises job.attempt). Without values it takes the release's; "
    "values replace those (helm get values RELEASE -o yaml > FILE has them for -f FILE).",
)
@no_plan_option
@with_cluster
@output.output_option
def command(
    release: str,
    files: tuple[str, ...],
    sets: tuple[str, ...],
    texts: tuple[str, ...],
    detach: bool,
    start_timeout: int,
    dry_run: bool,
    as_diff: bool,
    rerun: bool,
    no_plan: bool,
) -> int:
    """Installs or changes a release: checks what would fail later, lets Helm upgrade --install, and follows the run.

    Where the TPU compiler is installed (driver plan --install), a run that does not fit into the chips' HBM is refused.

    Values are those that Helm makes of the same arguments. Other training values start a new run on the same cluster,
    the same values none. The exit code is 0 when the run has succeeded and its last checkpoint exists. Ctrl-C ends the
    following, not the run.

    \b
    driver install llama -f llama3-8b -f SITE.values.yaml -n maxtext
    driver install llama -f llama3-8b -f SITE.values.yaml --set job.steps=500 --diff
    driver install llama --rerun
    """
    if dry_run and as_diff:
        raise click.UsageError("--dry-run and --diff are two answers to one question: give one of them.")
    if detach and (dry_run or as_diff):
        raise click.UsageError("--detach is for an install; --dry-run and --diff follow nothing.")
    if dry_run or as_diff:
        refuse_without_install(no_plan, "--dry-run" if dry_run else "--diff")
    # kubernetes and pyhelm3 take a second to import, which --help should not.
    from driver.kube import installing

    values = given(files, sets, texts)
    connection = kube_options.connection()
    console = output.stderr()
    with console.status(f"Looking at {release}"):
        planned = installing.plan(connection, release, values, rerun=rerun)
    if dry_run:
        with console.status("Asking Helm and the cluster"):
            manifests = installing.dry_run(connection, planned).manifests
        _show_manifests(manifests)
        return 0
    if as_diff:
        with console.status("Comparing with the cluster"):
            changes = installing.diff(connection, planned)
        _show_changes(planned, changes)
        return 0
    with console.status("Checking the cluster"):
        findings = installing.check(connection, planned)
    followed.tell_findings(findings)
    if planned.starts_a_run and not no_plan:  # a rerun too: its values may be of before the check
        check_memory(planned.rendering.run)
    with console.status(f"Installing {release}") as status:
        revision = installing.carry_out(connection, planned, lambda doing: status.update(doing.capitalize()))
    console.print(f"Release {release} is installed (revision {revision.number}). {_effect(planned)}", markup=False)
    if detach or not planned.job:
        if output.as_json():
            output.print_json(_as_data(planned, revision.number, connection.namespace))
        elif planned.job:
            console.print(f"driver status {release} -n {connection.namespace} tells how it goes.", markup=False)
        return 0
    return followed.follow(connection, release, planned.job, planned.rendering.run, start_timeout=start_timeout)


def _effect(planned: Plan) -> str:
    if not planned.job:
        return "It submits no run (job.enabled=false)."
    if not planned.starts_a_run:
        return "The values are those of the run that it has: no new one is started."
    return f"Run {planned.rendering.run['name']} starts as {planned.job}."


def _as_data(planned: Plan, revision: int, namespace: str) -> dict[str, Any]:
    return {
        "release": planned.release,
        "namespace": namespace,
        "revision": revision,
        "run": planned.rendering.run["name"],
        "job": planned.job or None,
        "cluster": planned.cluster or None,
        "startsARun": planned.starts_a_run,
    }


def _show_manifests(manifests: Sequence[Any]) -> None:
    if output.as_json():
        output.print_json(list(manifests))
        return
    import yaml

    click.echo(yaml.safe_dump_all(manifests, sort_keys=False, width=120, explicit_start=True), nl=False)


def _show_changes(planned: Plan, changes: Sequence[Change]) -> None:
    if output.as_json():
        output.print_json(
            {
                "changes": [change.as_data() for change in changes],
                "startsARun": planned.starts_a_run,
                "replacesTheCluster": planned.replaces_the_cluster,
            }
        )
        return
    out = output.stdout()
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for change in changes:
        place = f", in place of {change.replaces}" if change.replaces else ""
        out.print(f"{change.kind} {change.name} is {change.change}{place}", style="bold", markup=False, soft_wrap=True)
    for change in changes:
        for line in change.text.splitlines():
            out.print(line, style=colours.get(line[:1], ""), markup=False, soft_wrap=True)
    if not changes:
        out.print("Nothing would change.")
        return
    if planned.replaces_the_cluster:
        out.print("The pods change, so the Ray cluster is made again under another name.")
    out.print(_effect(planned).replace(" starts as", " would start as"), markup=False)
