"""`driver nodes`: the hosts of a release as Ray has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from driver import kube_options, output
from driver.completion import release_argument
from driver.kube_options import kube_options as with_kube_options

if TYPE_CHECKING:
    from driver.kube.objects import Snapshot
    from driver.kube.ray_api import Node


@click.command("nodes")
@release_argument(required=False)
@click.option("--all", "dead_too", is_flag=True, help="Lists the nodes too that Ray has lost.")
@with_kube_options
@output.output_option
def command(release: str, dead_too: bool) -> None:
    """Lists the nodes that Ray has, slice by slice: alive, worker id, slice name, topology, resources.

    RELEASE may be left out where the namespace has only one.

    \b
    driver nodes llama3-8b
    driver nodes llama3-8b --all --output json
    """
    # The Kubernetes client takes a second to import, which --help should not.
    from driver.kube import ray_api, screen, snapshot

    connection = kube_options.connection()
    seen = snapshot.read(connection, release or snapshot.only_release(connection))
    nodes = ray_api.nodes(connection, seen.release, seen.cluster.token_secret if seen.cluster else "")
    rows = as_data(seen, nodes if dead_too else [node for node in nodes if node.alive])
    if output.as_json():
        output.print_json({"release": seen.release, "namespace": seen.namespace, "nodes": rows})
    else:
        output.stdout().print(screen.nodes(rows))


def as_data(seen: Snapshot, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """For `--output json`: the head first, then by slice and worker id (docs/status.md)."""
    pods = {pod.address: pod for pod in seen.pods if pod.address and not pod.ended}
    rows = []
    for node in nodes:
        pod = pods.get(node.ip) if node.alive else None
        rows.append(
            {
                "id": node.id,
                "head": node.head,
                "alive": node.alive,
                "slice": node.slice,
                "worker": node.worker_id,
                "sliceName": node.slice_name or None,
                "topology": node.topology or None,
                "resources": _worth_showing(node.resources),
                "address": node.ip,
                "pod": pod.name if pod else None,
                "node": pod.node or None if pod else None,
                "message": "" if node.alive else node.message,
            }
        )
    return sorted(rows, key=lambda row: (not row["head"], row["sliceName"] is None, row["slice"] or 0,
                                         row["worker"] or 0, not row["alive"], row["id"]))  # fmt: skip


def _worth_showing(resources: Mapping[str, float]) -> dict[str, float]:
    """Without the node:ADDRESS that every node has, and memory, which is in bytes and no choice of anyone."""
    hidden = ("node:", "memory", "object_store_memory")
    return {name: amount for name, amount in sorted(resources.items()) if not name.startswith(hidden)}
