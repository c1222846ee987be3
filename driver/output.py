"""Where words for people and data for programs go.

What a command found out goes to stdout, as a table or as JSON; how it is getting on goes to stderr. A command takes
`@output_option`, so that `--output json` may stand before or after the command's name, and asks `as_json()`.
Colours follow the terminal and NO_COLOR (https://no-color.org), which rich reads by itself.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console

_UNWRAPPED = 1000


@dataclass
class Settings:
    """What holds for the whole program run; the context's `obj`."""

    output: str = "table"


def output_option[F: Callable[..., Any]](function: F) -> F:
    """Adds `--output table|json`; the choice is kept in the context's Settings, not passed to the function."""
    return click.option(
        "--output",
        type=click.Choice(["table", "json"]),
        callback=_keep,
        expose_value=False,
        is_eager=True,
        help="Tables for people (the default) or JSON for programs.",
    )(function)


def as_json() -> bool:
    """Whether the user asked for JSON."""
    return bool(click.get_current_context().ensure_object(Settings).output == "json")


def print_json(data: Any) -> None:
    """Writes one JSON document to stdout."""
    json.dump(data, sys.stdout, indent=2)
    sys.stdout.write("\n")


def confirmed(question: str) -> bool:
    """Asks on stderr. False also where nobody can answer, and for Ctrl-C."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        return False


def stdout() -> Console:
    """For results. Into a file or a pipe nothing is wrapped, as kubectl and Helm have it, so that grep finds a line."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNWRAPPED
    return console


def stderr() -> Console:
    """For progress, warnings and errors."""
    return Console(stderr=True, highlight=False)


def _keep(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).output = value
