"""Compares what a site wants with what is there, without changing anything: the plan that bootstrap carries out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from driver.errors import DriverError, raise_all
from driver.gcp import errors, threads
from driver.gcp.cloud import Cloud
from driver.gcp.resource import Difference, Found, Resource
from driver.gcp.site import Site

_READERS = 16


class Action(StrEnum):
    """What happens to a resource; the words stand in the plan as it is printed."""

    KEEP = "exists"
    USE = "is used"
    CREATE = "is made"
    WAIT = "is waited for"
    UPDATE = "is changed"
    REPLACE = "is made again"
    REMOVE = "is removed"
    REFUSE = "cannot go on"

    @property
    def changes(self) -> bool:
        return self not in (Action.KEEP, Action.USE, Action.REFUSE)


@dataclass(frozen=True, eq=False)
class Step:
    """A resource, what is there of it, and what happens to it. why: in a few words. problem: why it cannot go on."""

    resource: Resource
    action: Action
    found: Found | None = None
    why: str = ""
    problem: DriverError | None = None

    def as_data(self) -> dict[str, Any]:
        """The step for `--output json`."""
        differences = self.found.differences if self.found else ()
        return {
            "kind": self.resource.kind,
            "name": self.resource.name,
            "action": self.action.name.lower(),
            "why": self.why,
            "differences": [
                {"field": one.field, "found": one.found, "wanted": one.wanted, "inPlace": one.in_place}
                for one in differences
            ],
        }


@dataclass(frozen=True)
class Plan:
    """The steps in the order of the list, what is removed last."""

    steps: tuple[Step, ...]

    @property
    def changes(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.action.changes)

    @property
    def removals(self) -> tuple[Step, ...]:
        """What takes away something that is there, and is asked about."""
        return tuple(step for step in self.steps if step.action in (Action.REMOVE, Action.REPLACE))

    @property
    def problems(self) -> tuple[DriverError, ...]:
        return tuple(step.problem for step in self.steps if step.problem)

    def check(self) -> None:
        """Raises one DriverError with everything that is in the way."""
        raise_all(self.problems, "things are in the way, and nothing was changed:")


def make(
    resources: Sequence[Resource], cloud: Cloud, surplus: Sequence[Resource] = (), allowed: Iterable[str] = ()
) -> Plan:
    """The plan for the resources in their order.

    surplus: what carries the site's mark and is no longer wanted.
    allowed: the flags given for changes that are made only when asked for (`Resource.update_flag`).
    Raises Google's errors.
    """
    flags = frozenset(allowed)
    steps = [compare(resource, found, flags) for resource, found in zip(resources, look(resources, cloud), strict=True)]
    again = {step.resource.kind for step in steps if step.action == Action.REPLACE}
    steps = [_with_what_it_is_in(step) if step.resource.inside in again else step for step in steps]
    steps += [
        Step(resource, Action.REMOVE, why="the site file no longer asks for it")
        for resource in surplus
        if resource.inside not in again
    ]
    return Plan(tuple(steps))


def _with_what_it_is_in(step: Step) -> Step:
    """What happens to a resource that goes because what it is in is made again."""
    if step.problem or step.action == Action.CREATE:
        return step
    return Step(step.resource, Action.CREATE, why=f"the {step.resource.inside} that it is in is made again")


def look(resources: Sequence[Resource], cloud: Cloud) -> list[Found | None]:
    """What is there of each, read at the same time."""
    return _at_once(lambda resource: _unless_off(lambda: resource.describe(cloud), None), resources)


def marked(kinds: Iterable[type[Resource]], site: Site, cloud: Cloud) -> list[Resource]:
    """Everything of these kinds with the site's mark."""
    nothing: Sequence[Resource] = ()
    found = _at_once(lambda kind: _unless_off(lambda: kind.marked(site, cloud), nothing), list(kinds))
    return [resource for resources in found for resource in resources]


def _unless_off[T](ask: Callable[[], T], nothing: T) -> T:
    """A project in which an API is off has nothing of what that API makes."""
    try:
        return ask()
    except errors.GOOGLE_ERRORS as error:
        if errors.is_api_off(error):
            return nothing
        raise


def _at_once[S, T](ask: Callable[[S], T], subjects: Sequence[S]) -> list[T]:
    with threads.pool(_READERS) as pool:
        return [future.result() for future in [pool.submit(ask, subject) for subject in subjects]]


def compare(resource: Resource, found: Found | None, flags: frozenset[str] = frozenset()) -> Step:
    """What happens to one resource, of which this was found."""
    if found is None:
        if resource.existing:
            return _refuse(resource, None, _missing(resource))
        return Step(resource, Action.CREATE)
    if not (found.ours or resource.existing or resource.shared):
        return _refuse(resource, found, _foreign(resource))
    if found.broken:
        if resource.existing or resource.shared:
            return _refuse(resource, found, _broken(resource, found))
        return Step(resource, Action.REPLACE, found, found.broken)
    fixed = [one for one in found.differences if not one.in_place]
    if fixed:
        return _refuse(resource, found, _different(resource, fixed))
    if found.differences:
        if resource.update_flag and resource.update_flag not in flags:
            return _refuse(resource, found, _to_be_updated(resource, found))
        return Step(
            resource, Action.UPDATE, found, ", ".join(f"{one.field}: {one.wanted}" for one in found.differences)
        )
    if found.unfinished:
        return Step(resource, Action.WAIT, found, found.unfinished)
    return Step(resource, Action.USE if resource.existing else Action.KEEP, found)


def _refuse(resource: Resource, found: Found | None, problem: DriverError) -> Step:
    return Step(resource, Action.REFUSE, found, problem.found, problem)


def _missing(resource: Resource) -> DriverError:
    return DriverError(
        f"{resource.key} does not exist.",
        rule="The site file names it as existing, and such a one is used and never made.",
        fix="correct its name in the site file, or take `existing` out and it is made",
    )


def _foreign(resource: Resource) -> DriverError:
    return DriverError(
        f"{resource.key} is there and was not made for this site ({resource.site.id}).",
        rule="What we did not make is never changed or deleted.",
        fix="name another in the site file, or name this one as existing where the site file allows it",
    )


def _broken(resource: Resource, found: Found) -> DriverError:
    return DriverError(
        f"{resource.key} does not work: {found.broken}",
        rule="It is not ours, so it is not made again.",
        fix="mend it, or name another",
    )


def _different(resource: Resource, differences: Sequence[Difference]) -> DriverError:
    listed = "; ".join(f"{one.field} is {one.found or 'not set'} and should be {one.wanted}" for one in differences)
    mend = (
        "name another that has it"
        if resource.existing
        else "delete it (its work with it), and bootstrap makes it again"
    )
    return DriverError(
        f"{resource.key} differs from the site file: {listed}.",
        rule="This cannot be changed in place.",
        fix=f"change the site file to what is there, or {mend}",
    )


def _to_be_updated(resource: Resource, found: Found) -> DriverError:
    listed = "; ".join(f"{one.field} is {one.found or 'off'} and should be {one.wanted}" for one in found.differences)
    return DriverError(
        f"{resource.key}: {listed}.",
        rule="A cluster is changed only when asked for: others may work on it.",
        fix=f"driver bootstrap {resource.update_flag}",
    )
