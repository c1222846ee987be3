"""Waiting for Google Cloud, so that it can be followed and stopped."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

POLL_SECONDS = 5.0
"""Between two looks at something that takes minutes; tests make it shorter."""


class WaitStoppedError(Exception):
    """The user pressed Ctrl-C: what was begun in the cloud goes on there."""


@dataclass
class Waiting:
    """One resource's wait. tell: says what goes on, one short line; stop: set when the user has had enough."""

    tell: Callable[[str], None] = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Returns when `done` says so, asking at once, then more slowly up to every POLL_SECONDS.

        Raises WaitStoppedError when stopped; what `done` raises goes through.
        """
        pause = POLL_SECONDS / 8
        while not done():
            self.tell(what)
            self.pause(pause)
            pause = min(POLL_SECONDS, pause * 1.5)

    def pause(self, seconds: float) -> None:
        """Sleeps unless stopped. Raises WaitStoppedError."""
        if self.stop.wait(seconds):
            raise WaitStoppedError
