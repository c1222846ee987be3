"""The options of every command that works on the Google Cloud side: which site file, and where Google's APIs are.

A command takes `@site_options` and asks `site()`, `site_path()` and `api_endpoint()`. They may stand before
or after the command's name (driver/program_options.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driver.gcp import endpoint
from driver.program_options import keep, kept

if TYPE_CHECKING:
    from driver.gcp.site import Site

SITE_VARIABLE = "MAXTEXT_MULTISLICE_SITE"
ENDPOINT_VARIABLE = "MAXTEXT_MULTISLICE_API_ENDPOINT"


def site_options[F: Callable[..., Any]](function: F) -> F:
    """Adds `-c/--config FILE` and `--api-endpoint URL`; the choices are kept in the context, not passed on."""
    with_endpoint = click.option(
        "--api-endpoint",
        metavar="URL",
        envvar=ENDPOINT_VARIABLE,
        show_envvar=True,
        callback=keep,
        expose_value=False,
        help="Where all of Google's APIs are reached instead of at googleapis.com; {service} in it stands for the "
        "API's name (compute).",
    )(function)
    return click.option(
        "-c",
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        envvar=SITE_VARIABLE,
        show_envvar=True,
        callback=keep,
        expose_value=False,
        help="The site file [site.yaml].",
    )(with_endpoint)


def site_path() -> Path:
    """The site file that the user chose, or site.yaml."""
    return Path(kept().get("config", "site.yaml"))


def site() -> Site:
    """The site file, read and checked. Raises DriverError."""
    from driver.gcp import site_file  # commands that only show their help do not need it

    return site_file.read(site_path())


def api_endpoint() -> str:
    """The one place of all APIs; empty for Google's own. Raises a DriverError where it cannot be one."""
    url = str(kept().get("api_endpoint", ""))
    if url:
        endpoint.check(url)
    return url
