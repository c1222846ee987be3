"""The TPU webhook over HTTPS: what it makes of a pod, which slot a pod gets, and what it refuses."""

import copy
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.gke.admission import Client, place, pod, ray_cluster, variables
from tests.gke.api import Api
from tests.gke.fake_api import fake_api
from tests.gke.programs import program
from tests.gke.slots import UNSEEN_SECONDS, Slots
from tests.gke.webhook import Webhook, server

PODS = "/api/v1/namespaces/team/pods"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    files = {"-keyout": folder / "key.pem", "-out": folder / "certificate.pem"}
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=webhook -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), *(str(part) for pair in files.items() for part in pair)], check=True)
    return files["-out"], files["-keyout"]


@pytest.fixture
def api():
    with fake_api() as api:
        yield api


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def client(api, clock, certificate, tmp_path):
    https = server(Webhook(Api(api.kubeconfig(tmp_path)), Slots(clock)), ("127.0.0.1", 0), *certificate)
    threading.Thread(target=https.serve_forever, args=[0.02]).start()
    yield Client(https.server_address[1], certificate[0])
    https.shutdown()
    https.server_close()


def listed(api, item, name, **status):
    metadata = item["metadata"] | {"name": name} | status.pop("metadata", {})
    return api.put(f"{PODS}/{name}", metadata=metadata, spec=item["spec"], status={"phase": "Running"} | status)


def test_a_host_of_a_multi_host_slice_learns_its_place_and_the_other_hosts(client):
    item = client.mutated(pod())
    assert variables(item) == {
        "TPU_WORKER_HOSTNAMES": "workers-0-0.demo-headless,workers-0-1.demo-headless",
        "TPU_WORKER_ID": "0",
        "TPU_NAME": "workers-0",
        "TPU_DEVICE_PLUGIN_HOST_IP": None,
        "TPU_DEVICE_PLUGIN_ADDR": "$(TPU_DEVICE_PLUGIN_HOST_IP):2112",
        "TPU_TOPOLOGY": "2x4",
        "TPU_ACCELERATOR_TYPE": "v6e-8",
    }
    assert item["metadata"]["labels"]["replicaIndex"] == "workers-0"
    assert (item["spec"]["hostname"], item["spec"]["subdomain"]) == ("workers-0-0", "demo-headless")


def test_a_single_host_slice_gets_neither_hostname_nor_affinity(client):
    item = client.mutated(pod("2x2"))
    assert place(item) == ("workers-0", 0)
    assert not {"hostname", "subdomain", "affinity"} & item["spec"].keys()
    assert "TPU_WORKER_HOSTNAMES" not in variables(item)


def test_a_slice_has_a_node_pool_for_itself_and_the_pods_own_affinity_is_replaced(client):
    item = pod()
    item["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    affinity = client.mutated(item)["spec"]["affinity"]
    assert affinity.keys() == {"podAffinity", "podAntiAffinity"}
    (together,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    other_slices, strangers = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert {term["topologyKey"] for term in (together, other_slices, strangers)} == {"cloud.google.com/gke-nodepool"}
    assert _expressions(together) == {("replicaIndex", "In", "workers-0"), ("ray.io/cluster", "In", "demo")}
    assert _expressions(other_slices) == {("replicaIndex", "NotIn", "workers-0"), ("ray.io/cluster", "In", "demo")}
    assert _expressions(strangers) == {("replicaIndex", "Exists", ""), ("ray.io/cluster", "NotIn", "demo")}
    (namespaces,) = strangers["namespaceSelector"]["matchExpressions"]
    assert namespaces == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}


def test_pods_made_at_once_get_slots_of_their_own_before_any_is_listed(client):
    with ThreadPoolExecutor(32) as threads:
        items = list(threads.map(lambda _: client.mutated(pod()), range(32)))
    assert {place(item) for item in items} == {(f"workers-{replica}", host) for replica in range(16) for host in (0, 1)}


def test_a_slice_that_went_as_a_whole_is_filled_again(client, api):
    for number in range(4):
        listed(api, client.mutated(pod()), f"pod{number}")
    assert place(client.mutated(pod(), dryRun=True)) == ("workers-2", 0)
    for number in (0, 1):
        api.remove(f"{PODS}/pod{number}")
    assert [place(client.mutated(pod())) for _ in range(2)] == [("workers-0", 0), ("workers-0", 1)]


@pytest.mark.parametrize(
    "ended",
    [{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {"phase": "Failed"}, {"phase": "Succeeded"}],
    ids=["deleted", "failed", "succeeded"],
)
def test_a_pod_that_ended_or_is_being_deleted_frees_its_slot(client, api, ended):
    first = client.mutated(pod())
    listed(api, first, "pod0")
    assert place(client.mutated(pod(), dryRun=True)) == ("workers-0", 1)
    listed(api, first, "pod0", **copy.deepcopy(ended))
    assert place(client.mutated(pod())) == ("workers-0", 0)


def test_a_pod_that_never_came_frees_its_slot_after_a_while(client, clock):
    assert place(client.mutated(pod())) == ("workers-0", 0)
    clock.now = UNSEEN_SECONDS - 1
    assert place(client.mutated(pod(), dryRun=True)) == ("workers-0", 1)
    clock.now = UNSEEN_SECONDS + 1
    assert place(client.mutated(pod())) == ("workers-0", 0)


def test_a_dry_run_takes_no_slot(client):
    assert place(client.mutated(pod(), dryRun=True)) == ("workers-0", 0)
    assert place(client.mutated(pod())) == ("workers-0", 0)


def test_other_clusters_have_slots_of_their_own(client):
    assert place(client.mutated(pod())) == ("workers-0", 0)
    assert place(client.mutated(pod(cluster="other"))) == ("workers-0", 0)


def test_kuberays_own_indexing_is_followed(client):
    labels = {
        "ray.io/worker-group-replica-name": "workers-xh3hf",
        "ray.io/worker-group-replica-index": "3",
        "ray.io/replica-host-index": "1",
    }
    item = client.mutated(pod(labels=labels))
    assert place(item) == ("workers-3", 1)
    assert item["spec"]["hostname"] == "workers-3-1"
    assert "replicaIndex" not in item["metadata"]["labels"]
    (together,) = item["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert ("ray.io/worker-group-replica-name", "In", "workers-xh3hf") in _expressions(together)


def test_megascale_variables_come_only_where_the_number_of_slices_is_set(client):
    assert not any(name.startswith("MEGASCALE") for name in variables(client.mutated(pod())))
    found = variables(client.mutated(pod(cluster="multi", env=[("MEGASCALE_NUM_SLICES", "2")])))
    assert found["MEGASCALE_SLICE_ID"] == "0"
    assert found["MEGASCALE_COORDINATOR_ADDRESS"] == "workers-0-0.multi-headless"
    assert found["MEGASCALE_PORT"] == "8081"


def test_what_the_container_sets_itself_is_kept(client):
    item = client.mutated(pod(env=[("TPU_NAME", "mine"), ("TPU_TOPOLOGY", "4x4")]))
    names = [entry["name"] for entry in item["spec"]["containers"][0]["env"]]
    assert variables(item)["TPU_NAME"] == "mine"
    assert variables(item)["TPU_TOPOLOGY"] == "4x4"
    assert len(names) == len(set(names))


def test_a_long_service_name_keeps_its_last_50_characters_as_kuberays_does(client):
    item = client.mutated(pod(cluster="a" * 20 + "-" + "b" * 41))
    assert item["spec"]["subdomain"] == "b" * 41 + "-headless"
    cut_at_a_digit = client.mutated(pod(cluster="a" * 21 + "7" + "b" * 40))["spec"]["subdomain"]
    assert cut_at_a_digit == "r" + "b" * 40 + "-headless"


def test_on_ironwood_workers_and_ports_are_counted_per_container(client):
    item = client.mutated(pod("2x2x2", accelerator="tpu7x", chips="2", containers=2, labels=_indexed(0, 1)))
    assert [variables(item, number)["TPU_WORKER_ID"] for number in (0, 1)] == ["2", "3"]
    assert [variables(item, number)["TPU_PROCESS_PORT"] for number in (0, 1)] == ["8471", "8472"]
    addresses = variables(item)["TPU_PROCESS_ADDRESSES"].split(",")
    assert addresses[:3] == [
        f"workers-0-{host}.demo-headless:{port}" for host, port in ((0, 8471), (0, 8472), (1, 8471))
    ]


def test_pods_without_chips_pass_untouched(client):
    item = pod()
    item["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    assert client.mutated(item) == item


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (pod(labels={"ray.io/cluster": ""}), "Ray Pod created by KubeRay missing RayCluster label"),
        (pod(labels={"ray.io/group": ""}), "Ray Pod created by KubeRay missing Group label"),
        (pod(topology=""), "Ray Pod created by KubeRay missing TPU topology nodeSelector"),
        (pod(topology="two"), 'TPU topology "two" is not numbers joined by x'),
        (pod(accelerator="tpu-v9"), 'nodeSelector cloud.google.com/gke-tpu-accelerator is "tpu-v9"'),
    ],
    ids=["cluster", "group", "no topology", "wrong topology", "accelerator"],
)
def test_a_pod_that_cannot_be_placed_is_refused(client, item, message):
    assert message in client.refusal(item)


def test_a_refused_pod_takes_no_slot(client):
    client.refusal(pod(accelerator="tpu-v9"))
    assert place(client.mutated(pod())) == ("workers-0", 0)


def test_without_the_api_server_a_pod_is_refused_and_the_cause_named(client, api):
    api.token = "another"
    assert "the pods of team/demo/workers cannot be listed: (401)" in client.refusal(pod())


def test_a_ray_cluster_whose_hosts_are_those_of_its_topology_is_let_in(client):
    assert client.review("/validate", "RayCluster", ray_cluster())["allowed"]
    without_chips = {"spec": {"containers": [{"name": "cpu"}]}}
    assert client.review("/validate", "RayCluster", ray_cluster(hosts=7, template=without_chips))["allowed"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (ray_cluster(hosts=4), "Number of workers in worker group not equal to specified topology"),
        (ray_cluster(hosts=0), "workerGroupSpec NumOfHosts not set"),
        (ray_cluster(topology=""), "TPU topology not specified"),
        (ray_cluster(template={"spec": {}}), "Container path not specified"),
    ],
    ids=["hosts", "no hosts", "no topology", "no container"],
)
def test_a_ray_cluster_whose_hosts_do_not_fit_is_refused(client, item, message):
    assert client.refusal(item, "/validate", "RayCluster") == message


def test_a_request_that_is_no_review_is_an_error_of_the_caller(client):
    assert client.post("/mutate", "{")[0] == 400
    assert client.post("/elsewhere", "{}")[0] == 404
    assert client.refusal(pod(), kind="Service") == "Expected Pod but got Service"


def test_a_connection_that_says_nothing_keeps_nobody_waiting(client):
    with socket.create_connection(("127.0.0.1", client.port)):
        assert client.mutated(pod())


def test_the_program_serves_and_ends_clean(api, certificate, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--kubeconfig", str(api.kubeconfig(tmp_path)), "--listen", f"127.0.0.1:{port}"]
    arguments += ["--certificate", str(certificate[0]), "--key", str(certificate[1])]
    with program("tests.gke.webhook", *arguments) as webhook:
        webhook.wait_for("serving")
        assert place(Client(port, certificate[0]).mutated(pod())) == ("workers-0", 0)
        webhook.wait_for("team/demo/workers: slice 0 host 0")
        assert webhook.terminate() == 0


def _indexed(replica, host):
    return {"ray.io/worker-group-replica-index": str(replica), "ray.io/replica-host-index": str(host)}


def _expressions(term):
    return {
        (found["key"], found["operator"], ",".join(found.get("values", [])))
        for found in term["labelSelector"]["matchExpressions"]
    }
