"""A release as it might be at one moment after the other, for what follows one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from driver.kube import parsing
from driver.kube.objects import Pod, RayCluster, RayJob, Slice, Snapshot
from tests.kube import manifests


def pod(name: str, slice_number: int | None = None, host: int | None = None, **fields: Any) -> Pod:
    """A host that is ready on a node, but for these fields."""
    facts: dict[str, Any] = {
        "uid": f"uid-{name}", "cluster": "demo-1", "role": "worker", "status": "Running", "ready": True, "restarts": 0,
        "node": f"node-{slice_number}-{host}", "address": "10.0.0.1", "created": manifests.CREATED, "leaving": "",
    }  # fmt: skip
    return Pod(name=name, slice=slice_number, host=host, **(facts | fields))


def job(status: str = "", deployment: str = "Initializing", **fields: Any) -> RayJob:
    manifest = manifests.ray_job(
        name="demo-a", cluster="demo-1", steps=60, jobStatus=status, jobDeploymentStatus=deployment, startTime=""
    )
    return replace(parsing.ray_job(manifest), **fields)


def cluster(**fields: Any) -> RayCluster:
    return replace(parsing.ray_cluster(manifests.ray_cluster(name="demo-1")), **fields)


def snapshot(run: RayJob | None, ready: Sequence[int] = (2, 2), size: int = 2, **fields: Any) -> Snapshot:
    """ready: for each slice, how many of its hosts are."""
    slices = tuple(
        Slice(
            number,
            size,
            tuple(pod(f"demo-{number}-{host}", number, host, ready=host < count) for host in range(size)),
        )
        for number, count in enumerate(ready)
    )
    facts: dict[str, Any] = {"cluster": cluster(), "slices": slices, "head": pod("demo-head", role="head")} | fields
    return Snapshot(release="demo", namespace="team", taken=0.0, job=run, **facts)


@dataclass(frozen=True)
class Reason:
    means: str
    fix: str = ""


@dataclass(frozen=True)
class Scene:
    """From `at` seconds on. snapshot: None while the API server is away, an error to raise it."""

    at: float
    snapshot: Snapshot | Exception | None
    gauges: Mapping[str, float] = field(default_factory=dict)
    reasons: Sequence[Reason] = ()
    words: str = ""
    trouble: str = ""
    interrupt: bool = False


class Stage:
    """Plays scenes, each until the next one begins, in a time of its own (driver.kube.following.Source)."""

    def __init__(self, *scenes: Scene) -> None:
        self.scenes = list(scenes)
        self.now = 0.0
        self.looks = 0

    def clock(self) -> float:
        return self.now

    @property
    def scene(self) -> Scene:
        return next(scene for scene in reversed(self.scenes) if scene.at <= self.now)

    def wait(self, seconds: float) -> bool:
        before = self.scene
        self.now += seconds
        assert self.now < self.scenes[-1].at + 10_000, "nothing ends it"
        if self.scene.interrupt:
            raise KeyboardInterrupt
        return self.scene is not before

    def snapshot(self) -> Snapshot | None:
        self.looks += 1
        found = self.scene.snapshot
        if isinstance(found, Exception):
            raise found
        return found

    def gauges(self, _snapshot: Snapshot) -> Mapping[str, float]:
        return self.scene.gauges

    @property
    def trouble(self) -> str:
        return self.scene.trouble

    def reasons(self, _snapshot: Snapshot) -> Sequence[Reason]:
        return self.scene.reasons

    def words(self, _snapshot: Snapshot) -> str:
        return self.scene.words


class Audience:
    """Remembers what it was told and shown (driver.local.progress.Display)."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.phases: list[str] = []

    def __enter__(self) -> Audience:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def tell(self, text: str) -> None:
        self.told.append(text)

    def show(self, view: Any) -> None:
        if view.phase not in self.phases[-1:]:
            self.phases.append(view.phase)
