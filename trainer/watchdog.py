"""Ends a worker that makes no progress, so that a hang becomes a failure that Ray Train can act on."""

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable

EXIT_CODE = 70
"""EX_SOFTWARE; tells a stalled worker from one that was killed."""

_BACKSTOP_SECONDS = 30.0
"""How much later faulthandler's own thread ends the process if this module's never gets the interpreter lock."""

_STDERR = 2
"""The process's own standard error: sys.stderr may be an object without a file behind it."""


class Watchdog:
    """Counts from its start and from each `beat()`; ends the process when `seconds` pass without one.

    The stacks of all threads go to standard error first. `seconds` of 0 switches it off.
    """

    def __init__(self, seconds: float, before_exit: Callable[[float], None]):
        """`before_exit` is called with the seconds waited, before the process ends."""
        self._seconds = seconds
        self._before_exit = before_exit
        self._deadline = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        if self._seconds:
            self.beat()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._seconds:
            faulthandler.cancel_dump_traceback_later()

    def beat(self) -> None:
        if self._seconds:
            self._deadline = time.monotonic() + self._seconds
            faulthandler.dump_traceback_later(self._seconds + _BACKSTOP_SECONDS, exit=True, file=_STDERR)

    def _watch(self) -> None:
        while (left := self._deadline - time.monotonic()) > 0:
            if self._stopped.wait(left):
                return
        print(f"watchdog: no progress for {self._seconds:g} s, ending this worker", file=sys.__stderr__, flush=True)
        faulthandler.dump_traceback(file=_STDERR)
        try:
            self._before_exit(self._seconds)
        finally:
            os._exit(EXIT_CODE)
