"""`driver stop`: ends a release's run and keeps its cluster."""

from __future__ import annotations

import click

from driver import kube_options, output
from driver.completion import release_argument
from driver.kube_options import kube_options as with_cluster


@click.command("stop")
@release_argument(required=True)
@with_cluster
@output.output_option
def command(release: str) -> None:
    """Ends the run and keeps the release, by a change of it: a later helm upgrade does not start the run by surprise.

    The Ray cluster stays, and with it the chips; a run with a cluster of its own (rayJob.ownCluster) is suspended and
    gives it up. What was trained since the last checkpoint is lost. `driver install RELEASE --rerun` goes on.

    \b
    driver stop llama -n maxtext
    """
    from driver.kube import installing

    connection = kube_options.connection()
    with output.stderr().status(f"Stopping {release}") as status:
        changed = installing.stop(connection, release, lambda doing: status.update(doing.capitalize()))
    if output.as_json():
        output.print_json({"release": release, "namespace": connection.namespace, "stopped": changed})
        return
    out = output.stdout()
    out.print(f"The run of {release} {'is stopped' if changed else 'was stopped before'}.", markup=False)
    out.print(f"driver install {release} --rerun -n {connection.namespace} starts it again.", markup=False)
