"""`driver dashboard`: Ray's dashboard of a release on this machine, and Grafana's."""

from __future__ import annotations

import contextlib
import threading
import webbrowser

import click

from driver import kube_options, output
from driver.completion import release_argument
from driver.kube_options import kube_options as with_kube_options

_PORT = 8265
_GRAFANA_PORT = 3000

HELP = """Open a port on this machine that leads to Ray's dashboard of RELEASE, until Ctrl-C.

It leads to the new head when the head was restarted, and the port is free again at the end.

\b
Example:
  driver dashboard llama --open
"""


@click.command("dashboard", help=HELP)
@release_argument(required=False)
@click.option("--open", "open_browser", is_flag=True, help="Open it in the browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"The port on this machine, 0 for a free one [{_PORT}, or a free one where that is taken].",
)
@click.option("--grafana", is_flag=True, help="Open a port to the cluster's Grafana too.")
@with_kube_options
@output.output_option
def command(release: str, open_browser: bool, port: int | None, grafana: bool) -> None:
    from driver.kube import grafana as grafanas
    from driver.kube import ray_api, snapshot
    from driver.kube.forwarding import Forward
    from driver.local.machine import port_is_free

    connection = kube_options.connection()
    name = snapshot.existing_release(connection, release)
    ended = threading.Event()
    with contextlib.ExitStack() as stack:

        def tell(what: str) -> None:
            click.echo(what, err=True)

        found = grafanas.find(connection) if grafana else None
        first = _PORT if port is None and port_is_free(_PORT) else port or 0
        ray = stack.enter_context(
            Forward(connection, lambda: ray_api.head(connection, name), first, lambda what: tell(f"Ray: {what}"))
        )
        urls: dict[str, str | None] = {"ray": ray.url, "grafana": None}
        if found:
            second = _GRAFANA_PORT if port_is_free(_GRAFANA_PORT) else 0
            forward = Forward(
                connection,
                lambda: grafanas.target(connection, found),
                second,
                lambda what: tell(f"Grafana: {what}"),
            )
            urls["grafana"] = stack.enter_context(forward).url
        if output.as_json():
            output.print_json({"release": name, "urls": urls})
        else:
            click.echo(f"Ray's dashboard of {name}: {urls['ray']}")
            if urls["grafana"]:
                click.echo(f"Grafana: {urls['grafana']}")
            click.echo("Ctrl-C ends it.", err=True)
        if open_browser:
            for url in filter(None, urls.values()):
                if not webbrowser.open(url):
                    tell(f"no browser could be opened: open {url}")
        with contextlib.suppress(KeyboardInterrupt):
            ended.wait()
