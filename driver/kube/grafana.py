"""Where the cluster's Grafana is, if it has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from driver.errors import DriverError
from driver.kube import parsing
from driver.kube.connection import ForbiddenError
from driver.kube.forwarding import Target
from driver.kube.lists import EVERYWHERE, Listing, Object, collect

if TYPE_CHECKING:
    from driver.kube.connection import Connection

_SELECTOR = "app.kubernetes.io/name=grafana"
_PORT = 3000


@dataclass(frozen=True)
class Service:
    """Grafana's. pods: selects what is behind it. port: of these, by number or name."""

    namespace: str
    pods: str
    port: int | str


def find(connection: Connection) -> Service:
    """Grafana's service, by the label that its chart and its operator give: in the release's namespace, else in any
    other that the caller may look into. Raises a DriverError where there is none."""
    found = collect(connection, Listing("services", _SELECTOR), _service)
    where = "any namespace"
    if not found:
        try:
            found = collect(connection, Listing("services", _SELECTOR, namespace=EVERYWHERE), _service)
        except ForbiddenError:
            where = f"{connection.namespace}, and the services of other namespaces may not be listed"
    if found:
        return found[0]
    raise DriverError(
        f"There is no service labelled {_SELECTOR} in {where}.",
        fix="leave --grafana out, or name Grafana's namespace: kubectl port-forward -n NAMESPACE svc/NAME 3000",
    )


def target(connection: Connection, service: Service) -> Target | None:
    """A ready pod behind the service; None while there is none."""

    def ready(pod: Object) -> Target | None:
        metadata = pod["metadata"]
        conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions") or []}
        if conditions.get("Ready") != "True" or metadata.get("deletionTimestamp"):
            return None
        port = parsing.port(pod["spec"], service.port, _PORT)
        return Target(service.namespace, metadata["name"], metadata["uid"], port)

    listing = Listing("pods", service.pods, namespace=service.namespace)
    return next(iter(collect(connection, listing, ready)), None)


def _service(found: Object) -> Service | None:
    """None for one that leads to no pods; the operator's chart has a headless one too, for alerts."""
    spec = found["spec"]
    selector = ",".join(f"{key}={value}" for key, value in (spec.get("selector") or {}).items())
    if not selector or not spec.get("ports") or spec.get("clusterIP") == "None":
        return None
    return Service(found["metadata"]["namespace"], selector, spec["ports"][0].get("targetPort") or _PORT)
