"""A release of the chart on a test cluster: what a person does with helm and kubectl, and what they wait for."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, watch

from tests.chart.rendering import CHART, REPOSITORY, tool
from tests.cluster.addons import Api
from tests.cluster.buckets import Bucket, FolderBucket, RemoteBucket

TINY = REPOSITORY / "values" / "tiny.yaml"
SITE = Path(__file__).with_name("site.values.yaml")
_RAY = {"group": "ray.io", "version": "v1"}
_OF_EVERY_NAMESPACE = {"configmap/kube-root-ca.crt", "serviceaccount/default"}
_PLURALS = {"RayCluster": "rayclusters", "RayJob": "rayjobs"}

Object = dict[str, Any]


class NotReachedError(AssertionError):
    """What was waited for did not come; the message has the last state, events and logs."""


@dataclass(frozen=True)
class Release:
    """A release's name in a namespace whose service accounts may use the bucket."""

    api: Api
    kubeconfig: Path
    namespace: str
    bucket: Bucket
    site: Path = SITE
    name: str = "demo"

    def install(self, *sets: str, files: Sequence[Path] = (), options: Sequence[str] = ()) -> str:
        """`helm upgrade --install` of the unmodified chart with values/tiny.yaml and the site's file; Helm's words."""
        values = [argument for file in (TINY, self.site, *files) for argument in ("--values", str(file))]
        chosen = [argument for each in (*self.bucket.settings, *sets) for argument in ("--set", each)]
        return self.helm("upgrade", "--install", self.name, str(CHART), *values, *chosen, *options)

    def uninstall(self) -> None:
        self.helm("uninstall", self.name, "--wait")

    def helm(self, *arguments: str) -> str:
        return _run([tool("helm"), "--namespace", self.namespace, *arguments], self.environment)

    def kubectl(self, *arguments: str) -> str:
        return _run([tool("kubectl"), "--namespace", self.namespace, *arguments], self.environment)

    def shell(self, script: str) -> str:
        """What a user's shell says to these lines, with kubectl and helm on the PATH."""
        folders = [str(Path(tool(name)).parent) for name in ("kubectl", "helm")]
        path = ":".join([*folders, os.environ["PATH"]])
        return _run(["bash", "-c", script], {**self.environment, "PATH": path})

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def manifest(self, kind: str) -> Object:
        """The object of a kind as the release has it, from `helm get manifest`."""
        found = [each for each in yaml.safe_load_all(self.helm("get", "manifest", self.name)) if each["kind"] == kind]
        return dict(found[0])

    def job_name(self) -> str:
        return str(self.manifest("RayJob")["metadata"]["name"])

    def cluster_name(self) -> str:
        return str(self.manifest("RayCluster")["metadata"]["name"])

    def objects(self, kind: str) -> list[Object]:
        listed = self.api.custom.list_namespaced_custom_object(namespace=self.namespace, plural=_PLURALS[kind], **_RAY)
        return list(listed["items"])

    def pods(self, selector: str = "") -> list[Any]:
        return list(self.api.core.list_namespaced_pod(self.namespace, label_selector=selector).items)

    def workers(self) -> list[Any]:
        """The pods of TPU hosts that are not on their way out."""
        return [pod for pod in self.pods("ray.io/node-type=worker") if not pod.metadata.deletion_timestamp]

    def identities(self) -> dict[str, str]:
        """Name and identity of what runs: a restart changes them."""
        objects = [
            (each["metadata"]["name"], each["metadata"]["uid"]) for kind in _PLURALS for each in self.objects(kind)
        ]
        pods = [(pod.metadata.name, pod.metadata.uid) for pod in self.pods("ray.io/cluster")]
        return dict([*objects, *pods])

    def settle(self, seconds: float = 300) -> None:
        """Until KubeRay has looked at the cluster's present generation and all of it is there; raises
        NotReachedError."""

        def settled(cluster: Object) -> bool:
            return _observed(cluster) == cluster["metadata"]["generation"] and cluster_state(cluster) == "ready"

        self.await_object("RayCluster", self.cluster_name(), settled, seconds)

    def await_object(self, kind: str, name: str, done: Callable[[Object], bool], seconds: float) -> Object:
        """Watches a custom object until it is as wanted. Raises NotReachedError."""
        deadline, last = time.monotonic() + seconds, Object()
        while (left := deadline - time.monotonic()) > 0:
            watcher = watch.Watch()
            arguments: dict[str, Any] = {"namespace": self.namespace, "plural": _PLURALS[kind], **_RAY}
            arguments |= {"field_selector": f"metadata.name={name}", "timeout_seconds": max(1, int(left))}
            with contextlib.suppress(client.ApiException):  # a watch that has become too old is begun again
                for event in watcher.stream(self.api.custom.list_namespaced_custom_object, **arguments):
                    last = dict(event["object"])
                    if event["type"] != "DELETED" and done(last):
                        return last
        raise NotReachedError(f"{kind} {name} after {seconds:.0f} s: {json.dumps(last.get('status'))}\n{self.report()}")

    def await_none(self, kind: str, seconds: float) -> None:
        """Until no object of the kind is left; raises NotReachedError."""
        deadline = time.monotonic() + seconds
        while left := self.objects(kind):
            if time.monotonic() > deadline:
                raise NotReachedError(f"{left[0]['metadata']['name']} is still there\n{self.report()}")
            time.sleep(0.5)

    def await_success(self, seconds: float) -> Object:
        """Until the run has ended, its retries included; raises NotReachedError where it fails."""
        name = self.job_name()
        ended = self.await_object(
            "RayJob", name, lambda each: deployment_status(each) in ("Complete", "Failed"), seconds
        )
        if job_status(ended) != "SUCCEEDED":
            raise NotReachedError(f"{name} has failed: {json.dumps(ended['status'])}\n{self.report()}")
        return ended

    def await_empty(self, seconds: float) -> None:
        """Until nothing of a release is left in the namespace; raises NotReachedError with what is."""
        deadline = time.monotonic() + seconds
        while left := self._left():
            if time.monotonic() > deadline:
                raise NotReachedError(f"left after {seconds:.0f} s: {', '.join(left)}")
            time.sleep(0.5)

    def _left(self) -> list[str]:
        kinds = "pods,services,configmaps,secrets,serviceaccounts,roles,rolebindings,jobs,resourceclaims"
        kinds += ",resourceclaimtemplates,rayclusters,rayjobs,poddisruptionbudgets,networkpolicies"
        names = self.kubectl("get", kinds, "--output=name").split()
        return [name for name in names if name not in _OF_EVERY_NAMESPACE]

    def progress(self) -> list[Object]:
        """The run's records, as far as they are written (docs/progress.md)."""
        return self.bucket.records(self.name)

    def checkpoints(self) -> list[int]:
        return self.bucket.checkpoints(self.name)

    def await_records(self, done: Callable[[list[Object]], bool], seconds: float) -> list[Object]:
        """Watches the run's records until they are as wanted; raises NotReachedError, at once when it has failed."""
        deadline = time.monotonic() + seconds
        for _ in self.bucket.changes():
            if done(self.progress()):
                return self.progress()
            failed = [
                each["metadata"]["name"] for each in self.objects("RayJob") if deployment_status(each) == "Failed"
            ]
            if failed or time.monotonic() > deadline:
                why = f"{failed[0]} has failed" if failed else f"not within {seconds:.0f} s"
                records = [record for record in self.progress() if record["kind"] in ("session", "stall", "end")]
                raise NotReachedError(f"{why}; the run's records: {records}\n{self.report()}")
        raise AssertionError("the watch ends only by an answer")

    def sessions(self) -> list[Object]:
        """The starts of the run's groups of workers."""
        return [record for record in self.progress() if record["kind"] == "session"]

    def await_session(self, slices: int, seconds: float, after: int = 0) -> None:
        """Until the run has begun to train on that many slices, in a session that is not among the first `after`."""

        def begun(records: list[Object]) -> bool:
            sessions = [each for each in records if each["kind"] == "session"]
            return any(each["slices"] == slices for each in sessions[after:])

        self.await_records(begun, seconds)

    def await_step(self, step: int, seconds: float) -> None:
        """Until a step is recorded, which it is with the next checkpoint."""
        self.await_records(lambda found: any(each.get("step", 0) >= step for each in found), seconds)

    def steps_lost(self) -> list[int]:
        """For each restart, how many steps were trained again at least: those up to a checkpoint that was begun."""
        lost, begun = [], 0
        for record in self.progress():
            if record["kind"] == "checkpoint":
                begun = max(begun, record["step"])
            elif record["kind"] == "session" and record["session"] > 1:
                lost.append(max(0, begun + 1 - record["start_step"]))
        return lost

    def report(self) -> str:
        """For a failed test: pods, warnings, and the last lines of the job."""
        parts = []
        for pod in self.pods():
            parts.append(f"{pod.metadata.name} {pod.status.phase} on {pod.spec.node_name}")
        for event in self.api.core.list_namespaced_event(self.namespace).items:
            if event.type == "Warning":
                parts.append(f"{event.involved_object.name}: {event.reason}: {event.message}")
        for job in self.objects("RayJob"):
            with contextlib.suppress(FailedError):
                parts.append(self.kubectl("logs", f"job/{job['metadata']['name']}", "--tail=60"))
        return "\n".join(parts)


class FailedError(AssertionError):
    """A command failed; the message is its own."""


def job_status(job: Object) -> str:
    return str(job.get("status", {}).get("jobStatus", ""))


def deployment_status(job: Object) -> str:
    return str(job.get("status", {}).get("jobDeploymentStatus", ""))


def _observed(cluster: Object) -> int:
    return int(cluster.get("status", {}).get("observedGeneration", 0))


def cluster_state(cluster: Object) -> str:
    return str(cluster.get("status", {}).get("state", ""))


def _run(command: list[str], environment: dict[str, str]) -> str:
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    if result.returncode:
        raise FailedError(f"{' '.join(command[:6])} ...: {result.stderr.strip()}")
    return result.stdout


@dataclass(frozen=True)
class Place:
    """A cluster to make releases on. buckets: the folder of the test cluster's buckets; None where it is another's."""

    api: Api
    kubeconfig: Path
    buckets: Path | None
    site: Path = SITE

    @contextlib.contextmanager
    def release(self, namespace: str, *, make_namespace: bool = True) -> Iterator[Release]:
        """A release `demo` that is not installed yet, in a namespace of its own, which is gone at the end.

        make_namespace: False where that is a part of what is tested.
        """
        _remove(self.api, namespace)  # what an interrupted test has left
        if make_namespace:
            self.api.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
        bucket: Bucket
        if self.buckets is None:
            kubectl = [tool("kubectl"), f"--namespace={namespace}"]
            environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
            bucket = RemoteBucket(namespace, lambda *arguments: _run([*kubectl, *arguments], environment))
        else:
            bucket = FolderBucket(self.buckets / namespace, f"{namespace}/demo")
        try:
            yield Release(self.api, self.kubeconfig, namespace, bucket, self.site)
        finally:
            _remove(self.api, namespace)
            if isinstance(bucket, FolderBucket):
                bucket.remove()


def _remove(api: Api, namespace: str) -> None:
    """Removes a namespace and waits until it is gone, so that its pods hold no chips."""
    selector = {"field_selector": f"metadata.name={namespace}"}
    found = api.core.list_namespace(**selector)
    if not found.items:
        return
    api.core.delete_namespace(namespace)
    # The pods would take their time to say goodbye to each other.
    api.core.delete_collection_namespaced_pod(namespace, grace_period_seconds=1)
    deleted = {**selector, "resource_version": found.metadata.resource_version, "timeout_seconds": 180}
    for event in watch.Watch().stream(api.core.list_namespace, **deleted):
        if event["type"] == "DELETED":
            return
    raise NotReachedError(f"namespace {namespace} is still there after 180 s.")
