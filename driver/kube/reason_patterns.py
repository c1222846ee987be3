"""What Kubernetes, KubeRay and GKE say when something cannot start, and what it means: a table, the most telling first.

Sources: [1] kubernetes 1.36.3: scheduler plugins, kubelet, volume/csi, resourceclaim controller, admission. [2] KubeRay
1.5.0: controllers/ray. [3] https://cloud.google.com/kubernetes-engine/docs/troubleshooting/cluster-autoscaler-scale-up
and troubleshoot-gcsfuse. [4] github.com/ai-on-gke/kuberay-tpu-webhook. Those of GKE [3] were not seen on GKE itself.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """kind: the stable name in `--output json`. said: what the source and the text, with a space between, must match
    (searched, lines together).

    means, fix: for people; {name} is a group of `said`, or one of release, namespace, role, shape (tpu-v6e-slice 4x4)
    and image (with a space before it, empty where it is not named).
    placed: whether it still counts once the pod has a node; one that has is past all that kept it from one.
    """

    kind: str
    said: re.Pattern[str]
    means: str
    fix: str
    placed: bool


def _before_node(kind: str, said: str, means: str, fix: str) -> Pattern:
    return Pattern(kind, re.compile(said, re.DOTALL), means, fix, placed=False)


def _always(kind: str, said: str, means: str, fix: str) -> Pattern:
    return Pattern(kind, re.compile(said, re.DOTALL), means, fix, placed=True)


PATTERNS = (
    # The pod is not made: what KubeRay, Helm's hooks and the Job controller say of a refused create [1, 2].
    _always("podQuota", r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>[^\n]*)",
            "The namespace's ResourceQuota {quota} is used up (requested: {asked}).",
            "have ResourceQuota {quota} of namespace {namespace} raised, or set fewer tpu.slices"),
    _always("podSecurity", r'violates PodSecurity "(?P<level>[^"]+)": (?P<rules>[^\n]*)',
            "The namespace's Pod Security level {level} refuses the pod: {rules}.",
            "set worker.securityContext and head.securityContext as it wants them, or label the namespace with a "
            "level that allows it"),
    _always("webhookDown", r'failed calling webhook "(?P<webhook>[^"]+)": (?P<error>[^\n]*)',
            "The admission webhook {webhook} does not answer, so no pod can be made: {error}.",
            "see whether its pods run: kubectl get pods -A | grep webhook"),
    _always("webhookRefused", r'admission webhook "(?P<webhook>[^"]+)" denied the request: (?P<said>[^\n]*)',
            "The admission webhook {webhook} refuses the pod: {said}.",
            "set tpu.topology and tpu.chipsPerHost as the node pool has them; `driver install --dry-run` shows "
            "the pod"),
    _always("serviceAccountMissing", r'serviceaccount "(?P<account>[^"]+)" not found',
            "There is no service account {account} in the namespace.",
            "set serviceAccount.create=true, or make it: kubectl -n {namespace} create serviceaccount {account}"),
    _always("invalidCluster", r"^(?:InvalidRayCluster|InvalidRayJob)\w+ (?P<said>.*)",
            "KubeRay refuses the values: {said}",
            "change the value that it names; KubeRay may be older than the chart wants (README, Requirements)"),
    # No node, as the autoscaler says [3].
    _before_node("noQuota", r"^FailedScaleUp .*quota exceeded|QUOTA_EXCEEDED|Quota '(?P<quota>[^']+)' exceeded",
            "Google Cloud's quota for {shape} is used up, so no node is made.",
            "driver preflight -c site.yaml shows the quota; ask for more, or set fewer tpu.slices"),
    _before_node("noCapacity", r"^FailedScaleUp .*(?:out of resources|stockout|RESOURCE_POOL_EXHAUSTED|ZONE_RESOURCE)",
            "Google Cloud has no {shape} free in the zone just now.",
            "wait: the autoscaler tries again; or set another tpu.capacity (reservation, flex-start), or another zone"),
    _before_node("scaleUpFailed", r"^FailedScaleUp (?P<said>.*)",
            "The autoscaler could not make a node: {said}",
            "kubectl -n {namespace} describe pod POD tells the whole of it"),
    _before_node("scalingUp", r"^TriggeredScaleUp ",
            "The autoscaler is making nodes for it.", "wait some minutes"),
    # No node, as the scheduler says [1].
    _before_node("deviceClassMissing", r"device class (?P<device>\S+) does not exist",
            "There is no DeviceClass {device}: the cluster has no DRANET.",
            "driver preflight -c site.yaml checks DRANET; or set network.dranet.enabled=false"),
    _before_node("claimMissing",
            r"^FailedResourceClaimCreation |ResourceClaim not created yet"
            r"|resourceclaim(?:template)?\S* \"[^\"]*\" not found",
            "The pod's claim for network devices is not made yet.",
            "kubectl -n {namespace} get resourceclaims,resourceclaimtemplates; it is the work of the cluster's "
            "controller manager, which needs the API resource.k8s.io/v1"),
    _before_node("claimWaits", r"cannot allocate all claims|resourceclaim not available on the node"
            r"|in the process of being allocated|resourceclaim in use",
            "The claim for network devices waits: no node of the slice has as many free as it asks for.",
            "label the node pool cloud.google.com/gke-networking-dra-driver=true and give it the networks "
            "(driver bootstrap does both), or lower network.dranet.count"),
    _before_node("chipsInUse", r"Insufficient google\.com/tpu",
            "All nodes of {shape} are taken: their chips are in use.",
            "end what uses them (driver runs -n NAMESPACE), or have another node pool of that shape made: a slice more "
            "under tpu.slices in the site file, then driver bootstrap -c site.yaml"),
    _before_node("poolTaken", r"didn't (?:match|satisfy)[\w' -]*anti-affinity|didn't match pod affinity rules",
            "The node pools of {shape} are held by other slices: a slice has a node pool of its own.",
            "end the run that holds it (driver runs), or raise tpu.slices in the site file and driver bootstrap"),
    _before_node("nodeTooSmall", r"Insufficient (?P<what>cpu|memory|ephemeral-storage)",
            "No node has as much {what} free as the pod asks for.",
            "lower worker.resources.requests.{what} (or head.resources), or take what else runs on the nodes away"),
    _before_node("cordoned", r"node\(s\) were unschedulable",
            "The nodes that would do are cordoned, or on their way out.",
            "kubectl uncordon NODE, or wait until the node pool has made others"),
    _before_node("scaleUpAtLimit",
            r"^NotTriggerScaleUp .*(?:max node group size reached|max cluster \w+ limit reached)",
            "The node pool, or the cluster, has as many nodes as its autoscaling allows.",
            "raise the node pool's maximum (gcloud container node-pools update POOL --max-nodes=N)"),
    _before_node("noSuchNode", r"didn't match Pod's node affinity/selector",
            "The cluster has no free node of {shape} with the other labels of {role}.nodeSelector.",
            "take out of {role}.nodeSelector what no node has; for TPU hosts have a node pool of that shape made "
            "(driver bootstrap -c site.yaml), or set tpu.type, tpu.topology and tpu.capacity to what there is: kubectl "
            "get nodes -L cloud.google.com/gke-tpu-topology"),
    _before_node("taint", r"had untolerated taint|had taints that the pod didn't tolerate",
            "The nodes that would do have a taint that the pod does not tolerate.",
            "add it to worker.tolerations (head.tolerations for the head)"),
    _before_node("gated", r"SchedulingGated|Suspended",
            "The queue has not admitted it yet.", "kubectl -n {namespace} get workloads"),
    _before_node("unschedulable", r"^(?:PodScheduled Unschedulable: |FailedScheduling )(?P<said>.*)",
            "No node takes the pod: {said}", "kubectl -n {namespace} describe pod POD"),
    # On its node: volumes [1, 3].
    _always("bucketRefused", r"^FailedMount .*(?:PermissionDenied|Error 403|storage\.\w+\.\w+ access)",
            "The bucket refuses the pod's service account, so it cannot be mounted.",
            "driver bootstrap -c site.yaml gives it roles/storage.objectUser and roles/storage.legacyBucketReader; new "
            "bindings take minutes"),
    _always("bucketMissing", r"^FailedMount .*(?:bucket doesn't exist|bucket does not exist|Error 404)",
            "The bucket, or the folder of it that storage.mountOptions.only-dir names, is not there.",
            "set storage.bucket to one that is, or make it: driver bootstrap -c site.yaml"),
    _always("identityRefused", r"^FailedMount .*(?:Unauthenticated|identity ?bindingtoken|Workload Identity)",
            "The pod gets no Google identity, so the bucket cannot be mounted.",
            "the cluster and the node pool need Workload Identity; driver preflight -c site.yaml checks it"),
    _always("fuseMissing", r"^FailedMount .*driver name gcsfuse\S* not found in the list of registered CSI drivers",
            "The node has no GCS FUSE driver, or not yet.",
            "enable it: gcloud container clusters update CLUSTER --update-addons GcsFuseCsiDriver=ENABLED"),
    _always("fuseSidecar", r"^FailedMount .*(?:find the sidecar container|FailedPrecondition)",
            "The pod has no GCS FUSE sidecar: GKE's webhook for it did not see the pod.",
            "enable the GcsFuseCsiDriver add-on, then let the pod be made anew: kubectl -n {namespace} delete pod POD"),
    _always("fuseFailed", r"^FailedMount .*(?:gcsfuse|sidecar container).*?(?P<said>(?:failed|error|invalid).*)",
            "GCS FUSE cannot mount the bucket: {said}",
            "change the mount option that it names (storage.mountOptions)"),
    _always("objectMissing", r'(?:FailedMount|CreateContainerConfigError).*?(?P<what>secret|configmap) '
            r'"(?P<name>[^"]+)" not found',
            "There is no {what} {name} in the namespace.",
            "make it, or take it out of the values (worker.envFrom, worker.volumes, data)"),
    _always("claimNotPrepared", r"FailedPrepareDynamicResources |DRA driver \S+ is not registered",
            "DRANET on the node could not give the pod its network devices.",
            "kubectl -n kube-system get pods -o wide | grep dranet: one must run on the pod's node"),
    _always("mountFailed", r"^FailedMount (?P<said>.*)",
            "A volume cannot be mounted: {said}", "kubectl -n {namespace} describe pod POD"),
    # On its node: images [1].
    _always("imageNeverPulled", r"ErrImageNeverPull",
            "The image{image} is not on the node, and image.pullPolicy=Never forbids to pull it.",
            "set image.pullPolicy=IfNotPresent"),
    _always("imageRefused",
            r"(?:ErrImagePull|ImagePullBackOff|^Failed ).*(?:\b40[13]\b|denied|unauthorized|[Ff]orbidden)",
            "The registry refuses to give the image{image}.",
            "give the nodes' service account roles/artifactregistry.reader (driver bootstrap does), or set "
            "image.pullSecrets; the name may also be wrong (image.uri)"),
    _always("imageMissing", r"InvalidImageName|(?:ErrImagePull|ImagePullBackOff|^Failed ).*(?:not found|no such)",
            "There is no such image{image}.",
            "set image.uri to one that is there; driver image -c site.yaml builds it"),
    _always("imageNotPulled", r"ErrImagePull|ImagePullBackOff|ErrImage\w+|^Failed Failed to pull image (?P<said>.*)",
            "The image{image} cannot be pulled.",
            "see the message; a private node pool needs Private Google Access or NAT"),
    # On its node: containers [1].
    _always("outOfMemory", r"OOMKilled",
            "The container used more memory than it may, and was killed.",
            "raise its resources.limits.memory (worker.resources, head.resources, rayJob.submitterResources)"),
    _always("crashes",
            r"CrashLoopBackOff|^BackOff Back-off restarting|^terminated (?:Error|StartError|ContainerCannotRun)\b",
            "The container ends with an error as soon as it starts.",
            "its own words: kubectl -n {namespace} logs POD --previous"),
    _always("nodeLost", r"^(?:status|terminated) (?:NodeLost|NodeShutdown|Terminated|Preempting)|^NodeNotReady ",
            "The pod's node was taken away, or does not answer.", "wait: the slice is made anew when there is a node"),
    _always("evicted", r"^status Evicted: (?P<said>.*)|^Evicted (?P<also>.*)",
            "The node took the pod away, for want of its own memory or disk.",
            "raise what it asks for (worker.resources.requests), so that the node is not overfull"),
    _always("sandbox", r"^FailedCreatePodSandBox (?P<said>.*)",
            "The node cannot set up the pod's network: {said}", "wait some minutes; else drain that node"),
    _always("unhealthy", r"^Unhealthy (?P<said>.*)",
            "The container runs, and its health check has failed for minutes: {said}",
            "its own words: kubectl -n {namespace} logs POD"),
)  # fmt: skip
