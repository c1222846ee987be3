"""The chart's releases that live on a cluster, which a teardown must not end by surprise."""

from __future__ import annotations

import base64
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from driver.chart import find_helm
from driver.errors import DriverError
from driver.gcp import kubernetes
from driver.gcp.cloud import READS, Cloud
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.resource import MARK
from driver.gcp.site import Site

_KINDS = ("rayclusters", "rayjobs")
_NOT_FOUND = 404
_TIMEOUT_SECONDS = 600
# Helm's own choice of a cluster, which the user's environment may make for another one.
_HELMS_CLUSTER = "HELM_KUBE"


@dataclass(frozen=True, order=True)
class Release:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def of_site(site: Site, cloud: Cloud, *, everywhere: bool) -> list[Release]:
    """The chart's releases with a RayCluster or a RayJob, in the site's namespace or in all of the cluster's, sorted.

    None where the cluster is not there, or does not answer because it is being made or deleted, or broken.
    Raises a DriverError where Kubernetes refuses or is not reached, and Google's errors.
    """
    found = Cluster(site).describe(cloud)
    if not kubernetes.answers(found):
        return []
    api = CustomObjectsApi(kubernetes.api_client(cloud, found.details))
    items = [item for kind in _KINDS for item in READS(_list)(api, kind, "" if everywhere else site.namespace)]
    return sorted({_release(item["metadata"]) for item in items})


def remove(release: Release, site: Site, cloud: Cloud) -> None:
    """`helm uninstall`, which waits until the release's objects are gone. Gone already is no error.

    The caller's Google token is in Helm's environment, where, other than on the command line, no one else sees it.
    Raises a DriverError with what Helm says, and Google's errors.
    """
    found = Cluster(site).describe(cloud)
    if not kubernetes.answers(found):
        return
    command = [find_helm(), "uninstall", release.name, f"--namespace={release.namespace}", "--ignore-not-found"]
    command += ["--wait", f"--timeout={_TIMEOUT_SECONDS}s", "--debug"]
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(found.details, cloud, Path(folder) / "ca.pem")
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        raise DriverError(
            f"Helm could not uninstall the release {release}:\n{_errors(result.stderr)}",
            rule="A teardown goes on when the releases are gone.",
            fix=f"helm uninstall {release.name} -n {release.namespace}, then driver teardown again",
        )


def _environment(details: Mapping[str, Any], cloud: Cloud, authority: Path) -> dict[str, str]:
    """Helm's, for this cluster and no other."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_HELMS_CLUSTER)}
    cluster = {
        "HELM_KUBEAPISERVER": kubernetes.url(details["endpoint"]),
        "HELM_KUBETOKEN": kubernetes.token(cloud),
        "KUBECONFIG": os.devnull,
    }
    if details["ca"]:
        authority.write_bytes(base64.b64decode(details["ca"]))
        cluster["HELM_KUBECAFILE"] = str(authority)
    return kept | cluster


def _errors(stderr: str) -> str:
    """What Helm ended with. Why Kubernetes refused stands in the line of its log before that, and nowhere else."""
    return "\n".join(stderr.strip().splitlines()[-2:])


def _list(api: CustomObjectsApi, kind: str, namespace: str) -> list[Mapping[str, Any]]:
    ours = f"app.kubernetes.io/managed-by=Helm,app.kubernetes.io/name={MARK}"
    with kubernetes.explained(f"Looking for the {kind} of releases", "container.thirdPartyObjects.list"):
        try:
            answer: Any
            if namespace:
                answer = api.list_namespaced_custom_object("ray.io", "v1", namespace, kind, label_selector=ours)
            else:
                answer = api.list_cluster_custom_object("ray.io", "v1", kind, label_selector=ours)
        except ApiException as error:
            if error.status == _NOT_FOUND:  # no KubeRay on it
                return []
            raise
    return list(answer.get("items") or [])


def _release(metadata: Mapping[str, Any]) -> Release:
    return Release(metadata["namespace"], metadata["labels"]["app.kubernetes.io/instance"])
