"""JAX process ids in the order of slices and hosts, for Ray Train's JAX backend.

Ray orders workers by the text of TPU_NAME, which puts slice 10 before slice 2 and hosts of a slice in any order.
JAX's process id, libtpu's slice id and MaxText's mesh want slices in number order and hosts by TPU_WORKER_ID, and
all of it must hold before `jax.distributed.initialize`, which Ray calls ahead of the training loop.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from places import Place, check, order
from ray.exceptions import RayTaskError
from ray.train.v2.jax import config as ray_jax

logger = logging.getLogger(__name__)

_START_FAILURES = 3
"""Starts of a worker group in a row that may fail in JAX's rendezvous, as when a slice goes while others join."""


@dataclass
class OrderedJaxConfig(ray_jax.JaxConfig):
    """JaxConfig whose processes are numbered by (slice number, TPU_WORKER_ID), after checking that all are there."""

    topology: str = ""
    hosts_per_slice: int = 1

    @property
    def backend_cls(self) -> type:
        return _OrderedBackend


class _OrderedBackend(ray_jax._JaxBackend):
    def __init__(self) -> None:
        super().__init__()
        self._failures = 0

    def on_start(self, worker_group: Any, backend_config: OrderedJaxConfig) -> None:
        slices = worker_group.get_worker_group_context().num_slices
        places = worker_group.execute(_join, slices)
        check(places, backend_config.topology, backend_config.hosts_per_slice)
        try:
            super().on_start(_Reordered(worker_group, order(places)), backend_config)
        except RayTaskError as error:
            self._failures += 1
            if self._failures >= _START_FAILURES:
                raise
            logger.warning("JAX did not start on all workers, try %d of %d", self._failures, _START_FAILURES)
            from ray.train.v2._internal.exceptions import WorkerGroupStartupFailedError

            # Ray Train starts the group again after this error and ends the run after any other.
            raise WorkerGroupStartupFailedError(f"JAX did not start on all workers: {error}") from error
        self._failures = 0


class _Reordered:
    """A worker group whose index i is the i-th worker in process order."""

    def __init__(self, worker_group: Any, indices: list[int]):
        self._worker_group = worker_group
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker_group, name)

    def execute_single(self, index: int, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self._worker_group.execute_single(self._indices[index], fn, *args, **kwargs)

    def execute_single_async(self, index: int, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self._worker_group.execute_single_async(self._indices[index], fn, *args, **kwargs)


def _join(slices: int) -> Place:
    """Runs on each worker: drops what an earlier, larger group left behind, and tells where it is."""
    if slices == 1:
        # With one slice Ray leaves these alone, and libtpu would wait for the slices they speak of.
        for name in [n for n in os.environ if n.startswith("MEGASCALE_") and n != "MEGASCALE_PORT"]:
            del os.environ[name]
    return Place(
        os.environ.get("TPU_NAME", ""),
        int(os.environ.get("TPU_WORKER_ID") or 0),
        os.environ.get("TPU_TOPOLOGY", ""),
    )
