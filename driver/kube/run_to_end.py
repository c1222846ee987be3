"""A run followed on a cluster: what `driver install` and `driver up` do after Helm, and `driver preempt` in its way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from driver.kube import outcome
from driver.kube.connection import Connection
from driver.kube.following import Follower, Request
from driver.kube.source import ClusterSource
from driver.local import progress


@contextmanager
def follower(connection: Connection, request: Request, console: Console) -> Iterator[Follower]:
    """A follower that shows itself on the console: as a block that is redrawn on a terminal, as lines elsewhere."""
    with ClusterSource(connection, request.release) as source, progress.display(console) as display:
        yield Follower(request, source, display)


def follow(connection: Connection, request: Request, console: Console) -> Mapping[str, Any]:
    """The facts of the run (docs/running.md) when it has ended; `succeeded` is the verdict.

    Raises a DriverError as `Follower.until_the_end` does.
    """
    begun = time.monotonic()
    with follower(connection, request, console) as followed:
        end = followed.until_the_end()
        return outcome.facts(end, followed, time.monotonic() - begun)


def request(release: str, job: str, run: Mapping[str, Any], *, namespace: str, start_timeout: float) -> Request:
    """For a release that was just installed. job: its RayJob's name. run: its run.yaml. start_timeout: seconds."""
    return Request(
        release=release,
        job=job,
        steps=int(run["steps"]),
        checkpoints=bool(run["maxtext"].get("enable_checkpointing", True)),
        start_timeout=start_timeout,
        namespace=namespace,
    )


def again(release: str, namespace: str) -> str:
    """The command that takes up a run that has failed."""
    return f"driver install {release} -n {namespace} --rerun"
