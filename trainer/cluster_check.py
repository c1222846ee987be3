"""Looks at the live cluster of a run: what `helm test` runs, in a pod of the run's image and service account.

Every slice has all its hosts, alive, with the chips and labels that the trainer asks Ray for; every worker's pod has
its network devices; the output directory can be written. One line per check, all problems before it ends. It runs
alone (`python -c`), with the standard library, and reads what the chart expects from $EXPECTED.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOKENS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS = 30
NODES = 10000
"""As many as Ray's dashboard lists at most; without a number it lists 100."""


class CheckError(Exception):
    """What was found, and what to do about it."""


@dataclass(frozen=True)
class Expected:
    """What the chart's values say, from $EXPECTED as JSON."""

    namespace: str
    cluster: str
    """The Ray cluster's name; empty where a RayJob makes it."""
    ray_job: str
    """The RayJob's name; empty where the cluster is the release's own."""
    group: str
    min_slices: int
    max_slices: int
    hosts_per_slice: int
    chips_per_host: int
    topology: str
    accelerator_type: str
    """As Ray names a slice: v6e-16."""
    devices: int
    """Network devices of each worker; 0 is none, and at least so many where exact_devices is false."""
    exact_devices: bool
    output_directory: str
    look_at_ray: bool
    """False where Ray asks for a token that is not known here."""


@dataclass(frozen=True)
class Server:
    """A JSON API over HTTP."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    context: ssl.SSLContext | None = None

    def get(self, path: str) -> Any:
        """Raises a CheckError that names the address and the answer."""
        request = urllib.request.Request(self.url + path, headers=self.headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=self.context) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise CheckError(f"{self.url}{path} answers {error.code} {error.reason}") from error
        except (OSError, ValueError) as error:
            raise CheckError(f"{self.url}{path} does not answer: {error}") from error


def main() -> int:
    expected = Expected(**json.loads(os.environ["EXPECTED"]))
    token = os.environ.get("RAY_AUTH_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ray(cluster: str) -> Server:
        return Server(f"http://{cluster}-head-svc.{expected.namespace}.svc:8265", headers)

    problems = check(expected, kubernetes(), ray)
    print(f"{len(problems)} problem(s)" if problems else "the cluster is as the values say")
    return 1 if problems else 0


def kubernetes() -> Server:
    """The API server, as the pod's service account."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    address = f"[{host}]" if ":" in host else host
    return Server(
        f"https://{address}:{port}",
        {"Authorization": f"Bearer {(TOKENS / 'token').read_text().strip()}"},
        ssl.create_default_context(cafile=str(TOKENS / "ca.crt")),
    )


def check(expected: Expected, api: Server, ray: Callable[[str], Server]) -> list[str]:
    """Prints a line for each check; returns the problems. `ray` gives the dashboard of the cluster of a name."""
    problems: list[str] = []

    def report(name: str, look: Callable[[], str]) -> None:
        try:
            print(f"ok      {name}: {look()}", flush=True)
        except CheckError as error:
            for line in str(error).splitlines():
                print(f"FAILED  {name}: {line}", flush=True)
                problems.append(line)

    cluster = ""

    def find_cluster() -> str:
        nonlocal cluster
        cluster = expected.cluster or cluster_of_job(expected, api)
        return cluster

    report("cluster", find_cluster)
    if cluster:
        if expected.look_at_ray:
            report("slices", lambda: slices(expected, ray(cluster)))
        else:
            print("skipped slices: Ray asks for a token, and its secret's name is not known before the cluster is")
        report("network devices", lambda: network_devices(expected, api, cluster))
    report("output directory", lambda: writable(Path(expected.output_directory)))
    return problems


def cluster_of_job(expected: Expected, api: Server) -> str:
    path = f"/apis/ray.io/v1/namespaces/{expected.namespace}/rayjobs/{expected.ray_job}"
    status = api.get(path).get("status") or {}
    name: str = status.get("rayClusterName") or ""
    if not name:
        state = status.get("jobDeploymentStatus") or "not seen by KubeRay yet"
        raise CheckError(
            f"RayJob {expected.ray_job} has no cluster (it is {state}). Its cluster is there while it runs: wait"
            " for it, or look at `kubectl describe rayjob`."
        )
    return name


def slices(expected: Expected, ray: Server) -> str:
    """Every slice is whole, and its hosts are what the trainer's SlicePlacementGroup looks for."""
    nodes = ray.get(f"/api/v0/nodes?limit={NODES}")["data"]["result"]["result"]
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    problems = []
    for node in nodes:
        if node["state"] == "ALIVE" and node["resources_total"].get("TPU"):
            name = (node.get("labels") or {}).get("ray.io/tpu-slice-name", "")
            if name:
                found[name].append(node)
            else:
                problems.append(f"{_host(node)} has chips and no label ray.io/tpu-slice-name. Is GKE's TPU webhook on?")
    for name, hosts in sorted(found.items()):
        problems += _problems_of_slice(expected, name, hosts)
    low, high = expected.min_slices, expected.max_slices
    if not low <= len(found) <= high:
        wanted = str(high) if low == high else f"{low} to {high}"
        problems.append(
            f"{len(found)} slice(s) of {wanted} are alive in Ray ({', '.join(sorted(found)) or 'none'}). Pods that wait"
            " say why: `kubectl get pods`, `kubectl events --types Warning`."
        )
    _raise(problems)
    return f"{len(found)} of {expected.accelerator_type} {expected.topology}, {expected.hosts_per_slice} host(s) each"


def _problems_of_slice(expected: Expected, name: str, hosts: Sequence[dict[str, Any]]) -> list[str]:
    problems = []
    ids = sorted(host["labels"].get("ray.io/tpu-worker-id", "none") for host in hosts)
    wanted = sorted(str(index) for index in range(expected.hosts_per_slice))
    if ids != wanted:
        problems.append(
            f"slice {name} has the hosts {', '.join(ids)}, a whole one {', '.join(wanted)}. JAX waits for those"
            " that lack: see why their pods do not run."
        )
    for host in hosts:
        chips = host["resources_total"]["TPU"]
        if chips != expected.chips_per_host:
            problems.append(
                f"{_host(host)} of slice {name} has {chips:g} chips, the values say {expected.chips_per_host}:"
                " set tpu.chipsPerHost as the node pool has it."
            )
        topology = host["labels"].get("ray.io/tpu-topology", "none")
        if topology != expected.topology:
            problems.append(
                f"{_host(host)} of slice {name} has the topology {topology}, the values say {expected.topology}:"
                " set tpu.topology as the node pool has it."
            )
    # Ray's slices are reserved through their first host, which alone has this resource.
    resource = f"TPU-{expected.accelerator_type}-head"
    heads = [host for host in hosts if host["resources_total"].get(resource)]
    if len(heads) != 1:
        kinds = sorted({key for host in hosts for key in host["resources_total"] if key.endswith("-head")})
        problems.append(
            f"slice {name} has the resource {resource} on {len(heads)} hosts, where one has it"
            f" (found: {', '.join(kinds) or 'none'}): set tpu.type and tpu.topology as the node pool has them."
        )
    return problems


def network_devices(expected: Expected, api: Server, cluster: str) -> str:
    """Each worker's claim is allocated, with as many devices as it asks for."""
    if not expected.devices:
        return "none asked for"
    selector = f"labelSelector=ray.io%2Fcluster%3D{cluster}%2Cray.io%2Fgroup%3D{expected.group}"
    pods = api.get(f"/api/v1/namespaces/{expected.namespace}/pods?{selector}")["items"]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    problems = []
    if not running:
        problems.append(f"none of the {len(pods)} worker pods runs: `kubectl get pods` and `kubectl events` say why.")
    for pod in running:
        name = pod["metadata"]["name"]
        claims = [claim.get("resourceClaimName") for claim in pod["status"].get("resourceClaimStatuses") or []]
        if not any(claims):
            problems.append(f"pod {name} has no resource claim. Was it made before network.dranet.enabled was set?")
            continue
        count = sum(_devices(expected, api, claim) for claim in claims if claim)
        if count < expected.devices or (expected.exact_devices and count != expected.devices):
            problems.append(
                f"pod {name} has {count} network device(s), the values say {expected.devices}:"
                " is DRANET on in the node pool (cloud.google.com/gke-networking-dra-driver=true)?"
            )
    _raise(problems)
    return f"{expected.devices}{'' if expected.exact_devices else ' or more'} on each of {len(running)} worker(s)"


def _devices(expected: Expected, api: Server, claim: str) -> int:
    answer = api.get(f"/apis/resource.k8s.io/v1/namespaces/{expected.namespace}/resourceclaims/{claim}")
    allocation = (answer.get("status") or {}).get("allocation") or {}
    return len((allocation.get("devices") or {}).get("results") or [])


def writable(folder: Path) -> str:
    """A file is written below the folder and removed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f".cluster-check-{uuid.uuid4().hex}"
        file.write_text(file.name)
        read = file.read_text()
        file.unlink()
        if read != file.name:
            raise OSError(f"{file.name} holds something else than what was written")
    except OSError as error:
        raise CheckError(
            f"{folder} cannot be written: {error}. The service account needs roles/storage.objectUser and"
            " roles/storage.legacyBucketReader on the bucket."
        ) from error
    return f"{folder} can be written"


def _host(node: dict[str, Any]) -> str:
    return f"host {node.get('node_name') or node.get('node_ip')}"


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise CheckError("\n".join(problems))


if __name__ == "__main__":
    sys.exit(main())
