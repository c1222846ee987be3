"""Where a run of the tests writes, and how they look at it."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import watchfiles

Record = dict[str, Any]

_LOOK = (
    "import glob, json, os, sys; folder = sys.argv[1]; "
    "lines = [line for name in sorted(glob.glob(folder + '/progress/*.jsonl')) for line in open(name)]; "
    "steps = os.listdir(folder + '/checkpoints') if os.path.isdir(folder + '/checkpoints') else []; "
    "print(json.dumps([lines, steps]))"
)


class Bucket(Protocol):
    """settings: the values that make a release use it, as for --set."""

    @property
    def settings(self) -> Sequence[str]: ...

    def records(self, run: str) -> list[Record]:
        """The run's records, as far as they are written (docs/progress.md)."""
        ...

    def checkpoints(self, run: str) -> list[int]:
        """The steps that have a checkpoint, the last one last."""
        ...

    def changes(self) -> Iterator[None]:
        """Comes back when something may have changed, after some seconds at the latest."""
        ...


class FolderBucket:
    """A bucket of the test cluster: a folder of this machine, which the stand-in for GCS FUSE mounts."""

    def __init__(self, folder: Path, member: str):
        """Makes it. member: NAMESPACE/SERVICEACCOUNT that may use it."""
        self.folder = folder
        self.remove()
        folder.mkdir()
        self.bind([member])

    def bind(self, members: Sequence[str], hierarchical: bool = True) -> None:
        """Says who may use the bucket, and whether its folders are folders."""
        policy = {"members": list(members), "hierarchicalNamespace": hierarchical}
        self.folder.with_name(f"{self.folder.name}.iam.json").write_text(json.dumps(policy))

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=not self.folder.exists())

    @property
    def settings(self) -> Sequence[str]:
        return (f"storage.bucket={self.folder.name}",)

    def records(self, run: str) -> list[Record]:
        files = sorted((self.folder / run / "progress").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def checkpoints(self, run: str) -> list[int]:
        return sorted(int(path.name) for path in (self.folder / run / "checkpoints").glob("*") if path.name.isdigit())

    def changes(self) -> Iterator[None]:
        for _ in watchfiles.watch(self.folder, rust_timeout=2000, yield_on_timeout=True, debounce=100):
            yield None


class RemoteBucket:
    """The storage of another's cluster: a folder of the namespace's name in it, seen through the Ray head."""

    def __init__(self, namespace: str, kubectl: Callable[..., str]):
        self._namespace, self._kubectl = namespace, kubectl
        self._seen: tuple[list[Record], list[int]] = ([], [])

    @property
    def settings(self) -> Sequence[str]:
        return (f"job.outputFolder={self._namespace}",)

    def records(self, run: str) -> list[Record]:
        return self._look(run)[0]

    def checkpoints(self, run: str) -> list[int]:
        return self._look(run)[1]

    def changes(self) -> Iterator[None]:
        while True:
            yield None
            time.sleep(5)  # nothing tells of a change

    def _look(self, run: str) -> tuple[list[Record], list[int]]:
        """Without a head, what was seen last: an uninstalled release has none."""
        heads = self._kubectl("get", "pods", "--selector=ray.io/node-type=head", "--output=name").split()
        if heads:
            look = ("exec", heads[0], "--container=ray-head", "--", "python", "-c", _LOOK)
            lines, steps = json.loads(self._kubectl(*look, f"/data/{self._namespace}/{run}").splitlines()[-1])
            self._seen = [json.loads(line) for line in lines], sorted(int(step) for step in steps if step.isdigit())
        return self._seen
