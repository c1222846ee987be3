"""Which slice and which host of it a new TPU pod becomes, where KubeRay does not say so itself.

GKE's webhook gives the lowest missing host of the lowest slice that lacks one, else the number of slices that it sees.
So, with slice 0 gone as a whole and slice 1 alive, it would give slice 1 a third host; here slice 0 is filled again,
as a run needs it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tests.gke.tpu import tpu_containers

REPLICA_LABEL = "replicaIndex"
WORKER_ID = "TPU_WORKER_ID"
# Between the webhook's answer and the pod in the API server's list; a pod that another webhook refuses frees its slot.
UNSEEN_SECONDS = 5.0


class Slot(NamedTuple):
    """Slice number in its worker group, and host number in its slice."""

    replica: int
    host: int


class Group(NamedTuple):
    """A worker group of a RayCluster."""

    namespace: str
    cluster: str
    name: str


class Slots:
    """Gives slots, and remembers those that it gave until their pods can be seen."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._unseen: dict[Group, dict[Slot, float]] = {}

    def take(self, group: Group, hosts: int, pods: Callable[[], Iterable[Mapping[str, Any]]], keep: bool) -> Slot:
        """The lowest slot that no living pod has.

        pods: lists the group's pods; called under the lock, so that a pod which was seen cannot be forgotten again.
        keep: False for a dry run, which makes no pod.
        """
        with self._lock:
            used = {slot for pod in pods() if occupies(pod) and (slot := slot_of(pod)) is not None}
            now = self._clock()
            given = self._unseen.get(group, {})
            unseen = {slot: at for slot, at in given.items() if slot not in used and now - at < UNSEEN_SECONDS}
            slot = _lowest_free(used | unseen.keys(), hosts)
            if keep:
                unseen[slot] = now
            self._unseen[group] = unseen
        return slot


def occupies(pod: Mapping[str, Any]) -> bool:
    """Whether a pod holds its slot: one that is being deleted or has ended does not."""
    return not pod["metadata"].get("deletionTimestamp") and pod.get("status", {}).get("phase") not in (
        "Failed",
        "Succeeded",
    )


def slot_of(pod: Mapping[str, Any]) -> Slot | None:
    """The slot that the webhook wrote into a pod; None where it did not."""
    replica = pod["metadata"].get("labels", {}).get(REPLICA_LABEL, "").rpartition("-")[2]
    containers = [container for _, container in tpu_containers(pod)]
    variables = [variable for container in containers for variable in container.get("env", [])]
    ids = [variable.get("value", "") for variable in variables if variable["name"] == WORKER_ID]
    if not replica.isdigit() or not ids or not ids[0].isdigit():
        return None
    # Several containers ask for chips on 7x only, where each is a worker of its own.
    per_host = len(containers)
    return Slot(int(replica), int(ids[0]) // per_host)


def _lowest_free(used: set[Slot], hosts: int) -> Slot:
    number = 0
    while (slot := Slot(*divmod(number, hosts))) in used:
        number += 1
    return slot
