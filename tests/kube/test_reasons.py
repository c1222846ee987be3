"""What Kubernetes says of something that waits becomes a reason in plain words, with what mends it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from driver.kube import reasons, snapshot
from driver.kube.reason_patterns import PATTERNS
from driver.kube.reasons import Reason
from tests.kube import manifests
from tests.kube.server.api import Api

pytestmark = pytest.mark.usefixtures("demo")

NODES = "0/3 nodes are available: "
FUSE = 'MountVolume.SetUp failed for volume "output" : rpc error: code = '
NO_SUCH_NODE = f"{NODES}3 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are available."

# The words are those of Kubernetes 1.36 and KubeRay 1.5; GKE's are from its documentation.
UNSCHEDULED = [
    ("noSuchNode", NO_SUCH_NODE),
    ("chipsInUse", f"{NODES}1 Insufficient google.com/tpu, 2 node(s) didn't match Pod's node affinity/selector."),
    ("claimWaits", f"{NODES}2 cannot allocate all claims, 1 node(s) didn't match Pod's node affinity/selector."),
    ("deviceClassMissing", f"{NODES}3 request netdev: device class netdev.google.com does not exist."),
    ("poolTaken", f"{NODES}2 node(s) didn't match pod anti-affinity rules, 1 node(s) were unschedulable."),
    ("poolTaken", f"{NODES}2 node(s) didn't satisfy existing pods anti-affinity rules."),
    ("nodeTooSmall", f"{NODES}3 Insufficient memory."),
    ("taint", f"{NODES}3 node(s) had untolerated taint(s)."),
    ("cordoned", f"{NODES}3 node(s) were unschedulable."),
    ("unschedulable", f"{NODES}3 node(s) did something new."),
]
CONTAINERS = [
    ("imageNeverPulled", "ErrImageNeverPull", 'Container image "localhost/none:1" is not present'),
    ("imageRefused", "ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: 403 Forbidden'),
    ("imageMissing", "ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: docker.io/x:1: not found'),
    ("imageMissing", "InvalidImageName", "Failed to apply default image tag"),
    ("imageNotPulled", "ErrImagePull", "dial tcp: i/o timeout"),
    ("objectMissing", "CreateContainerConfigError", 'secret "hf-token" not found'),
    ("crashes", "CrashLoopBackOff", "back-off 5m0s restarting failed container=ray-worker"),
]
EVENTS = [
    ("bucketRefused", "FailedMount", f'{FUSE}PermissionDenied desc = failed to get GCS bucket: googleapi: Error 403: '
     "the service account demo does not have storage.objects.list access"),
    ("bucketMissing", "FailedMount", f"{FUSE}NotFound desc = failed to get GCS bucket: storage: bucket doesn't exist"),
    ("identityRefused", "FailedMount", f"{FUSE}Unauthenticated desc = failed to prepare storage service"),
    ("fuseMissing", "FailedMount", 'MountVolume.SetUp failed for volume "output" : driver name '
     "gcsfuse.csi.storage.gke.io not found in the list of registered CSI drivers"),
    ("fuseSidecar", "FailedMount", f"{FUSE}FailedPrecondition desc = failed to find the sidecar container in Pod spec"),
    ("fuseFailed", "FailedMount", f"{FUSE}InvalidArgument desc = gcsfuse failed with error: unknown flag: --fast"),
    ("objectMissing", "FailedMount", 'MountVolume.SetUp failed for volume "trainer" : configmap "demo-x" not found'),
    ("mountFailed", "FailedMount", 'MountVolume.SetUp failed for volume "v" : something else'),
    ("claimNotPrepared", "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: prepare: DRA driver x "
     "is not registered"),
    ("unhealthy", "Unhealthy", "Readiness probe failed: connection refused"),
    ("sandbox", "FailedCreatePodSandBox", "Failed to create pod sandbox: plugin type=cilium failed"),
]  # fmt: skip
REFUSED_PODS = [
    ("webhookRefused", 'admission webhook "tpu.webhook" denied the request: Number of workers in worker group not '
     "equal to specified topology"),
    ("webhookDown", 'Internal error occurred: failed calling webhook "tpu.webhook": connect: connection refused'),
    ("podQuota", 'pods "x" is forbidden: exceeded quota: team, requested: google.com/tpu=4, used: 4, limited: 4'),
    ("podSecurity", 'pods "x" is forbidden: violates PodSecurity "restricted:latest": hostNetwork'),
    ("serviceAccountMissing", 'pods "x" is forbidden: error looking up service account team/y: '
     'serviceaccount "y" not found'),
]  # fmt: skip
AUTOSCALER = [
    ("noQuota", "FailedScaleUp", "Warning",
     "Node scale up in zones us-east5-b associated with this pod failed: GCE quota exceeded. Pod is at risk."),
    ("noCapacity", "FailedScaleUp", "Warning",
     "Node scale up in zones us-east5-b associated with this pod failed: GCE out of resources. Pod is at risk."),
    ("scaleUpFailed", "FailedScaleUp", "Warning", "Node scale up failed: Internal error."),
    ("scaleUpAtLimit", "NotTriggerScaleUp", "Normal", "pod didn't trigger scale-up: 1 max node group size reached"),
    ("scalingUp", "TriggeredScaleUp", "Normal", "pod triggered scale-up: [{https://x 0->4 (max: 4)}]"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "said"), UNSCHEDULED)
def test_a_pod_without_a_node_has_the_schedulers_reason(api: Api, kind: str, said: str):
    name = _last_host(api, **manifests.unscheduled(said))
    reason = _only_reason(api)
    assert (reason.kind, reason.pods, reason.slices) == (kind, (name,), (1,))
    assert reason.fix


@pytest.mark.parametrize(("kind", "word", "said"), CONTAINERS)
def test_a_container_that_waits_has_the_kubelets_reason(api: Api, kind: str, word: str, said: str):
    _last_host(api, **manifests.waiting(word, said))
    assert _only_reason(api).kind == kind


@pytest.mark.parametrize(("kind", "event", "said"), EVENTS)
def test_a_pod_that_waits_on_its_node_has_its_events_reason(api: Api, kind: str, event: str, said: str):
    name = _last_host(api, **manifests.waiting("ContainerCreating"))
    api.put("events", manifests.event("Pod", name, event, said))
    assert _only_reason(api).kind == kind


@pytest.mark.parametrize(("kind", "event", "type", "said"), AUTOSCALER)
def test_what_the_autoscaler_says_tells_more_than_the_scheduler(api: Api, kind: str, event: str, type: str, said: str):
    name = _last_host(api, **manifests.unscheduled(NO_SUCH_NODE))
    api.put("events", manifests.event("Pod", name, event, said, type=type))
    assert _only_reason(api).kind == kind


@pytest.mark.parametrize(("kind", "said"), REFUSED_PODS)
def test_pods_that_cannot_be_made_have_their_makers_reason(api: Api, kind: str, said: str):
    api.remove("pods", manifests.worker_name(1, 1))
    message = f"Failed to create worker Pod for the cluster team/{manifests.CLUSTER}, {said}"
    api.put("events", manifests.event("RayCluster", manifests.CLUSTER, "FailedToCreateWorkerPod", message))
    assert _only_reason(api).kind == kind


def test_a_refusal_that_is_solved_is_none_any_more(api: Api):
    message = 'admission webhook "tpu.webhook" denied the request: no'
    api.put("events", manifests.event("RayCluster", manifests.CLUSTER, "FailedToCreateWorkerPod", message))
    assert _reasons(api) == ()


def test_what_kept_a_pod_from_a_node_is_no_reason_once_it_has_one(api: Api):
    name = _last_host(api, **manifests.waiting("ContainerCreating"))
    api.put("events", manifests.event("Pod", name, "FailedScheduling", NO_SUCH_NODE))
    assert _reasons(api) == ()


def test_what_a_container_waits_for_now_outweighs_what_an_event_tells_of_before(api: Api):
    name = _last_host(api, **manifests.waiting("ErrImageNeverPull"))
    api.put("events", manifests.event("Pod", name, "FailedMount", f"{FUSE}PermissionDenied desc = no"))
    assert _only_reason(api).kind == "imageNeverPulled"


def test_pods_that_wait_for_the_same_make_one_reason_that_counts_them(api: Api):
    for host in range(2):
        api.put("pods", manifests.worker(1, host, **manifests.unscheduled(NO_SUCH_NODE)))
    reason = _only_reason(api)
    assert (len(reason.pods), reason.slices) == (2, (1,))


def test_what_is_in_no_line_of_the_table_is_given_as_it_was_said(api: Api):
    name = _last_host(api, **manifests.waiting("ContainerCreating"))
    api.put("events", manifests.event("Pod", name, "Unheard", "Of something new."))
    reason = _only_reason(api)
    assert (reason.kind, reason.means) == ("other", "Of something new.")
    assert reason.fix == f"kubectl -n team describe pod {name}"


def test_a_health_check_that_fails_is_no_reason_while_the_pod_is_young(api: Api):
    name = _last_host(api, **manifests.waiting("ContainerCreating"))
    api.get("pods", name)["metadata"]["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    api.put("events", manifests.event("Pod", name, "Unhealthy", "Readiness probe failed: "))
    assert _reasons(api) == ()


def test_an_image_is_named_where_the_kubelet_names_it(api: Api):
    _last_host(api, **manifests.waiting("ErrImageNeverPull", 'Container image "localhost/none:1" is not present'))
    assert _only_reason(api).means.startswith("The image localhost/none:1 is not on the node")


def test_the_fix_names_the_pod_and_the_shape(api: Api):
    name = _last_host(api, **manifests.waiting("CrashLoopBackOff"))
    assert _only_reason(api).fix.endswith(f"kubectl -n team logs {name} --previous")
    _last_host(api, **manifests.unscheduled(NO_SUCH_NODE))
    assert "tpu-v6e-slice 2x4" in _only_reason(api).means


def test_a_run_of_which_everything_is_ready_waits_for_nothing(api: Api):
    assert _reasons(api) == ()


def test_each_kind_of_the_table_is_tried_and_each_text_of_it_can_be_filled():
    tried = {case[0] for cases in (UNSCHEDULED, CONTAINERS, EVENTS, AUTOSCALER, REFUSED_PODS) for case in cases}
    rest = {"invalidCluster", "claimMissing", "gated", "outOfMemory", "nodeLost", "evicted"}
    assert {pattern.kind for pattern in PATTERNS} == tried | rest
    for pattern in PATTERNS:
        names = {"release", "namespace", "role", "shape", "image", *pattern.said.groupindex}
        (pattern.means + pattern.fix).format_map(dict.fromkeys(names, ""))


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("gated", {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                                                       "reason": "SchedulingGated", "message": "gated"}]}),
        ("claimMissing", manifests.unscheduled('resourceclaim "x" not found')),
        ("outOfMemory", {"phase": "Failed", "containerStatuses": [
            {"name": "ray", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}),
        ("nodeLost", {"phase": "Failed", "reason": "NodeShutdown", "message": "Pod was terminated"}),
        ("evicted", {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}),
    ],
)  # fmt: skip
def test_a_pods_own_status_is_its_reason(api: Api, kind: str, status: dict[str, Any]):
    _last_host(api, **status)
    assert _only_reason(api).kind == kind


def test_values_that_kuberay_refuses_are_told(api: Api):
    api.remove_all("pods")
    words = "The RayCluster spec is invalid team/demo: headGroupSpec should have at least one container"
    api.put("events", manifests.event("RayCluster", manifests.CLUSTER, "InvalidRayClusterSpec", words))
    assert _only_reason(api).kind == "invalidCluster"


def _last_host(api: Api, **status: Any) -> str:
    """Gives the second host of slice 1 this status; its name."""
    return str(api.put("pods", manifests.worker(1, 1, **status))["metadata"]["name"])


def _reasons(api: Api) -> tuple[Reason, ...]:
    return reasons.explain(snapshot.read(api.connection(), "demo"))


def _only_reason(api: Api) -> Reason:
    (reason,) = _reasons(api)
    return reason
