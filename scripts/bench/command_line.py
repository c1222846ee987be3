"""What the benchmarks' command lines share: how their options look, and an answer for people or for programs."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def parser(documentation: str | None, starts_trainer: bool = False) -> argparse.ArgumentParser:
    """Options that all have; `starts_trainer` adds the one for those that run MaxText on this machine."""
    name = Path(sys.argv[0]).stem
    made = argparse.ArgumentParser(
        prog=f"scripts/bench/run {name}",
        description=documentation,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--output", choices=("table", "json"), default="table")
    if starts_trainer:
        made.add_argument("--trainer-python", type=Path, help="python of an environment with the trainer's packages")
    return made


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """The first column is text, the others are numbers; None is a dash."""
    made = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left")
    for row in rows:
        made.add_row(*("-" if cell is None else str(cell) for cell in row))
    return made


def answer(output: str, facts: Mapping[str, Any], *tables: Table) -> None:
    """The only thing that a benchmark writes to standard output: one line of JSON, or its tables."""
    if output == "json":
        print(json.dumps(facts))
        return
    console = Console()
    for each in tables:
        console.print(each)


def positive(text: str) -> int:
    """The type of an option that counts. Raises an ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)
