"""The kinds that the API server has, and how their objects lie in its paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple


class Kind(NamedTuple):
    """api: the path that its collections are under."""

    api: str
    name: str
    namespaced: bool

    @property
    def version(self) -> str:
        """As objects have it in apiVersion: v1, ray.io/v1."""
        return re.sub("^/apis?/", "", self.api)

    @property
    def group(self) -> str:
        """Empty for the core API."""
        return self.api.split("/")[2] if self.api.startswith("/apis/") else ""


KINDS = {
    "namespaces": Kind("/api/v1", "Namespace", False),
    "nodes": Kind("/api/v1", "Node", False),
    "pods": Kind("/api/v1", "Pod", True),
    "events": Kind("/api/v1", "Event", True),
    "services": Kind("/api/v1", "Service", True),
    "secrets": Kind("/api/v1", "Secret", True),
    "configmaps": Kind("/api/v1", "ConfigMap", True),
    "serviceaccounts": Kind("/api/v1", "ServiceAccount", True),
    "roles": Kind("/apis/rbac.authorization.k8s.io/v1", "Role", True),
    "rolebindings": Kind("/apis/rbac.authorization.k8s.io/v1", "RoleBinding", True),
    "selfsubjectaccessreviews": Kind("/apis/authorization.k8s.io/v1", "SelfSubjectAccessReview", False),
    "poddisruptionbudgets": Kind("/apis/policy/v1", "PodDisruptionBudget", True),
    "deviceclasses": Kind("/apis/resource.k8s.io/v1", "DeviceClass", False),
    "resourceclaimtemplates": Kind("/apis/resource.k8s.io/v1", "ResourceClaimTemplate", True),
    "mutatingwebhookconfigurations": Kind(
        "/apis/admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", False
    ),
    "rayclusters": Kind("/apis/ray.io/v1", "RayCluster", True),
    "rayjobs": Kind("/apis/ray.io/v1", "RayJob", True),
}
"""By plural."""

_PATH = re.compile(
    r"(?P<api>/api/v1|/apis/[^/]+/v1)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<subresource>log|portforward))?)?"
)


@dataclass(frozen=True)
class Address:
    """What a path means: a collection, or with a name one object, or with a subresource too what belongs to it.

    namespace: empty for all namespaces, and for kinds that are in none.
    """

    plural: str
    namespace: str
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """As RBAC names it: pods, pods/log."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


def address(path: str, kinds: dict[str, Kind]) -> Address | None:
    """None where the path is none of these kinds'."""
    match = _PATH.fullmatch(path)
    kind = kinds.get(match["plural"]) if match else None
    if not match or not kind or kind.api != match["api"]:
        return None
    return Address(match["plural"], match["namespace"] or "", match["name"] or "", match["subresource"] or "")
