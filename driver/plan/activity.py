"""What a plan is at, as a line that a terminal redraws, with the seconds that it has taken; elsewhere a line for each
thing that is begun."""

import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.text import Text


class Activity:
    """What is drawn is asked for anew each time: give it to rich's `Status` or `Live`.

    doing: what is compiled at this moment (verdict.Compiler).
    """

    def __init__(self, console: Console, doing: Callable[[], str]) -> None:
        self._console, self._doing = console, doing
        self._phase, self._begun = "", time.monotonic()
        self._shown: RenderableType | None = None

    def phase(self, said: str) -> None:
        """Something is begun, or goes on (`Trying single changes: 3 of 12`)."""
        if _subject(said) != _subject(self._phase):
            self._begun = time.monotonic()
            if not self._console.is_terminal:
                self._console.print(said, markup=False, soft_wrap=True)
        self._phase = said

    def show(self, above: RenderableType) -> None:
        """Draws this above the line."""
        self._shown = above

    def __rich__(self) -> RenderableType:
        doing = self._doing()
        line = Text(f"{self._phase}, {time.monotonic() - self._begun:.0f} s" if self._phase else "")
        line.append(f"  {doing}", style="dim")
        return line if self._shown is None else Group(self._shown, line)


def _subject(said: str) -> str:
    return said.partition(":")[0]
