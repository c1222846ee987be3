"""What GKE's TPU webhook and its TPU device plugin put into a worker pod, as a JSON patch.

The rules are those of github.com/ai-on-gke/kuberay-tpu-webhook. GKE may give its newer version, which keeps the
affinity that a pod brings; this one replaces it, as the older one does, because that is the harder case.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.gke.slots import REPLICA_LABEL, WORKER_ID, Slot
from tests.gke.tpu import ACCELERATOR, NODE_POOL, TOPOLOGY, accelerator_type, hosts_of, tpu_containers

CLUSTER_LABEL = "ray.io/cluster"
GROUP_LABEL = "ray.io/group"
# Set by KubeRay from 1.5 on with its feature gate RayMultiHostIndexing.
REPLICA_NAME_LABEL = "ray.io/worker-group-replica-name"
REPLICA_INDEX_LABEL = "ray.io/worker-group-replica-index"
HOST_INDEX_LABEL = "ray.io/replica-host-index"

LONGEST_SERVICE_NAME = 50
PROCESS_PORT = 8471
# 8080 is Ray's, for metrics.
MEGASCALE_PORT = 8081

Operation = dict[str, Any]
Variable = dict[str, Any]


class Place(NamedTuple):
    """Where in its slice a pod is: all that the variables depend on."""

    cluster: str
    group: str
    slot: Slot
    hosts: int

    @property
    def slice_name(self) -> str:
        return f"{self.group}-{self.slot.replica}"

    def hostname(self, host: int) -> str:
        return f"{self.slice_name}-{host}"


def indexed_slot(labels: Mapping[str, str]) -> Slot | None:
    """The slot that KubeRay's own labels name, or None where KubeRay does not index its pods."""
    if REPLICA_INDEX_LABEL in labels and HOST_INDEX_LABEL in labels:
        return Slot(int(labels[REPLICA_INDEX_LABEL]), int(labels[HOST_INDEX_LABEL]))
    return None


def headless_service(cluster: str) -> str:
    """KubeRay's name of the service of a cluster's hosts: the last 50 characters, made to begin with a letter."""
    name = f"{cluster}-headless"[-LONGEST_SERVICE_NAME:]
    return name if name[0].isalpha() else f"r{name[1:]}"


def patch(pod: Mapping[str, Any], slot: Slot) -> list[Operation]:
    """The operations for a pod that asks for chips.

    Raises TopologyError where the pod's topology, accelerator or limits are refused.
    """
    labels = pod["metadata"]["labels"]
    place = Place(labels[CLUSTER_LABEL], labels[GROUP_LABEL], slot, hosts_of(pod))
    operations = []
    if indexed_slot(labels) is None:
        operations.append(_add(f"/metadata/labels/{REPLICA_LABEL}", place.slice_name))
    if place.hosts > 1:
        operations.append(_add("/spec/hostname", place.hostname(slot.host)))
        operations.append(_add("/spec/subdomain", headless_service(place.cluster)))
        operations.append(_add("/spec/affinity", _affinity(labels, place)))
    containers = list(tpu_containers(pod))
    for number, (index, container) in enumerate(containers):
        variables = _variables(pod, container, place, number, len(containers))
        operations += _environment(index, container, variables)
    return operations


def _variables(
    pod: Mapping[str, Any], container: Mapping[str, Any], place: Place, number: int, containers: int
) -> list[Variable]:
    selector = pod["spec"]["nodeSelector"]
    ironwood = selector.get(ACCELERATOR, "").startswith("tpu7x")
    set_by_hand = {variable["name"] for variable in container.get("env", []) if _is_set(variable)}
    variables: list[Variable] = []
    if "MEGASCALE_NUM_SLICES" in set_by_hand:
        variables += _megascale(place, number, ironwood)
    service = headless_service(place.cluster)
    hosts = [f"{place.hostname(host)}.{service}" for host in range(place.hosts)]
    if place.hosts > 1:
        variables.append(_variable("TPU_WORKER_HOSTNAMES", ",".join(hosts)))
    if place.hosts > 1 and ironwood:
        addresses = [f"{host}:{PROCESS_PORT + port}" for host in hosts for port in range(containers)]
        variables.append(_variable("TPU_PROCESS_ADDRESSES", ",".join(addresses)))
        variables.append(_variable("TPU_PROCESS_PORT", str(PROCESS_PORT + number)))
    worker = place.slot.host * containers + number if ironwood else place.slot.host
    variables.append(_variable(WORKER_ID, str(worker)))
    variables.append(_variable("TPU_NAME", place.slice_name))
    host_ip = {"name": "TPU_DEVICE_PLUGIN_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
    variables += [host_ip, _variable("TPU_DEVICE_PLUGIN_ADDR", "$(TPU_DEVICE_PLUGIN_HOST_IP):2112")]
    # In GKE these two come from the TPU device plugin of the node, not from the webhook.
    topology = selector[TOPOLOGY]
    variables.append(_variable("TPU_TOPOLOGY", topology))
    variables.append(_variable("TPU_ACCELERATOR_TYPE", accelerator_type(selector.get(ACCELERATOR, ""), topology)))
    return [variable for variable in variables if variable["name"] not in set_by_hand]


def _megascale(place: Place, number: int, ironwood: bool) -> list[Variable]:
    coordinator = f"{place.group}-0-0.{headless_service(place.cluster)}"
    return [
        _variable("MEGASCALE_SLICE_ID", str(place.slot.replica)),
        _variable("MEGASCALE_COORDINATOR_ADDRESS", f"{coordinator}:{MEGASCALE_PORT}" if ironwood else coordinator),
        _variable("MEGASCALE_PORT", str(MEGASCALE_PORT + number if ironwood else MEGASCALE_PORT)),
    ]


def _affinity(labels: Mapping[str, str], place: Place) -> Operation:
    """A slice is a node pool, and no other slice or RayCluster is on it."""
    key, value = REPLICA_LABEL, place.slice_name
    if REPLICA_NAME_LABEL in labels and HOST_INDEX_LABEL in labels:
        key, value = REPLICA_NAME_LABEL, labels[REPLICA_NAME_LABEL]
    same_slice, other_slice = _requirement(key, "In", value), _requirement(key, "NotIn", value)
    same_cluster = _requirement(CLUSTER_LABEL, "In", place.cluster)
    other_cluster = _requirement(CLUSTER_LABEL, "NotIn", place.cluster)
    anywhere = {"matchExpressions": [_requirement("kubernetes.io/metadata.name", "NotIn", "kube-system")]}
    strangers = _term(other_cluster, {"key": key, "operator": "Exists"}) | {"namespaceSelector": anywhere}
    return {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(same_slice, same_cluster)]},
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [_term(other_slice, same_cluster), strangers]
        },
    }


def _term(*requirements: Operation) -> Operation:
    return {"labelSelector": {"matchExpressions": list(requirements)}, "topologyKey": NODE_POOL}


def _requirement(key: str, operator: str, value: str) -> Operation:
    return {"key": key, "operator": operator, "values": [value]}


def _environment(index: int, container: Mapping[str, Any], variables: list[Variable]) -> list[Operation]:
    path = f"/spec/containers/{index}/env"
    if not container.get("env"):
        return [_add(path, variables)]
    return [_add(f"{path}/-", variable) for variable in variables]


def _is_set(variable: Mapping[str, Any]) -> bool:
    return bool(variable.get("value") or variable.get("valueFrom"))


def _variable(name: str, value: str) -> Variable:
    return {"name": name, "value": value}


def _add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}
