"""The options that give values for the chart, as Helm's own command line has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from driver.completion import ValuesFile
from driver.values import Values, find_file


def values_options[F: Callable[..., Any]](function: F) -> F:
    """Adds `-f/--values`, `--set` and `--set-string`; the function gets them as files, sets and texts."""
    for declared in (
        click.option("--set-string", "texts", multiple=True, metavar="KEY=VALUE", help="The same, always as text."),
        click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Sets a value; repeatable."),
        click.option(
            "-f",
            "--values",
            "files",
            multiple=True,
            metavar="FILE",
            type=ValuesFile(),
            help="Values file, or a profile's name; repeatable, the later ones win.",
        ),
    ):
        function = declared(function)
    return function


def given(files: tuple[str, ...], sets: tuple[str, ...], texts: tuple[str, ...]) -> Values:
    """Raises a DriverError for a file that is not there, with the nearest profile."""
    return Values(tuple(find_file(file) for file in files), sets, texts)
