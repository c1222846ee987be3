"""One job at a time for each run: Helm starts the new RayJob before it deletes the old one.

The turn is a named Ray actor on the head that lives as long as its job, so a job that dies in any way gives it back.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from run import Run

NAMESPACE = "maxtext-multislice"


class TurnTimeoutError(Exception):
    """Another job still trains the run."""


class _Turn:
    async def forever(self) -> None:
        """Pending until this actor, and so the job that holds the turn, is gone."""
        await asyncio.Event().wait()


@contextlib.contextmanager
def wait(run: Run) -> Iterator[None]:
    """Holds the turn for the run's output folder.

    Raises:
        TurnTimeoutError: another job held it for longer than the run file allows.
    """
    deadline = time.monotonic() + run.timeouts.previous_job_seconds
    while (turn := _take(run)) is None:
        print(f"waiting: another job still trains run {run.name}", flush=True)
        _await_release(run, deadline)
    try:
        yield
    finally:
        ray.kill(turn)


def _name(run: Run) -> str:
    return f"turn:{run.folder}"


def _take(run: Run) -> ray.actor.ActorHandle | None:
    head = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    try:
        return ray.remote(_Turn).options(num_cpus=0, name=_name(run), scheduling_strategy=head).remote()
    except ValueError:  # the name is taken
        return None


def _await_release(run: Run, deadline: float) -> None:
    try:
        holder = ray.get_actor(_name(run))
        ray.get(holder.forever.remote(), timeout=max(0.0, deadline - time.monotonic()))
    except ray.exceptions.GetTimeoutError as error:
        raise TurnTimeoutError(
            f"another job has been training run {run.name} for {run.timeouts.previous_job_seconds:g} s"
            " (job.previousJobTimeoutSeconds): stop that job, or give this one another job.runName"
        ) from error
    except (ValueError, ray.exceptions.RayActorError):
        return  # gone meanwhile
