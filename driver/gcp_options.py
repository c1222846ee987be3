"""The options of every command that works on the Google Cloud side: which site file, and where Google's APIs are.

A command takes `@site_options` and asks `site()`, `site_path()` and `api_endpoint()`. As with `--output`, they may
stand before or after the command's name; one after it wins over one before it, and both over the environment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from driver.gcp import endpoint

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
        callback=_keep,
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
        callback=_keep,
        expose_value=False,
        help="The site file [site.yaml].",
    )(with_endpoint)


def site_path() -> Path:
    """The site file that the user chose, or site.yaml."""
    return Path(_kept().get("config", "site.yaml"))


def site() -> Site:
    """The site file, read and checked. Raises DriverError."""
    from driver.gcp import site_file  # commands that only show their help do not need it

    return site_file.read(site_path())


def api_endpoint() -> str:
    """The one place of all APIs; empty for Google's own. Raises a DriverError where it cannot be one."""
    url = str(_kept().get("api_endpoint", ""))
    if url:
        endpoint.check(url)
    return url


def refuse_unused(context: click.Context, command: click.Command) -> None:
    """Ends with a usage error where one of these options stands before a command that would ignore it."""
    used = {parameter.name for parameter in command.params}
    for parameter in context.command.params:
        name = str(parameter.name)
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and name in ("config", "api_endpoint") and name not in used:
            context.fail(f"{parameter.opts[-1]} stands before {command.name!r}, which has no use for it.")


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    name = str(parameter.name)
    from_environment = context.get_parameter_source(name) is ParameterSource.ENVIRONMENT
    if value and not (from_environment and name in _kept(context)):
        _kept(context)[name] = value


def _kept(context: click.Context | None = None) -> dict[str, Any]:
    """The choices. click's `meta` is one mapping for the program's context and the command's."""
    chosen: dict[str, Any] = (context or click.get_current_context()).meta.setdefault(__name__, {})
    return chosen
