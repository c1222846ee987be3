"""Threads that ask Google at the same time, and that nobody waits for after Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def pool(size: int) -> Iterator[ThreadPoolExecutor]:
    """As a ThreadPoolExecutor's own block, which would wait for all its calls, of a minute each, also when one of them
    has failed or Ctrl-C was pressed."""
    threads = ThreadPoolExecutor(size)
    try:
        yield threads
    except BaseException:
        threads.shutdown(wait=False, cancel_futures=True)
        raise
    threads.shutdown()
