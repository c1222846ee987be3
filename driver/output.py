"""Where words for people and data for programs go.

What a command found out goes to stdout, as a table or as JSON; how it is getting on goes to stderr. A command takes
`@output_option`, so that `--output json` may stand before or after the command's name, and asks `as_json()`.
Colours follow the terminal and NO_COLOR (https://no-color.org), which rich reads by itself.
"""

import json
import math
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


def document(data: Any, indent: int | None = None) -> str:
    """As JSON, which has no word for what is not a number (a diverged run's loss) or without end: null."""
    return json.dumps(_finite(data), indent=indent, allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data


def print_json(data: Any) -> None:
    """Writes one JSON document to stdout."""
    sys.stdout.write(document(data, indent=2))
    sys.stdout.write("\n")
    sys.stdout.flush()  # who reads a pipe waits for it, and the command may go on for long


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
