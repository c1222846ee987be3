"""Trying again what failed in a way that passes."""

from __future__ import annotations

from collections.abc import Callable

import tenacity

from driver.gcp import errors
from driver.gcp.kubernetes import NotReachedError
from driver.gcp.waiting import Waiting

FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 20.0
_BUSY_SECONDS = 3600.0
"""Another's operation on a cluster, such as an upgrade, is waited for as long as this."""
_PASSING_SECONDS = 300.0
"""So long for what mostly passes in seconds."""


def until_it_works(once: Callable[[], None], waiting: Waiting) -> None:
    """Calls until it does not raise what passes, with growing random pauses, for some minutes; for an hour where the
    cluster is busy. Raises the last error."""

    def say(state: tenacity.RetryCallState) -> None:
        waiting.tell(f"trying again: {errors.in_short(_error(state))}")

    tenacity.Retrying(
        retry=tenacity.retry_if_exception(_passes),
        wait=tenacity.wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=_LONGEST_PAUSE_SECONDS),
        stop=_too_long,
        sleep=waiting.pause,
        before_sleep=say,
        reraise=True,
    )(once)


def _passes(error: BaseException) -> bool:
    return isinstance(error, NotReachedError) or errors.passes(error)


def _too_long(state: tenacity.RetryCallState) -> bool:
    limit = _BUSY_SECONDS if errors.is_busy(_error(state)) else _PASSING_SECONDS
    return (state.seconds_since_start or 0.0) > limit


def _error(state: tenacity.RetryCallState) -> Exception:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, Exception):
        raise TypeError(f"asked about a call that did not fail: {error!r}")
    return error
