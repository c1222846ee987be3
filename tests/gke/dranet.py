"""Plays GKE's DRANET on one node: the DRA driver `dra.net`, whose devices are the hosts' network interfaces.

Devices are names here: nothing is moved into a pod's network namespace. The rest is real: the claims, who may have
which device, and what the kubelet, the scheduler and the API server make of it.
"""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from tests.gke.api import Api, Object
from tests.gke.kubelet_plugin import KubeletPlugin
from tests.gke.protocols import protocol

DRIVER = "dra.net"
VERSIONS = ("v1.DRAPlugin",)
RESOURCE_API = "/apis/resource.k8s.io/v1"
# The kubelet deletes a node's slices when it starts, also just after it registered the driver; as other drivers do,
# this one looks again and again whether its slice is there.
REFRESH_SECONDS = 3.0


class ClaimError(Exception):
    """Why a claim cannot be prepared; the kubelet puts it into an event of the pod."""


def devices(hosts: int, per_host: int) -> list[Object]:
    """The network devices of the hosts that a node plays; a host's own follow each other."""
    return [
        {
            "name": f"host{host}-eth{number}",
            "attributes": {
                "dra.net/ifName": {"string": f"eth{number}"},
                "dra.net/host": {"int": host},
                "dra.net/mtu": {"int": 8896},
                "dra.net/rdma": {"bool": False},
                "dra.net/virtual": {"bool": False},
            },
        }
        for host in range(hosts)
        for number in range(1, per_host + 1)
    ]


class Publisher:
    """Keeps the node's ResourceSlice as it should be, from the first registration on until it is stopped.

    At the end the slice stays: it belongs to the node, and the kubelet deletes it 30 s after the driver went.
    """

    def __init__(self, api: Api, node: str, devices: list[Object]) -> None:
        self._api, self._node, self._devices = api, node, devices
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher")

    def start(self) -> None:
        """Publishes as soon as possible; again after each registration."""
        self._wake.set()
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def publish(self) -> bool:
        """Makes or mends the slice; says whether there was something to do."""
        path = f"{RESOURCE_API}/resourceslices"
        name = f"{self._node}-{DRIVER}"
        found = self._api.find(f"{path}/{name}")
        if found is None:
            self._api.create(path, self._slice(name, generation=1))
            return True
        generation = found["spec"]["pool"]["generation"]
        wanted = self._slice(name, generation)
        if _holds(found["spec"], wanted["spec"]):
            return False
        # A pool's older generations do not count any more: allocations never mix two.
        wanted = self._slice(name, generation + 1)
        wanted["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        self._api.replace(f"{path}/{name}", wanted)
        return True

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                if self.publish():
                    print(f"published {len(self._devices)} devices of {DRIVER}", flush=True)
            except (ApiException, HTTPError, OSError) as error:
                print(f"not published: {error}", flush=True)
            self._wake.wait(REFRESH_SECONDS)

    def _slice(self, name: str, generation: int) -> Object:
        node = self._api.get(f"/api/v1/nodes/{self._node}")
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node["metadata"]["uid"]}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            # With its node gone, the slice is garbage.
            "metadata": {"name": name, "ownerReferences": [owner | {"controller": True}]},
            "spec": {
                "driver": DRIVER,
                "nodeName": self._node,
                "pool": {"name": self._node, "generation": generation, "resourceSliceCount": 1},
                "devices": self._devices,
            },
        }


class Claims:
    """The DRA service. What is prepared is kept in a file, so that a restarted driver goes on with it."""

    def __init__(self, api: Api, node: str, devices: list[Object], folder: Path) -> None:
        self._api, self._node = api, node
        self._names = {device["name"] for device in devices}
        self._file = folder / "prepared.json"
        self._lock = threading.Lock()
        # By the claim's UID: the allocation's results that belong to this driver.
        self._prepared: dict[str, list[Object]] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def NodePrepareResources(self, request: Any, _context: Any) -> Any:  # noqa: N802, the protocol's name
        messages = protocol("dra").messages
        answer = messages.NodePrepareResourcesResponse()
        for claim in request.claims:
            entry = answer.claims[claim.uid]
            try:
                for result in self._prepare(claim):
                    entry.devices.add(
                        request_names=[result["request"]], pool_name=result["pool"], device_name=result["device"]
                    )
                print(f"prepared {claim.namespace}/{claim.name}: {_names(entry.devices)}", flush=True)
            except (ClaimError, ApiException, HTTPError, OSError) as error:
                entry.error = f"claim {claim.namespace}/{claim.name}: {error}"
                print(f"not prepared: {entry.error}", flush=True)
        return answer

    def NodeUnprepareResources(self, request: Any, _context: Any) -> Any:  # noqa: N802, the protocol's name
        answer = protocol("dra").messages.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            with self._lock:
                if self._prepared.pop(claim.uid, None) is not None:
                    self._save()
            # A claim that was never prepared, or is unprepared again, is no error.
            answer.claims[claim.uid].SetInParent()
            print(f"unprepared {claim.namespace}/{claim.name}", flush=True)
        return answer

    def _prepare(self, claim: Any) -> list[Object]:
        with self._lock:
            if claim.uid in self._prepared:
                return self._prepared[claim.uid]
            found = self._api.get(f"{RESOURCE_API}/namespaces/{claim.namespace}/resourceclaims/{claim.name}")
            results = self._results(claim.uid, found)
            self._refuse_host_network(claim.namespace, found)
            self._prepared[claim.uid] = results
            self._save()
            return results

    def _results(self, uid: str, claim: Mapping[str, Any]) -> list[Object]:
        """The part of the claim's allocation that is this driver's, on this node. Raises ClaimError."""
        if claim["metadata"]["uid"] != uid:
            raise ClaimError(f"its UID is {claim['metadata']['uid']}, not {uid}: it was made again under its name")
        allocation = claim.get("status", {}).get("allocation")
        if not allocation:
            raise ClaimError("it is not allocated")
        results = [result for result in allocation["devices"].get("results", []) if result["driver"] == DRIVER]
        if not results:
            raise ClaimError(f"its allocation holds no device of {DRIVER}")
        for result in results:
            name = f"{result['pool']}/{result['device']}"
            if result["pool"] != self._node or result["device"] not in self._names:
                raise ClaimError(f"the device {name} is none of node {self._node}")
            owner = self._owner(result["device"])
            if owner and not result.get("adminAccess"):
                raise ClaimError(f"the device {name} is still prepared for the claim with UID {owner}")
        return results

    def _owner(self, device: str) -> str:
        return next(
            (uid for uid, results in self._prepared.items() if device in {result["device"] for result in results}), ""
        )

    def _refuse_host_network(self, namespace: str, claim: Mapping[str, Any]) -> None:
        """A pod in the node's own network has no network namespace that a device could be moved into."""
        for user in claim["status"].get("reservedFor", []):
            if user.get("resource") == "pods":
                pod = self._api.find(f"/api/v1/namespaces/{namespace}/pods/{user['name']}")
                if pod is not None and pod["spec"].get("hostNetwork"):
                    raise ClaimError(f"the pod {user['name']} uses hostNetwork and can have no network device")

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self._prepared))
        new.replace(self._file)


class Driver:
    """The driver on one node."""

    def __init__(self, api: Api, node: str, kubelet: Path, hosts: int, per_host: int) -> None:
        self._publisher = Publisher(api, node, devices(hosts, per_host))
        self._plugin = KubeletPlugin("DRAPlugin", DRIVER, DRIVER, VERSIONS, kubelet, self._publisher.start)
        self._claims = Claims(api, node, devices(hosts, per_host), self._plugin.folder)

    def start(self) -> None:
        self._plugin.serve("dra", self._claims, "DRAPlugin")

    def stop(self) -> None:
        self._publisher.stop()
        self._plugin.stop()


def _holds(found: Any, wanted: Any) -> bool:
    """Whether all that is wanted was found; the API server may have put defaults beside it."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_holds(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        same = isinstance(found, list) and len(found) == len(wanted)
        return same and all(_holds(*pair) for pair in zip(found, wanted, strict=True))
    return bool(found == wanted)


def _names(prepared: Any) -> str:
    return ", ".join(device.device_name for device in prepared)
