"""Releases of the chart that live on a cluster: a teardown finds them, refuses, and uninstalls them when told to."""

import base64
import gzip
import json
import shutil
from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest
import yaml
from rich.console import Console

from driver import chart
from driver.errors import DriverError
from driver.gcp import bootstrap, kubeconfig, releases, teardown, waiting
from driver.gcp.cloud import Cloud
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.releases import Release
from driver.gcp.waiting import Waiting
from driver.values import Values
from tests.gcp.clients import PROJECT
from tests.gcp.faults import Refuse
from tests.gcp.kubernetes import StatusError
from tests.gcp.sites import site
from tests.gcp.tokens import TOKEN

CLUSTER = f"projects/{PROJECT}/locations/us-east5-b/clusters/multislice"
PLURALS = {"RayCluster": "rayclusters", "RayJob": "rayjobs"}
DEMO = Release("maxtext", "demo")


@pytest.fixture(scope="module")
def rendered() -> dict[str, Any]:
    """The chart's own RayCluster and RayJob of a release "demo", by kind."""
    manifests = chart.render(Values(sets=("storage.bucket=demo-bucket",)), "demo").manifests
    return {one["kind"]: one for one in manifests if one["kind"] in PLURALS}


@pytest.fixture
def cloud(google, monkeypatch, tmp_path):
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.02)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return Cloud(PROJECT, google.endpoint, google.credentials())


@pytest.fixture
def cluster(cloud):
    made = Cluster(site())
    made.create(cloud, Waiting())
    return made


@pytest.fixture
def install(google, rendered):
    """Puts what `helm install demo` leaves into the cluster: the objects, and the secret that Helm keeps."""

    def into(
        namespace: str = "maxtext", kinds: tuple[str, ...] = ("RayCluster", "RayJob"), secret: bool = True
    ) -> None:
        objects = [placed(rendered[kind], namespace) for kind in kinds]
        for one in objects:
            name = one["metadata"]["name"]
            google.kubernetes.add(CLUSTER, PLURALS[one["kind"]], namespace, name, metadata=one["metadata"])
        if secret:
            fields = helms_secret(namespace, objects)
            google.kubernetes.add(CLUSTER, "secrets", namespace, "sh.helm.release.v1.demo.v1", **fields)

    return into


def placed(manifest: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """The manifest as Helm sends it: in the namespace, and with Helm's marks of whose it is."""
    marks = {"meta.helm.sh/release-name": "demo", "meta.helm.sh/release-namespace": namespace}
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations", {}) | marks
    return {**manifest, "metadata": metadata | {"namespace": namespace, "annotations": annotations}}


def helms_secret(namespace: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    """How Helm remembers a release: JSON, gzip, base64. https://helm.sh/docs/topics/kubernetes_apis"""
    release = {
        "name": "demo",
        "namespace": namespace,
        "version": 1,
        "info": {"status": "deployed", "first_deployed": "2026-11-01T00:00:00Z"},
        "chart": {"metadata": {"name": "maxtext-multislice", "version": "0.1.0", "apiVersion": "v2"}},
        "manifest": yaml.safe_dump_all(objects, explicit_start=True),
    }
    kept = base64.b64encode(gzip.compress(json.dumps(release).encode()))
    labels = {"owner": "helm", "name": "demo", "status": "deployed", "version": "1"}
    return {
        "metadata": {"labels": labels},
        "type": "helm.sh/release.v1",
        "data": {"release": base64.b64encode(kept).decode()},
    }


@pytest.mark.parametrize("kinds", [("RayCluster",), ("RayJob",), ("RayCluster", "RayJob")])
def test_a_release_is_known_by_either_of_its_ray_objects(cloud, cluster, install, kinds):
    install(kinds=kinds)
    assert releases.of_site(site(), cloud, everywhere=False) == [DEMO]


def test_a_ray_cluster_of_others_is_no_release(cloud, cluster, google):
    google.kubernetes.add(CLUSTER, "rayclusters", "maxtext", "by-hand")
    of_helm = {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "ray-cluster"}
    google.kubernetes.add(CLUSTER, "rayclusters", "maxtext", "another-chart", metadata={"labels": of_helm})
    assert releases.of_site(site(), cloud, everywhere=True) == []


def test_other_namespaces_are_looked_at_only_when_asked_for(cloud, cluster, install):
    install("team-b")
    assert releases.of_site(site(), cloud, everywhere=False) == []
    assert releases.of_site(site(), cloud, everywhere=True) == [Release("team-b", "demo")]


def test_a_cluster_without_kuberay_has_no_releases(cloud, cluster, google, install):
    install()
    google.resources[CLUSTER]["addonsConfig"] = {}
    assert releases.of_site(site(), cloud, everywhere=True) == []


@pytest.mark.parametrize("status", ["PROVISIONING", "STOPPING", "ERROR"])
def test_a_cluster_that_does_not_answer_has_no_releases(cloud, cluster, google, install, status):
    install()
    google.resources[CLUSTER]["status"] = status
    assert releases.of_site(site(), cloud, everywhere=True) == []


def test_no_cluster_has_no_releases(cloud):
    assert releases.of_site(site(), cloud, everywhere=True) == []


def test_a_cluster_that_refuses_to_tell_is_an_error_with_a_fix(cloud, cluster, google):
    forbidden = Refuse(StatusError(403, "Forbidden", "you may not list rayclusters"))
    google.faults.add(lambda method, path: path.endswith("/rayclusters"), forbidden)
    with pytest.raises(DriverError) as refused:
        releases.of_site(site(), cloud, everywhere=True)
    assert "container.thirdPartyObjects.list" in refused.value.rule
    assert "roles/container.developer" in refused.value.fix


def test_helm_uninstalls_the_release_and_forgets_it(cloud, cluster, google, install):
    before = google.state()
    install()
    assert len(google.state()) == len(before) + 3
    releases.remove(DEMO, site(), cloud)
    assert google.state() == before


def test_a_release_that_is_gone_already_is_no_error(cloud, cluster, install):
    install(secret=False)
    releases.remove(DEMO, site(), cloud)


def test_helm_gets_the_token_in_its_environment_and_no_other_cluster(cloud, cluster, google, install, helm_log):
    """The user's shell points Helm at another cluster, as another user, in another kubeconfig."""
    install()
    releases.remove(DEMO, site(), cloud)
    arguments, environment = helm_log()
    assert arguments[:2] == ["uninstall", "demo"]
    assert TOKEN not in " ".join(arguments)
    assert {name: value for name, value in environment.items() if name.startswith("HELM_KUBE")} == {
        "HELM_KUBEAPISERVER": f"https://{google.resources[CLUSTER]['endpoint']}",
        "HELM_KUBECAFILE": environment["HELM_KUBECAFILE"],
        "HELM_KUBETOKEN": TOKEN,
    }
    assert environment["HELM_CACHE_HOME"] == "kept"


@pytest.fixture
def helm_log(tmp_path, monkeypatch):
    """Puts a recorder before Helm on the PATH; tells Helm's last arguments and environment."""
    real, log = shutil.which("helm"), tmp_path / "helm.log"
    recorder = tmp_path / "bin" / "helm"
    recorder.parent.mkdir()
    recorder.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {log}.arguments\nenv > {log}.environment\nexec {real} "$@"\n'
    )
    recorder.chmod(0o755)
    monkeypatch.setenv("PATH", str(recorder.parent), prepend=":")
    for name in ("HELM_KUBECONTEXT", "HELM_KUBEASUSER", "HELM_KUBEINSECURE_SKIP_TLS_VERIFY"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("HELM_CACHE_HOME", "kept")
    monkeypatch.chdir(tmp_path)

    def read() -> tuple[list[str], dict[str, str]]:
        lines = (tmp_path / "helm.log.environment").read_text().splitlines()
        arguments = (tmp_path / "helm.log.arguments").read_text().splitlines()
        return arguments, dict(line.partition("=")[::2] for line in lines)

    return read


@pytest.fixture
def made(cloud, tmp_path):
    """Bootstraps a site; returns it."""

    def by_bootstrap(**parts: Any) -> Any:
        the_site = site(**parts)
        plan = bootstrap.make_plan(the_site, cloud)
        values = tmp_path / "site.values.yaml"
        bootstrap.carry_out(plan, the_site, values, cloud, quiet(), lambda _: None, skip_preflight=True)
        return the_site

    return by_bootstrap


def quiet() -> Console:
    return Console(file=StringIO())


def tear_down(the_site: Any, cloud: Cloud, *, remove_releases: bool = False) -> teardown.Teardown:
    plan = teardown.make_plan(the_site, cloud, delete_bucket=False)
    teardown.carry_out(plan, the_site, cloud, quiet(), remove_releases=remove_releases)
    return plan


@pytest.mark.parametrize("namespace", ["maxtext", "team-b"])
def test_teardown_refuses_while_a_release_lives_anywhere_on_our_cluster(made, cloud, google, install, namespace):
    the_site = made()
    install(namespace)
    before, calls = google.state(), len(google.mutating_calls)
    with pytest.raises(DriverError) as refused:
        tear_down(the_site, cloud)
    assert f"{namespace}/demo" in refused.value.found
    assert "--remove-releases" in refused.value.fix
    assert (google.state(), len(google.mutating_calls)) == (before, calls)


def test_the_command_refuses_before_it_asks(desk, install):
    desk.run("bootstrap", "--skip-preflight")
    install()
    listed = desk.run("teardown", "--dry-run")
    assert listed.wait() == 0, listed.said
    assert "! release maxtext/demo lives on the cluster" in listed.said
    refused = desk.run("teardown")
    assert refused.wait() == 1
    assert "These releases live on the cluster: maxtext/demo." in refused.said
    assert "Delete these" not in refused.said


def test_teardown_uninstalls_the_releases_first_when_told_to(made, cloud, google, install):
    before = set(google.state())
    the_site = made()
    google.kubernetes.add(CLUSTER, "namespaces", "", "team-b")
    install("maxtext")
    install("team-b")
    calls = len(google.mutating_calls)
    tear_down(the_site, cloud, remove_releases=True)
    paths = [call.path for call in google.mutating_calls[calls:] if call.method == "DELETE"]
    helms = [place for place, path in enumerate(paths) if "sh.helm.release" in path]
    googles = [place for place, path in enumerate(paths) if not path.startswith("/api")]
    assert len(helms) == 2
    assert max(helms) < min(googles)
    assert {name for name in google.state() if "demo-bucket" not in name} == before
    assert not kubeconfig.remove(the_site)


def test_a_release_that_helm_cannot_uninstall_stops_the_teardown(made, cloud, google, install):
    the_site = made()
    install()
    forbidden = Refuse(StatusError(403, "Forbidden", "you may not delete it"))
    google.faults.add(lambda method, path: method == "DELETE" and "/rayjobs/" in path, forbidden)
    with pytest.raises(DriverError) as failed:
        tear_down(the_site, cloud, remove_releases=True)
    assert "Helm could not uninstall the release maxtext/demo:" in failed.value.found
    assert "you may not delete it" in failed.value.found
    assert TOKEN not in failed.value.found
    assert [name for name in google.state() if name.endswith("networks/multislice-net-1")]


def test_on_a_cluster_of_others_only_the_sites_namespace_counts(made, cloud, google, cluster, install):
    google.resources[CLUSTER]["resourceLabels"] = {}
    the_site = made(cluster={"existing": True})
    install("team-b")
    assert tear_down(the_site, cloud).releases == ()
    assert CLUSTER in google.resources
    made(cluster={"existing": True})
    install("maxtext")
    with pytest.raises(DriverError, match="maxtext/demo"):
        tear_down(the_site, cloud)


def test_subnets_go_after_the_cluster_whose_node_pools_use_them(made, cloud, google):
    the_site = made()
    google.delays["delete cluster"] = 0.3
    assert deletes(google, lambda: tear_down(the_site, cloud)) == ["clusters", "subnetworks", "networks"]


def test_on_a_cluster_of_others_subnets_go_after_our_node_pools(made, cloud, google, cluster):
    google.resources[CLUSTER]["resourceLabels"] = {}
    the_site = made(cluster={"existing": True})
    google.delays["delete node pool"] = 0.3
    assert deletes(google, lambda: tear_down(the_site, cloud)) == ["nodePools", "subnetworks", "networks"]


def deletes(google: Any, action: Any) -> list[str]:
    """The order of what is deleted of a chain, by kind. Each is deleted at the first attempt, so none was in use."""
    calls = len(google.mutating_calls)
    action()
    paths = [call.path for call in google.mutating_calls[calls:] if call.method == "DELETE"]
    chain = [path for path in paths if not path.startswith("/api") and "/firewalls/" not in path]
    assert len(chain) == len(set(chain))
    return list(dict.fromkeys(path.split("/")[-2] for path in chain))
