"""`driver up` from a site file to a run, and `driver teardown` back: Google's APIs are the stand-in (tests/gcp), which
hands out the test cluster as the GKE cluster that it makes.

So the cluster, its node pools, networks and the bucket are made at the stand-in, and what is asked of Kubernetes is
asked of a real one, which has the nodes already. It has no TPUs, and `driver up` refuses an emulation: a run comes as
far as its workers' start.

The tests go through it in order, each on what the one before has left.
"""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import tool
from tests.cluster import driver_command, release
from tests.cluster.addons import Api
from tests.cluster.buckets import FolderBucket
from tests.cluster.driver_command import Running
from tests.cluster.release import Release
from tests.gcp.commands import Desk
from tests.gcp.conftest import a_desk, a_google
from tests.gcp.google import Google

pytestmark = [pytest.mark.full, pytest.mark.own_nodes]

NAMESPACE = "driver-up"
CONTEXT = "gke_demo-project_us-east5-b_multislice"
CLUSTER = "projects/demo-project/locations/us-east5-b/clusters/multislice"
PRINCIPAL = "/subject/ns/"
ADMIN = "google-user"
UP = ("up", "-f", "tiny", "-f", str(release.SITE), "--set", "tpu.emulated=false,job.maxFailures=0", "--yes")
SECONDS = 900


@dataclass(frozen=True)
class User:
    """Who has a Google account, gke-gcloud-auth-plugin, and a site whose pods run on the test cluster."""

    desk: Desk
    environment: Mapping[str, str]

    @property
    def google(self) -> Google:
        return self.desk.google

    def start(self, *arguments: str) -> Running:
        return driver_command.start_in(self.desk.folder, self.environment, *arguments)

    def run(self, *arguments: str) -> dict[str, Any]:
        """What the command prints, which must succeed."""
        running = self.start(*arguments)
        code, facts = running.facts(SECONDS)
        assert code == 0, "".join(running.said)
        return facts

    def contexts(self) -> list[str]:
        content = yaml.safe_load((self.desk.folder / "kubeconfig").read_text())
        return [one["name"] for one in content["contexts"]]


@pytest.fixture(scope="module")
def demo(place: release.Place) -> Iterator[Release]:
    """The release as `driver up` names it, in the namespace that it makes."""
    with place.release(NAMESPACE, make_namespace=False) as made:
        yield replace(made, name="tiny")


@pytest.fixture(scope="module")
def user(demo: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("user")
    with an_administrator(demo.api) as token, a_google() as google:
        server, authority = api_server(demo.kubeconfig)
        google.kubernetes.hand_out(server, authority)
        google.tokens.granted = token
        desk = a_desk(google, folder)
        desk.write_site(tpu={"topology": "2x4"}, bucket={"name": NAMESPACE}, namespace=NAMESPACE, serviceAccount="demo")
        programs = [str(auth_plugin(folder, token).parent), str(Path(tool("helm")).parent), os.environ["PATH"]]
        yield User(desk, {**os.environ, **desk.environment, "PATH": os.pathsep.join(programs)})


@pytest.fixture(scope="module")
def first(demo: Release, user: User) -> dict[str, Any]:
    """`driver up --detach`, and the pods' mounts of the bucket for whom it was granted to at Google."""
    assert isinstance(demo.bucket, FolderBucket)
    demo.bucket.bind([])
    facts = user.run(*UP, "--detach")
    demo.bucket.bind(members(user.google))
    return facts


def test_the_site_is_made_at_google(user: User, first: dict[str, Any]):
    made = [step["kind"] for step in first["bootstrap"]["steps"] if step["action"] == "create"]
    assert {kind: made.count(kind) for kind in set(made)} == {
        "VPC network": 2, "VPC subnet": 2, "firewall rule": 2, "GKE cluster": 1, "node pool": 2, "bucket": 1,
        "bucket access": 1, "namespace": 1,
    }  # fmt: skip
    pools = [name for name in user.google.state() if name.startswith(f"{CLUSTER}/nodePools/v6e")]
    assert len(pools) == 2


def test_the_values_and_the_context_are_written(user: User, first: dict[str, Any]):
    values = yaml.safe_load((user.desk.folder / "site.values.yaml").read_text())
    assert (values["tpu"]["topology"], values["storage"]["bucket"]) == ("2x4", NAMESPACE)
    assert first["bootstrap"]["context"] == CONTEXT
    assert user.contexts() == [CONTEXT]


def test_the_cluster_of_the_release_becomes_ready(demo: Release, first: dict[str, Any]):
    assert (first["release"], first["namespace"]) == (demo.name, NAMESPACE)
    demo.settle(SECONDS)
    workers = demo.workers()
    assert len(workers) == 4
    assert {one.spec.service_account_name for one in workers} == {"demo"}


def test_again_it_makes_nothing_and_starts_no_other_run(demo: Release, user: User, first: dict[str, Any]):
    before, calls = demo.identities(), len(user.google.mutating_calls)
    again = user.run(*UP, "--detach")
    assert user.google.mutating_calls[calls:] == []
    assert again["bootstrap"]["changed"] == 0
    assert again["job"] == first["job"]
    after = demo.identities()
    assert {name: after.get(name) for name in before} == before


def test_a_run_that_fails_is_followed_to_its_cause(user: User, first: dict[str, Any]):
    running = user.start(*UP)
    code, facts = running.facts(SECONDS)
    assert (code, facts["job"], facts["succeeded"]) == (1, first["job"], False)
    assert facts["cause"]["found"].startswith("JAX cannot use the TPU chips of a host"), facts["cause"]
    assert "driver image" in facts["cause"]["fix"]


def test_a_teardown_is_refused_while_the_release_lives(user: User, first: dict[str, Any]):
    running = user.start("teardown", "--yes")
    assert running.facts(SECONDS)[0] == 1
    assert f"{NAMESPACE}/tiny" in "".join(running.said)
    assert CLUSTER in user.google.state()


def test_a_teardown_with_the_releases_leaves_the_bucket_alone(demo: Release, user: User, first: dict[str, Any]):
    user.run("teardown", "--yes", "--remove-releases")
    demo.await_empty(60)
    left = [name for name in user.google.state() if "multislice" in name or NAMESPACE in name]
    assert {name.partition(" ")[0] for name in left} == {f"buckets/{NAMESPACE}"}
    assert user.contexts() == []


@contextmanager
def an_administrator(api: Api) -> Iterator[str]:
    """The token of an account that may do everything on the test cluster, for as long as it lasts."""
    account = {"kind": "ServiceAccount", "name": ADMIN, "namespace": "kube-system"}
    everything = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    metadata = {"name": ADMIN, "namespace": "kube-system"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ADMIN},
        "roleRef": everything, "subjects": [account],
    }  # fmt: skip
    api.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}], "kube-system")
    api.apply([binding])
    try:
        yield api.token(ADMIN, "kube-system")
    finally:
        api.dynamic.resources.get(api_version=binding["apiVersion"], kind=binding["kind"]).delete(ADMIN)
        api.core.delete_namespaced_service_account(ADMIN, "kube-system")


def api_server(kubeconfig: Path) -> tuple[str, str]:
    """Host and port, and the authority's certificate in base64: what GKE tells of a cluster."""
    entry = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = (kubeconfig.parent / entry["certificate-authority"]).read_bytes()
    return entry["server"].removeprefix("https://"), base64.b64encode(authority).decode()


def auth_plugin(folder: Path, token: str) -> Path:
    """A gke-gcloud-auth-plugin that knows the user's token."""
    status = {"token": token, "expirationTimestamp": f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"}
    credential = {"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": status}
    path = folder / "bin" / "gke-gcloud-auth-plugin"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    path.chmod(0o755)
    return path


def members(google: Google) -> list[str]:
    """NAMESPACE/SERVICEACCOUNT of the pods that may use the bucket by its policy at Google."""
    bindings = google.resources[f"buckets/{NAMESPACE} iamPolicy"]["bindings"]
    subjects = {one.partition(PRINCIPAL)[2] for binding in bindings for one in binding["members"] if PRINCIPAL in one}
    return [subject.replace("/sa/", "/") for subject in subjects]
