"""How a run is getting on: its Ray gauges, and what they look like in a terminal and in a log."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from driver import gauges
from driver.local import dashboard
from driver.local.hosts import State

TRAINING = "Training"  # the phase in which steps are taken
_LINE_SECONDS = 10.0
_COLOURS = {State.READY: "green", State.QUEUED: "yellow", State.STARTING: "yellow", State.LEAVING: "yellow"}


class Gauges:
    """Reads the run's gauges (docs/progress.md) where they are: on the host that has process 0 of the training.

    To be asked costs a host some of the time that it trains with, so one host is asked, once a second at most.
    """

    def __init__(self) -> None:
        self._port = 0
        self._asked_at = -math.inf

    def read(self, metrics_ports: Sequence[int]) -> dict[str, float]:
        """The gauges by name without their prefix (`step`, `loss`, ...), those of them that were set in the last two
        seconds; empty when there are none, or when they were read just now."""
        now = time.monotonic()
        if now - self._asked_at < gauges.SECONDS:
            return {}
        self._asked_at = now
        for port in sorted(metrics_ports, key=lambda port: port != self._port):
            if found := gauges.parse(dashboard.text(f"http://127.0.0.1:{port}/metrics")):
                self._port = port
                return found
        return {}


@dataclass
class View:
    """What is shown. phase: a few words. slices: that of its least ready host. said: the job's last line."""

    run: Mapping[str, Any]
    phase: str
    slices: Mapping[int, State] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    restarts: int = 0
    said: str = ""

    @property
    def step(self) -> int:
        """The last step that was trained, -1 for none."""
        return int(self.gauges.get("step", -1))

    @property
    def seconds_left(self) -> float | None:
        """What the remaining steps take if they take as long as the last one."""
        seconds = self.gauges.get("step_seconds")
        known = seconds is not None and self.step >= 0 and self.run["steps"] > 0
        return None if seconds is None or not known else seconds * (self.run["steps"] - 1 - self.step)

    def place(self) -> str:
        """Which step of how many; how many is not known of every run."""
        last = self.run["steps"] - 1
        return f"step {self.step} of {last}" if last >= 0 else f"step {self.step}"

    def slices_line(self) -> RenderableType:
        """The slices, in a terminal."""
        line = Text("slices")
        for number, state in sorted(self.slices.items()):
            line.append("  ● ", _COLOURS.get(state, "red")).append(f"{number} {state.value}")
        return line

    def numbers(self) -> str:
        """The gauges in a line."""
        formats = {
            "loss": "loss {:.3f}",
            "step_seconds": "{:.3f} s/step",
            "tflops_per_chip": "{:.3f} TFLOP/s",
            "tokens_per_second_per_chip": "{:,.0f} tokens/s per chip",
        }
        parts = [shape.format(self.gauges[name]) for name, shape in formats.items() if name in self.gauges]
        if self.gauges.get("last_checkpoint_step", -1) >= 0:
            parts.append(f"checkpoint {self.gauges['last_checkpoint_step']:.0f}")
        if self.restarts:
            parts.append(f"restarts {self.restarts}")
        return "  ".join(parts)


class Display(Protocol):
    """Where a run's progress goes, as a context."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def tell(self, text: str) -> None:
        """Something happened, once."""

    def show(self, view: View) -> None:
        """How it is now; called about twice a second."""


def display(console: Console) -> Display:
    """A block of lines that is redrawn in place in a terminal, plain lines elsewhere."""
    return _Terminal(console) if console.is_terminal else _Lines(console)


def duration(seconds: float) -> str:
    """`42 s`, `3:07 min`, `1:02:03 h`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02} h"
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"


class _Terminal:
    def __init__(self, console: Console) -> None:
        self._begun = time.monotonic()
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._spinner = Spinner("dots", style="cyan")

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def tell(self, text: str) -> None:
        self._live.console.print(Text.assemble((f"{time.strftime('%H:%M:%S')}  ", "dim"), text))

    def show(self, view: View) -> None:
        self._live.update(self._block(view))

    def _block(self, view: View) -> RenderableType:
        self._spinner.update(text=Text.assemble((view.phase, "bold"), (f"  {self._elapsed()}", "dim")))
        rows: list[RenderableType] = [Text(), self._spinner]
        if view.step >= 0:
            line = Table.grid(padding=(0, 2))
            left = view.seconds_left
            line.add_row(
                ProgressBar(total=view.run["steps"] or None, completed=view.step + 1, width=40),
                view.place(),
                Text(f"{duration(left)} left" if left is not None else "", "dim"),
            )
            rows += [line, Text(view.numbers())]
        elif view.said:
            rows.append(Text(view.said, "dim", no_wrap=True, overflow="ellipsis"))
        rows.append(view.slices_line())
        return Group(*rows)

    def _elapsed(self) -> str:
        return duration(time.monotonic() - self._begun)


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._said_at = 0.0
        self._phase, self._step = "", -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def tell(self, text: str) -> None:
        elapsed = duration(time.monotonic() - self._begun)
        self._console.print(f"[{elapsed:>9}] {text}", markup=False, soft_wrap=True)
        self._said_at = time.monotonic()

    def show(self, view: View) -> None:
        if view.phase != self._phase:
            self._phase = view.phase
            self.tell(view.phase)
        new = view.phase == TRAINING and view.step != self._step
        if new and time.monotonic() - self._said_at >= _LINE_SECONDS:
            self._step = view.step
            self.tell(f"{view.place()}  {view.numbers()}")
