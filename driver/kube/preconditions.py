"""What would make an install fail later, looked for before anything is changed.

Rights differ: whoever may install into a namespace may often not look at nodes, webhooks or device classes. What cannot
be looked at is said, and does not stop the install.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubernetes.client.exceptions import ApiException

from driver.chart import Rendering
from driver.errors import DriverError, raise_all
from driver.findings import Finding, Status, not_checked, ok, problem
from driver.kube import capacity, schema
from driver.kube.connection import Connection, ForbiddenError, explained
from driver.kube.manifests import Manifest, of_the_cluster, plural

_NOT_FOUND = 404
_CHANGE, _REMOVE = ("get", "create", "patch", "delete"), ("get", "delete")
_STORAGE = ("get", "list", "create", "update", "delete")
"""Helm keeps the revisions of a release in secrets."""
_RIGHTS_RULE = (
    "Helm makes, changes and removes the chart's objects with your rights, and keeps the release in secrets. Where it "
    "lacks one in the middle, the rest stays as it is."
)
_RIGHTS_FIX = "have them granted by a Role and RoleBinding, or roles/container.developer"
_REVIEWS_AT_ONCE = 8
_RAY_KINDS = {"RayCluster": "rayclusters", "RayJob": "rayjobs"}
KUBERAY_FIX = (
    "the Ray operator add-on (gcloud container clusters update CLUSTER --update-addons=RayOperator=ENABLED), "
    "or https://ray-project.github.io/kuberay-helm"
)


@dataclass(frozen=True)
class Subject:
    """The release that is to be, rendered with the values that will be installed. before: its manifests as it is."""

    connection: Connection
    release: str
    rendering: Rendering
    before: Sequence[Manifest] = ()

    @property
    def cluster_spec(self) -> Mapping[str, Any]:
        """The Ray cluster's, of whichever object it is in; empty where there is none."""
        for manifest in self.rendering.manifests:
            if manifest["kind"] == "RayCluster":
                return dict(manifest["spec"])
            if manifest["kind"] == "RayJob" and manifest["spec"].get("rayClusterSpec"):
                return dict(manifest["spec"]["rayClusterSpec"])
        return {}

    @property
    def worker(self) -> Mapping[str, Any]:
        """The pod template's spec of a TPU host; empty where there is none."""
        groups = self.cluster_spec.get("workerGroupSpecs") or [{}]
        return dict(groups[0].get("template", {}).get("spec", {}))


def check(subject: Subject) -> list[Finding]:
    """All that was found. Raises a DriverError with every problem, each with its fix."""
    found: list[Finding] = []
    for look in (_namespace, _rights, _kuberay, _device_class, _webhook, _account, capacity.check):
        try:
            found += look(subject)
        except ForbiddenError as error:
            found.append(not_checked(error.found))
    problems = [DriverError(one.found, rule=one.rule, fix=one.fix) for one in found if one.status is Status.PROBLEM]
    raise_all(problems, "things keep this release from running:")
    return found


class Right(NamedTuple):
    """As RBAC names it. namespace: empty for the whole cluster."""

    verb: str
    group: str
    resource: str
    namespace: str


def check_rights(connection: Connection, doing: str, after: Iterable[Manifest], before: Iterable[Manifest]) -> None:
    """Raises a ForbiddenError with every right that Helm would lack to make `after` out of `before`."""
    missing = _missing(connection, after, before)
    if missing:
        raise ForbiddenError(f"{doing}: {missing}", rule=_RIGHTS_RULE, fix=_RIGHTS_FIX)


def _rights(subject: Subject) -> Iterator[Finding]:
    missing = _missing(subject.connection, subject.rendering.manifests, subject.before)
    if missing:
        yield problem(missing[0].upper() + missing[1:], _RIGHTS_RULE, _RIGHTS_FIX)
    else:
        yield ok("You have the rights that Helm needs.")


def _missing(connection: Connection, after: Iterable[Manifest], before: Iterable[Manifest]) -> str:
    """One sentence with every right that is missing; empty where none is."""
    asked = list(dict.fromkeys(_needed(connection, after, before)))
    with ThreadPoolExecutor(_REVIEWS_AT_ONCE) as pool:
        allowed = pool.map(lambda right: _may(connection, right), asked)
        lacking = [right for right, may in zip(asked, allowed, strict=True) if not may]
    by_resource: dict[Right, list[str]] = defaultdict(list)
    for right in lacking:
        by_resource[right._replace(verb="")].append(right.verb)
    said = []
    for right, verbs in by_resource.items():
        where = f"in namespace {right.namespace}" if right.namespace else "in the whole cluster"
        name = f"{right.resource}.{right.group}" if right.group else right.resource
        said.append(f"{', '.join(verbs)} {name} {where}")
    if not said:
        return ""
    several = len(lacking) > 1
    return f"the right{'s' if several else ''} to {'; '.join(said)} {'are' if several else 'is'} missing."


def _needed(connection: Connection, after: Iterable[Manifest], before: Iterable[Manifest]) -> Iterator[Right]:
    """Helm 3 creates an object and patches it, Helm 4 applies it, which is a patch that may create."""
    after = list(after)
    for verb in _STORAGE if after else [verb for verb in _STORAGE if verb != "create"]:
        yield Right(verb, "", "secrets", connection.namespace)
    for manifests, verbs in ((after, _CHANGE), (before, _REMOVE)):
        for manifest in manifests:
            if "helm.sh/hook" in (manifest["metadata"].get("annotations") or {}):
                continue  # the chart's test, which an install does not make
            kind, group = str(manifest["kind"]), str(manifest["apiVersion"]).rpartition("/")[0]
            namespace = "" if of_the_cluster(kind) else connection.namespace
            for verb in verbs:
                yield Right(verb, group, plural(kind), namespace)


def _may(connection: Connection, right: Right) -> bool:
    """Asked one by one: GKE's answer to a SelfSubjectRulesReview lacks what IAM allows."""
    with explained("asking what you may do", "create", "selfsubjectaccessreviews"):
        answer = connection.request(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            body={
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": right._asdict()},
            },
        )
    return bool(answer["status"]["allowed"])


def _namespace(subject: Subject) -> Iterator[Finding]:
    name = subject.connection.namespace
    there = _get(subject, f"/api/v1/namespaces/{name}", "namespaces")
    if there is None:
        yield problem(
            f"There is no namespace {name}.",
            "A release is installed into a namespace that exists.",
            f"driver bootstrap makes the site's; kubectl create namespace {name}; or -n NAMESPACE",
        )
    elif there["metadata"].get("deletionTimestamp"):
        yield problem(
            f"The namespace {name} is being deleted.",
            "Nothing can be made in it.",
            "wait until it is gone, and make it again",
        )
    else:
        yield ok(f"Namespace {name} is there.")


def _kuberay(subject: Subject) -> Iterator[Finding]:
    """The kinds, and that the installed definitions have each field that the chart writes: a field that they do not
    have is dropped by the API server without a word."""
    served = _get(subject, "/apis/ray.io/v1", "rayclusters.ray.io")
    there = {one["name"] for one in (served or {}).get("resources", [])}
    missing = [f"{plural}.ray.io" for plural in _RAY_KINDS.values() if plural not in there]
    if missing:
        yield problem(
            f"The cluster has no {' and no '.join(missing)} (v1).",
            "The run is a RayCluster and a RayJob, which the KubeRay operator, 1.4.0 or newer, works with.",
            KUBERAY_FIX,
        )
        return
    document = _get(subject, "/openapi/v3/apis/ray.io/v1", "openapi")
    if document is None:
        yield not_checked("The API server does not tell the fields of KubeRay's kinds.")
        return
    wrong = False
    for manifest in subject.rendering.manifests:
        if manifest["kind"] in _RAY_KINDS:
            for field in schema.unknown_fields(document, manifest):
                wrong = True
                yield problem(
                    f"The cluster's {manifest['kind']} has no {field}, which these values set.",
                    "The installed KubeRay is older than the one that the values count on (kuberay.version).",
                    "upgrade KubeRay; or leave out what sets it, and say the installed version: "
                    "--set kuberay.version=VERSION",
                )
    if not wrong:
        yield ok("KubeRay's kinds have what the chart writes.")


def _device_class(subject: Subject) -> Iterator[Finding]:
    templates = [one for one in subject.rendering.manifests if one["kind"] == "ResourceClaimTemplate"]
    for name in sorted({name for one in templates for name in _class_names(one["spec"])}):
        if _get(subject, f"/apis/resource.k8s.io/v1/deviceclasses/{name}", "deviceclasses") is None:
            yield problem(
                f"The cluster has no DeviceClass {name}.",
                "GKE DRANET makes it: Standard from 1.34.1-gke.1829001, Autopilot from 1.35.2-gke.1842000, with "
                "Dataplane V2. Without it no worker starts.",
                "driver preflight tells what the cluster lacks; --set network.dranet.enabled=false does without, at "
                "the price of slow traffic between slices",
            )
        else:
            yield ok(f"DeviceClass {name} is there.")


def _class_names(content: Any) -> Iterator[str]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            if key == "deviceClassName":
                yield str(value)
            else:
                yield from _class_names(value)
    elif isinstance(content, list):
        for one in content:
            yield from _class_names(one)


def _webhook(subject: Subject) -> Iterator[Finding]:
    """GKE's numbers the hosts of a slice. A slice of one host needs no numbers, but Ray's TPU_NAME."""
    if not subject.worker:
        return
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    listed = _get(subject, path, "mutatingwebhookconfigurations", verb="list")
    hooks = [hook for one in (listed or {}).get("items", []) for hook in one.get("webhooks") or []]
    if any(_numbers_hosts(hook) for hook in hooks):
        yield ok("The TPU webhook is there.")
    else:
        yield problem(
            "The cluster has no TPU webhook.",
            "It tells each worker its slice and its place in it (TPU_NAME, TPU_WORKER_ID). It comes with GKE's Ray "
            "operator add-on.",
            KUBERAY_FIX + " with its kuberay-tpu-webhook",
        )


def _numbers_hosts(hook: Mapping[str, Any]) -> bool:
    """Whether it is called for KubeRay's pods when they are made, and of its name."""
    on_pods = any(
        "pods" in rule.get("resources", []) and {"CREATE", "*"} & set(rule.get("operations", []))
        for rule in hook.get("rules") or []
    )
    return on_pods and "tpu" in str(hook.get("name", ""))


def _account(subject: Subject) -> Iterator[Finding]:
    """Who may use the bucket is written in IAM, which Kubernetes does not show."""
    name = str(subject.worker.get("serviceAccountName") or "default")
    made = any(
        one["kind"] == "ServiceAccount" and one["metadata"]["name"] == name for one in subject.rendering.manifests
    )
    where = subject.connection.namespace
    there = _get(subject, f"/api/v1/namespaces/{where}/serviceaccounts/{name}", "serviceaccounts")
    if there is None and not made:
        yield problem(
            f"There is no service account {name} in namespace {where}.",
            "With serviceAccount.create=false it must exist.",
            f"--set serviceAccount.create=true, or kubectl create serviceaccount {name} -n {where}",
        )
        return
    owner = ((there or {}).get("metadata", {}).get("annotations") or {}).get("meta.helm.sh/release-name")
    if there is not None and made and owner != subject.release:
        whose = f"the release {owner}" if owner else "others than Helm"
        yield problem(
            f"The service account {name} was made by {whose}.",
            "Helm does not take over what it did not make for this release.",
            f"--set serviceAccount.create=false,serviceAccount.name={name} uses it as it is",
        )
        return
    yield ok(f"Service account {name}: that IAM lets {where}/{name} use the bucket is seen by driver preflight alone.")


def _get(subject: Subject, path: str, resource: str, verb: str = "get") -> Any:
    """None where it is not there."""
    with explained(f"looking for {resource}", verb, resource):
        try:
            return subject.connection.request("GET", path)
        except ApiException as error:
            if error.status == _NOT_FOUND:
                return None
            raise
