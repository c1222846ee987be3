"""Whether an install starts the run: again, for the first time, or not at all.

`driver install --rerun` counts job.attempt up, `driver stop` switches the job off, and both are written in the
release's own values. An install with other values must not undo them by accident: it keeps the attempt that the
release has reached (another number would be another run), and does not start a stopped run unless it is told to.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from driver.errors import USAGE, DriverError
from driver.kube.release import ATTEMPT, ENABLED, SUSPEND, Revision


def values_for(merged: Mapping[str, Any], before: Revision | None, *, rerun: bool) -> dict[str, Any]:
    """The values to install: those given, with what the release remembers of its run.

    Raises a DriverError where the run was stopped and nothing says whether to start it, and for a --rerun of what was
    never installed.
    """
    values = copy.deepcopy(dict(merged))
    if rerun and before is None:
        raise DriverError("There is no run to start again.", fix="the same without --rerun", exit_code=USAGE)
    old = before.values if before and before.values else {}
    reached = _attempt(old)
    if rerun:
        put(values, ATTEMPT, max(reached, _attempt(values)) + 1)
        put(values, ENABLED, True)
        if get(values, SUSPEND) is not None:
            put(values, SUSPEND, False)
        return values
    if get(values, ATTEMPT) is None and get(old, ATTEMPT) is not None:
        put(values, ATTEMPT, reached)
    if before and stopped(old) and get(values, ENABLED) is None and get(values, SUSPEND) is None:
        raise DriverError(
            f"The run of {before.release} is stopped.",
            rule="An install does not start a stopped run by surprise.",
            fix=f"driver install {before.release} --rerun starts it again from its last checkpoint; "
            "--set job.enabled=false changes the release and leaves the run stopped",
        )
    return values


def stopped(values: Mapping[str, Any]) -> bool:
    """Whether these values hold the run back."""
    return get(values, ENABLED) is False or get(values, SUSPEND) is True


def stop_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values with the run stopped: suspended where it has a cluster of its own, which it then gives up; else
    without the job, and the cluster stays. Under Kueue the field `suspend` is Kueue's."""
    held = copy.deepcopy(dict(values))
    if get(held, ("rayJob", "ownCluster")) and not get(held, ("rayJob", "queue")):
        put(held, SUSPEND, True)
    else:
        put(held, ENABLED, False)
    return held


def get(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """None where it is not said."""
    found: Any = values
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Changes the values in place."""
    for key in path[:-1]:
        if not isinstance(values.get(key), dict):
            values[key] = {}
        values = values[key]
    values[path[-1]] = value


def _attempt(values: Mapping[str, Any]) -> int:
    """The chart's own is 1."""
    found = get(values, ATTEMPT)
    return int(found) if isinstance(found, int | float) else 1
