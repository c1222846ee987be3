"""Why something of a release does not run, in plain words, with what mends it.

What Kubernetes says of a pod that is not ready is looked up in a table (reason_patterns); what stands in none of its
lines is given as it was said. Pods with the same reason make one.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from driver.kube.objects import Pod, Sign, Snapshot, State
from driver.kube.reason_patterns import PATTERNS, Pattern

# A container that waits for these is on its way.
_ON_ITS_WAY = ("ContainerCreating", "PodInitializing")
# The word of a pod that was not read whole (one whose container crashes runs, for Kubernetes).
_PRINTED = "printed"
# The event of a health check that fails, as every container's does until it is up: a reason only when that takes long.
_PROBE, _PROBE_SECONDS = "Unhealthy", 180.0
_WAITING_STATES = (State.QUEUED, State.STARTING, State.FAILED)


@dataclass(frozen=True)
class Reason:
    """kind: from the table, or `other`. means, fix: for people, fix may be empty. said: Kubernetes' own words.

    pods: that wait for it, sorted; none where the pods are not made. slices: their numbers.
    """

    kind: str
    means: str
    fix: str
    said: str
    pods: tuple[str, ...]
    slices: tuple[int, ...]

    def as_data(self) -> dict[str, Any]:
        """For `--output json`."""
        return {
            "kind": self.kind, "means": self.means, "fix": self.fix, "said": self.said, "slices": list(self.slices),
            "pods": list(self.pods),
        }  # fmt: skip


def explain(snapshot: Snapshot) -> tuple[Reason, ...]:
    """The reasons for all that waits, those that hold back the most pods first."""
    signs: dict[tuple[str, str], list[Sign]] = defaultdict(list)
    for sign in snapshot.signs:
        signs[sign.kind, sign.name].append(sign)
    found: dict[tuple[str, str], tuple[Pattern | None, Sign, list[Pod]]] = {}
    for pod in snapshot.pods:
        if pod.state in _WAITING_STATES and not _is_done(pod):
            said = [sign for sign in signs["Pod", pod.name] if sign.source != _PROBE or _is_slow(pod, snapshot)]
            _add(found, snapshot, [*said, Sign("Pod", pod.name, _PRINTED, pod.status)], pod)
    if _lacks_pods(snapshot):
        for of, kind in ((snapshot.cluster, "RayCluster"), (snapshot.job, "RayJob"), (snapshot.job, "Job")):
            said = signs[kind, of.name] if of else []
            # What is solved stays among the events for an hour: the last of them is the one that counts.
            _add(found, snapshot, sorted(said, key=lambda sign: sign.at)[-1:], None)
    reasons = (_reason(pattern, sign, pods, snapshot) for pattern, sign, pods in found.values())
    return tuple(sorted(reasons, key=lambda reason: (-len(reason.pods), reason.kind)))


def _add(
    found: dict[tuple[str, str], tuple[Pattern | None, Sign, list[Pod]]],
    snapshot: Snapshot,
    signs: Iterable[Sign],
    pod: Pod | None,
) -> None:
    best = _most_telling(signs, placed=pod is not None and bool(pod.node))
    if best is None:
        return
    pattern, sign = best
    means = _fill(pattern.means, pattern, sign, snapshot, pod) if pattern else sign.text
    _, _, pods = found.setdefault((pattern.kind if pattern else "other", means), (pattern, sign, []))
    if pod is not None:
        pods.append(pod)


def _most_telling(signs: Iterable[Sign], *, placed: bool) -> tuple[Pattern | None, Sign] | None:
    """The sign that counts and the table's first line for it; None for a pod of which nothing is said.

    What a container waits for now outweighs events, which tell of the past.
    """
    now = [sign for sign in signs if not (sign.source == "waiting" and sign.text.startswith(_ON_ITS_WAY))]
    waiting = [sign for sign in now if sign.source == "waiting"]
    for some in (waiting, now):
        for pattern in PATTERNS:
            if placed and not pattern.placed:
                continue
            matching = [sign for sign in some if pattern.said.search(_text(sign))]
            if matching:
                return pattern, max(matching, key=lambda sign: sign.at)
    unknown = waiting or [sign for sign in now if _says_something(sign, placed=placed)]
    return (None, max(unknown, key=lambda sign: sign.at)) if unknown else None


def _reason(pattern: Pattern | None, sign: Sign, pods: Sequence[Pod], snapshot: Snapshot) -> Reason:
    names = tuple(sorted(pod.name for pod in pods))
    first = pods[0] if pods else None
    described = f"kubectl -n {snapshot.namespace} describe {f'pod {names[0]}' if names else f'{sign.kind} {sign.name}'}"
    fix = _fill(pattern.fix, pattern, sign, snapshot, first) if pattern else described.lower()
    return Reason(
        kind=pattern.kind if pattern else "other",
        means=_fill(pattern.means, pattern, sign, snapshot, first) if pattern else sign.text,
        fix=re.sub(r"\bPOD\b", names[0], fix) if names else fix,
        said=sign.text,
        pods=names,
        slices=tuple(sorted({pod.slice for pod in pods if pod.slice is not None})),
    )


def _fill(text: str, pattern: Pattern, sign: Sign, snapshot: Snapshot, pod: Pod | None) -> str:
    match = pattern.said.search(_text(sign))
    groups = {name: (said or "").strip().rstrip(".") for name, said in (match.groupdict() if match else {}).items()}
    image = re.search(r'image "([^"]+)"', sign.text)
    named = {"image": f" {image[1]}" if image else ""}
    return text.format_map({**_facts(snapshot, pod), **named, **groups})


def _facts(snapshot: Snapshot, pod: Pod | None) -> Mapping[str, str]:
    cluster = snapshot.cluster
    of_slice = cluster is not None and (pod is None or pod.role == "worker")
    return {
        "release": snapshot.release,
        "namespace": snapshot.namespace,
        "role": pod.role if pod else "worker",
        "shape": f"{cluster.accelerator} {cluster.topology}" if cluster and of_slice else f"the {pod.role}'s kind"
        if pod else "the TPU's kind",
    }  # fmt: skip


def _lacks_pods(snapshot: Snapshot) -> bool:
    """Whether pods are wanted that are not made: only then do their makers' complaints count."""
    cluster = snapshot.cluster
    if cluster is None:
        return snapshot.job is not None and not snapshot.job.ended
    if cluster.suspended or cluster.deleting:
        return False
    return snapshot.head is None or any(one.state is State.MISSING for one in snapshot.slices)


def _is_done(pod: Pod) -> bool:
    return pod.role == "submitter" and pod.ended


def _is_slow(pod: Pod, snapshot: Snapshot) -> bool:
    return snapshot.taken - datetime.fromisoformat(pod.created).timestamp() > _PROBE_SECONDS


def _says_something(sign: Sign, *, placed: bool) -> bool:
    scheduling = ("PodScheduled", "FailedScheduling", "NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp")
    return sign.source != _PRINTED and not (placed and sign.source in scheduling)


def _text(sign: Sign) -> str:
    return f"{sign.source} {sign.text}"
