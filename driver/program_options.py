"""Options that may stand before or after a command's name, and are asked for and not passed on.

One after the name wins over one before it, and both over the environment. One before a command that has no use for it
is a usage error, not a silence.
"""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

_KEPT = __name__


def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """The callback of such an option, which is declared with expose_value=False."""
    name = str(parameter.name)
    from_environment = context.get_parameter_source(name) is ParameterSource.ENVIRONMENT
    if value and not (from_environment and name in kept(context)):
        kept(context)[name] = value


def kept(context: click.Context | None = None) -> dict[str, Any]:
    """The choices. click's `meta` is one mapping for the program's context and the command's."""
    chosen: dict[str, Any] = (context or click.get_current_context()).meta.setdefault(_KEPT, {})
    return chosen


def refuse_unused(context: click.Context, command: click.Command) -> None:
    """Ends with a usage error where one of these options stands before a command that would ignore it."""
    used = {parameter.name for parameter in command.params}
    for parameter in context.command.params:
        typed = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if typed and getattr(parameter, "callback", None) is keep and parameter.name not in used:
            context.fail(f"{parameter.opts[-1]} stands before {command.name!r}, which has no use for it.")
