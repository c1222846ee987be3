"""The options of every command that works with a release on a cluster: which cluster, which namespace.

A command takes `@kube_options` and asks `connection()`. They may stand before or after the command's name
(driver/program_options.py). What they leave open, the kubeconfig decides, as for kubectl and Helm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from driver.completion import KubeContext
from driver.program_options import keep, kept

if TYPE_CHECKING:
    from driver.kube.connection import Connection


def kube_options[F: Callable[..., Any]](function: F) -> F:
    """Adds `-n/--namespace`, `--context` and `--kubeconfig`; the choices are kept in the context, not passed on."""
    for declared in (
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(),
            callback=keep,
            expose_value=False,
            help="The kubeconfig [$KUBECONFIG, or ~/.kube/config].",
        ),
        click.option(
            "--context",
            metavar="NAME",
            type=KubeContext(),
            callback=keep,
            expose_value=False,
            help="The kubeconfig's context, which names the cluster [its current one].",
        ),
        click.option(
            "-n",
            "--namespace",
            metavar="NAME",
            callback=keep,
            expose_value=False,
            help="The namespace of the release [the context's, or default].",
        ),
    ):
        function = declared(function)
    return function


def connection() -> Connection:
    """The cluster that the user chose. Raises a DriverError, see driver.kube.connection.connect."""
    from driver.kube.connection import connect  # commands that only show their help do not need it

    chosen = kept()
    return connect(chosen.get("kubeconfig", ""), chosen.get("context", ""), chosen.get("namespace", ""))
