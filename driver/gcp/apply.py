"""Carries a plan out, at the same time as far as dependencies allow; it can be stopped and taken up again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Protocol

from google.api_core.exceptions import Conflict

from driver.errors import DriverError
from driver.gcp import errors
from driver.gcp.cloud import Cloud
from driver.gcp.plan import Action, Step
from driver.gcp.resource import Found, Resource
from driver.gcp.retrying import until_it_works
from driver.gcp.waiting import Waiting

_WORKERS = 32
_CONFLICTS = 5
"""Create says that it is there, and a look says that it is not: more often than this is no delay any more."""


class Follower(Protocol):
    """Who is told how it goes; called from many threads."""

    def began(self, step: Step) -> None: ...
    def told(self, step: Step, text: str) -> None: ...
    def ended(self, step: Step, error: BaseException | None) -> None: ...


@dataclass(frozen=True)
class Failure:
    step: Step
    error: BaseException


class NotFinishedError(Exception):
    """The user stopped waiting. going_on: what was under way in the cloud then."""

    def __init__(self, going_on: Sequence[Step]) -> None:
        self.going_on = tuple(going_on)
        super().__init__(", ".join(step.resource.key for step in going_on))


def carry_out(
    steps: Sequence[Step], before: Callable[[Step], Sequence[Step]], cloud: Cloud, follower: Follower
) -> tuple[Failure, ...]:
    """Carries the steps out. Returns what failed; what depends on that was not begun, everything else was done.

    before: the steps that must be done before a step.
    Raises NotFinishedError on Ctrl-C.
    """
    graph = TopologicalSorter({step: before(step) for step in steps})
    graph.prepare()
    stop = threading.Event()
    running: dict[Future[None], Step] = {}
    # Kept by the workers themselves: Ctrl-C may come before `running` knows of one.
    under_way: list[Step] = []
    failures: list[Failure] = []
    # Not a `with` block: that would wait, after Ctrl-C, for calls that hang.
    pool = ThreadPoolExecutor(_WORKERS)
    try:
        while graph.is_active():
            for step in graph.get_ready():
                running[pool.submit(_carry_out, step, cloud, stop, follower, under_way)] = step
            if not running:
                break  # what is left depends on what failed
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                step = running.pop(future)
                error = future.exception()
                if error is None:
                    graph.done(step)
                else:
                    failures.append(Failure(step, error))
    except KeyboardInterrupt:
        going_on = list(under_way)
        stop.set()
        raise NotFinishedError(going_on) from None
    finally:
        pool.shutdown(wait=not stop.is_set(), cancel_futures=True)
    return tuple(failures)


def _carry_out(step: Step, cloud: Cloud, stop: threading.Event, follower: Follower, under_way: list[Step]) -> None:
    waiting = Waiting(lambda text: follower.told(step, text), stop)
    under_way.append(step)
    follower.began(step)
    try:
        _VERBS[step.action](step.resource, cloud, waiting)
    except BaseException as error:
        follower.ended(step, error)
        raise
    finally:
        under_way.remove(step)
    follower.ended(step, None)


def make(resource: Resource, cloud: Cloud, waiting: Waiting) -> None:
    """Makes a resource unless it is there, whoever began to make it and whatever became of the answer to that.

    After a call whose outcome is not known (a cut connection, a 5xx, "already exists"), what is there decides.
    """
    conflicts: list[Conflict] = []
    until_it_works(lambda: _make_once(resource, cloud, waiting, conflicts), waiting)


def _make_once(resource: Resource, cloud: Cloud, waiting: Waiting, conflicts: list[Conflict]) -> None:
    found = _settled(resource, cloud, waiting)
    if found is None:
        try:
            resource.create(cloud, waiting)
        except Conflict as error:
            conflicts.append(error)
            if len(conflicts) > _CONFLICTS:
                raise errors.explain(error, f"making {resource.key}", resource.site) from error
            raise
    elif not (found.ours or resource.shared):
        raise DriverError(
            f"{resource.key} was made by someone else while we worked.",
            rule="What we did not make is never changed or deleted.",
            fix="run the command again to see what is there",
        )
    elif found.broken:
        raise DriverError(
            f"{resource.key} was not made: {found.broken}", fix="run the command again: it makes it again"
        )


def _update(resource: Resource, cloud: Cloud, waiting: Waiting) -> None:
    def once() -> None:
        found = _settled(resource, cloud, waiting)
        if found is None:
            raise DriverError(f"{resource.key} went away while we worked.", fix="run the command again")
        if found.differences:
            resource.update(cloud, found, waiting)

    until_it_works(once, waiting)


def _replace(resource: Resource, cloud: Cloud, waiting: Waiting) -> None:
    waiting.tell("removing what did not work")
    remove(resource, cloud, waiting)
    make(resource, cloud, waiting)


def remove(resource: Resource, cloud: Cloud, waiting: Waiting) -> None:
    """Removes a resource that carries our mark, unless it is gone."""

    def once() -> None:
        found = _settled(resource, cloud, waiting)
        if found is not None and found.ours:
            resource.delete(cloud, waiting)

    until_it_works(once, waiting)


def _settled(resource: Resource, cloud: Cloud, waiting: Waiting) -> Found | None:
    """What is there when nothing goes on at it any more."""
    found = resource.describe(cloud)
    if found is not None and found.unfinished:
        resource.await_ready(cloud, waiting)
        found = resource.describe(cloud)
    return found


_VERBS: Mapping[Action, Callable[[Resource, Cloud, Waiting], None]] = {
    Action.CREATE: make,
    Action.WAIT: make,
    Action.UPDATE: _update,
    Action.REPLACE: _replace,
    Action.REMOVE: remove,
}
