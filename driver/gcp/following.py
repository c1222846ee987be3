"""How long work in the cloud is getting on: a table that lives, or a line per event where there is no terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from driver.gcp.plan import Action, Step

_DONE = {
    Action.CREATE: "made",
    Action.WAIT: "ready",
    Action.UPDATE: "changed",
    Action.REPLACE: "made again",
    Action.REMOVE: "removed",
}


@dataclass
class _Row:
    began: float = 0.0
    ended: float = 0.0
    text: str = ""
    failed: bool = False

    @property
    def state(self) -> str:
        if not self.began:
            return "waits for others"
        return f"{(self.ended or time.monotonic()) - self.began:.0f} s"


class Following:
    """Shows the steps of a plan as they are carried out (driver.gcp.apply.Follower). A context manager."""

    def __init__(self, steps: Sequence[Step], console: Console) -> None:
        self._rows = {step: _Row() for step in steps}
        self._console = console
        self._lock = threading.Lock()
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def began(self, step: Step) -> None:
        with self._lock:
            self._rows[step].began = time.monotonic()

    def told(self, step: Step, text: str) -> None:
        with self._lock:
            news = self._rows[step].text != text
            self._rows[step].text = text
        if news:
            self._line(step, text)

    def ended(self, step: Step, error: BaseException | None) -> None:
        with self._lock:
            row = self._rows[step]
            row.ended, row.text, row.failed = time.monotonic(), "failed" if error else _DONE[step.action], bool(error)
        self._line(step, f"{row.text} after {row.state}")

    def _line(self, step: Step, text: str) -> None:
        if not self._console.is_terminal:
            with self._lock:
                self._console.print(f"{step.resource.key}: {text}", soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        with self._lock:
            for step, row in self._rows.items():
                mark: Spinner | Text = Text("·", "dim")
                if row.ended:
                    mark = Text("✗", "red") if row.failed else Text("✓", "green")
                elif row.began:
                    mark = Spinner("dots", style="yellow")
                table.add_row(mark, step.resource.key, Text(row.state, "dim"), row.text)
        return table
