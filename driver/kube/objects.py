"""What the driver knows of the objects of a release: small frozen values, which driver.kube.parsing makes.

Times are texts as Kubernetes writes them (2026-11-30T15:04:05Z), empty where there is none; they compare as times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

INSTANCE = "app.kubernetes.io/instance"
CHART = "app.kubernetes.io/name=maxtext-multislice"
"""Selects the RayClusters and RayJobs of all releases. Their pods carry KubeRay's name there."""

ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
NODE_POOL = "cloud.google.com/gke-nodepool"

ROLE = "ray.io/node-type"
"""KubeRay's label of a pod: head or worker."""

SLICE_BY_WEBHOOK = "replicaIndex"
"""The label of GKE's TPU webhook: GROUP-NUMBER."""


class State(Enum):
    """Where a host or a slice is in its life. A slice is as far as its least ready host."""

    MISSING = "missing"  # a host has no pod
    FAILED = "failed"  # has ended, and is not made anew yet
    QUEUED = "queued"  # has no node
    STARTING = "starting"
    LEAVING = "leaving"
    READY = "ready"  # Ray's own health check passes


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that Kubernetes says of an object.

    source: where: "PodScheduled", "waiting", "terminated", "status", or the reason of an event. text: its words, a
    container's reason before them.
    """

    kind: str
    name: str
    source: str
    text: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a release. role: head, worker or submitter. slice, host: None where nothing tells them.

    status: one word, as `kubectl get pods` prints it. leaving: when it was told to end, its grace included.
    """

    name: str
    uid: str
    cluster: str
    role: str
    slice: int | None
    host: int | None
    status: str
    ready: bool
    restarts: int
    node: str
    address: str
    created: str
    leaving: str

    @property
    def state(self) -> State:
        if self.leaving:
            return State.LEAVING
        if self.ready:
            return State.READY
        if self.ended:
            return State.FAILED
        return State.STARTING if self.node else State.QUEUED

    @property
    def ended(self) -> bool:
        """Whether no container of it runs again: what `kubectl` then prints is the reason of its end."""
        return self.status in _ENDED or self.status.startswith(("ExitCode:", "Signal:"))


_ENDED = {
    "Completed", "Succeeded", "Failed", "Error", "OOMKilled", "Evicted", "Terminated", "NodeShutdown", "NodeLost",
    "Preempting", "DeadlineExceeded", "ContainerStatusUnknown", "UnexpectedAdmissionError",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Detail:
    """What only the whole pod tells. host: its number in its slice, None where nothing tells it."""

    name: str
    host: int | None
    signs: tuple[Sign, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice, its hosts in the order of their numbers (of their names, where these are not known).

    size: how many hosts it has when it is whole.
    """

    number: int
    size: int
    hosts: tuple[Pod, ...]

    @property
    def state(self) -> State:
        staying = [host.state for host in self.hosts if host.state is not State.LEAVING]
        if self.hosts and not staying:
            return State.LEAVING
        lacking = State.LEAVING if len(self.hosts) >= self.size else State.MISSING
        states = {*staying, lacking} if len(staying) < self.size else set(staying)
        return next(state for state in State if state in states)


@dataclass(frozen=True)
class RayCluster:
    """The Ray cluster of a release. wanted, least, most: slices now asked for, and the bounds.

    state: KubeRay's word: ready, suspended, failed or empty. accelerator: GKE's label, such as tpu-v6e-slice.
    token_secret: the secret with the token that Ray asks for, empty where it asks for none.
    """

    name: str
    created: str
    deleting: bool
    suspended: bool
    state: str
    reason: str
    group: str
    wanted: int
    least: int
    most: int
    hosts_per_slice: int
    accelerator: str
    topology: str
    metrics_port: int
    token_secret: str = ""


@dataclass(frozen=True)
class RayJob:
    """The run as KubeRay knows it. status: Ray's word; deployment: KubeRay's. steps: 0 where it does not say."""

    name: str
    created: str
    deleting: bool
    run: str
    attempt: int
    steps: int
    cluster: str
    submission_id: str
    status: str
    deployment: str
    reason: str
    message: str
    started: str
    ended: str
    retries: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A host that was taken away, as far as events still tell. at: when; why: the words for it."""

    pod: str
    at: str
    why: str


@dataclass(frozen=True)
class Snapshot:
    """A release at one moment. taken: Unix seconds. pools: node to node pool. remarks: what could not be read."""

    release: str
    namespace: str
    taken: float
    cluster: RayCluster | None
    job: RayJob | None
    head: Pod | None = None
    slices: tuple[Slice, ...] = ()
    submitters: tuple[Pod, ...] = ()
    signs: tuple[Sign, ...] = ()
    lost: tuple[Lost, ...] = ()
    pools: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def hosts(self) -> list[Pod]:
        return [host for one in self.slices for host in one.hosts]

    @property
    def pods(self) -> list[Pod]:
        """All of the release: head, submitters, hosts."""
        return [*([self.head] if self.head else []), *self.submitters, *self.hosts]


def newest[T: (RayCluster, RayJob)](objects: Sequence[T]) -> T | None:
    """The one that a release has now: an upgrade may leave its predecessor for a while, on its way out."""
    return max(objects, key=lambda one: (not one.deleting, one.created, one.name), default=None)
