"""What would make an install fail later."""

import pytest

from driver import chart, resources
from driver.errors import DriverError
from driver.findings import Status
from driver.kube.preconditions import Subject, check
from driver.values import Values
from tests.kube import manifests
from tests.kube.clusters import SITE, prepare


@pytest.fixture
def look(api, connection):
    """The findings for the tiny profile with some values more."""
    prepare(api)

    def check_with(*sets):
        files = (resources.values_dir() / "tiny.yaml",)
        rendering = chart.render(Values(files, (*SITE, *sets)), "demo", connection.namespace)
        return check(Subject(connection, "demo", rendering))

    return check_with


def of(findings, status):
    return [one.found for one in findings if one.status is status]


def test_a_cluster_that_has_all_of_it_is_well(look):
    found = look()
    assert of(found, Status.WARNING) == []
    assert of(found, Status.NOT_CHECKED) == []


def test_a_namespace_that_is_not_there_is_a_problem(api, look):
    api.remove("namespaces", "team")
    with pytest.raises(DriverError, match=r"no namespace team[\s\S]*kubectl create namespace team"):
        look()


def test_a_cluster_without_kuberay_is_told_where_to_get_it(api, look):
    api.without |= {"rayclusters", "rayjobs"}
    with pytest.raises(DriverError, match=r"no rayclusters.ray.io and no rayjobs.ray.io[\s\S]*add-on"):
        look()


def test_a_field_that_the_installed_kuberay_lacks_is_a_problem(api, look):
    kind = {"group": "ray.io", "version": "v1", "kind": "RayJob"}
    spec = {"type": "object", "properties": {name: {} for name in FIELDS}}
    api.schemas = {"job": {"properties": {"spec": spec}, "x-kubernetes-group-version-kind": [kind]}}
    look()
    with pytest.raises(DriverError, match="RayJob has no spec.preRunningDeadlineSeconds"):
        look("kuberay.version=1.6.0", "rayJob.preRunningDeadlineSeconds=60")


FIELDS = (
    "submissionMode", "entrypoint", "runtimeEnvYAML", "clusterSelector", "submitterPodTemplate", "submitterConfig",
)  # fmt: skip


def test_without_dranet_s_class_no_worker_starts(api, look):
    api.remove("deviceclasses", "netdev.google.com")
    with pytest.raises(DriverError, match="no DeviceClass netdev.google.com"):
        look()
    look("network.dranet.enabled=false")


def test_a_cluster_without_the_tpu_webhook_is_told_so(api, look):
    api.remove("mutatingwebhookconfigurations", "kuberay-tpu-mutating-webhook-cfg")
    with pytest.raises(DriverError, match="no TPU webhook"):
        look()


def test_an_account_that_must_exist_and_does_not_is_a_problem(api, look):
    sets = ("serviceAccount.create=false", "serviceAccount.name=trainer")
    with pytest.raises(DriverError, match="no service account trainer in namespace team"):
        look(*sets)
    api.add("serviceaccounts", "trainer")
    look(*sets)


def test_the_account_of_another_release_is_not_taken_over(api, look):
    api.add("serviceaccounts", "demo", metadata={"annotations": {"meta.helm.sh/release-name": "other"}})
    with pytest.raises(DriverError, match="The service account demo was made by the release other"):
        look()


def test_too_few_slices_are_a_problem_where_nothing_makes_more(api, look):
    api.remove("nodes", "node-1")
    with pytest.raises(DriverError, match=r"1 of 1 node pools .* and the run needs 2"):
        look()


def test_too_few_slices_are_a_warning_where_an_autoscaler_may_make_more(api, look):
    api.remove("nodes", "node-1")
    api.add("configmaps", "cluster-autoscaler-status", "kube-system")
    assert "the run needs 2" in of(look(), Status.WARNING)[0]


def test_slices_that_others_use_are_waited_for(api, look):
    pod = manifests.worker(0, 0, cluster="other-abc123", release="other")
    pod["metadata"]["namespace"], pod["spec"]["nodeName"] = "elsewhere", "node-1"
    api.put("pods", pod)
    waits = next(one for one in look() if one.status is Status.WARNING)
    assert "1 of 2 node pools" in waits.found
    assert "the run waits until they are free" in waits.fix
    assert "elsewhere/other-abc123 (release other)" in waits.fix
    assert "driver uninstall other -n elsewhere" in waits.fix


def test_an_elastic_run_starts_on_fewer_slices(api, look):
    api.remove("nodes", "node-1")
    assert "the run needs 1 to 2" in of(look("elastic.enabled=true"), Status.WARNING)[0]


def test_a_compute_class_makes_what_is_missing(api, look):
    api.remove("nodes", "node-1")
    assert of(look("computeClass.enabled=true"), Status.WARNING) == []


@pytest.mark.parametrize("plural", ["nodes", "mutatingwebhookconfigurations"])
def test_what_may_not_be_looked_at_is_said_and_stops_nothing(api, look, plural):
    api.faults.denied.add(("list", plural))
    assert f"list {plural}" in of(look(), Status.NOT_CHECKED)[0]


def test_all_problems_are_told_at_once(api, look):
    api.remove("deviceclasses", "netdev.google.com")
    api.remove("mutatingwebhookconfigurations", "kuberay-tpu-mutating-webhook-cfg")
    with pytest.raises(DriverError, match="2 things keep this release from running") as error:
        look()
    assert "DeviceClass" in error.value.found
    assert "webhook" in error.value.found


def test_every_right_that_helm_would_lack_is_told_at_once(api, look):
    api.faults.denied |= {("patch", "rayjobs"), ("delete", "rayjobs"), ("create", "secrets")}
    with pytest.raises(
        DriverError, match="The rights to create secrets in namespace team; patch, delete rayjobs.ray.io"
    ):
        look()


def test_objects_that_only_the_chart_s_test_makes_need_no_right(api, look):
    api.faults.denied.add(("create", "pods"))
    look()


def test_a_caller_who_may_not_ask_for_the_rights_is_told_so(api, look):
    api.faults.denied.add(("create", "selfsubjectaccessreviews"))
    assert "selfsubjectaccessreviews" in of(look(), Status.NOT_CHECKED)[0]
