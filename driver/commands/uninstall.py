"""`driver uninstall`: removes a release, after its run has ended."""

from __future__ import annotations

import click

from driver import kube_options, output
from driver.completion import release_argument
from driver.kube_options import kube_options as with_cluster


@click.command("uninstall")
@release_argument(required=True)
@with_cluster
@output.output_option
def command(release: str) -> None:
    """Stops the run, removes the release, and returns when its pods are gone. Checkpoints stay in the bucket.

    It also clears a release that Helm has left in the middle of an install, and what a failed one has left outside of
    the release.

    \b
    driver uninstall llama -n maxtext
    """
    from driver.kube import installing

    connection = kube_options.connection()
    console = output.stderr()
    with console.status(f"Removing {release}") as status:
        unseen = installing.uninstall(connection, release, lambda doing: status.update(doing[:1].upper() + doing[1:]))
    for sentence in unseen:
        console.print(f"Not checked: {sentence}", style="yellow", markup=False, soft_wrap=True)
    if output.as_json():
        output.print_json({"release": release, "namespace": connection.namespace, "removed": True})
    else:
        output.stdout().print(f"Release {release} is removed. Its checkpoints are kept.", markup=False)
