"""The stand-in for projects, permissions, APIs and quotas."""

import pytest
from google.api_core import exceptions
from google.iam.v1 import iam_policy_pb2, policy_pb2

from tests.gcp.clients import PROJECT, REGION, Clients
from tests.gcp.google import Google

QUOTAS = f"projects/{PROJECT}/locations/global/services/compute.googleapis.com"


def test_a_project_has_a_number(google: Google, clients: Clients) -> None:
    project = clients.projects.get_project(name=f"projects/{PROJECT}")
    assert project.name == f"projects/{google.projects[PROJECT]}"
    assert project.state.name == "ACTIVE"


def test_a_project_that_is_not_there_may_not_be_seen(clients: Clients) -> None:
    with pytest.raises(exceptions.Forbidden, match="The caller does not have permission"):
        clients.projects.get_project(name="projects/nowhere")
    with pytest.raises(exceptions.Forbidden, match="Permission denied on resource project nowhere"):
        clients.clusters.list_clusters(parent="projects/nowhere/locations/-")
    with pytest.raises(exceptions.BadRequest, match="Unknown project id"):
        clients.storage.create_bucket("demo-bucket", project="nowhere")


def test_permissions_are_tested(google: Google, clients: Clients) -> None:
    google.permissions = {"container.clusters.create"}
    request = iam_policy_pb2.TestIamPermissionsRequest(
        resource=f"projects/{PROJECT}", permissions=["container.clusters.create", "compute.networks.create"]
    )
    assert list(clients.projects.test_iam_permissions(request=request).permissions) == ["container.clusters.create"]


def test_a_call_without_its_permission_is_refused(google: Google, clients: Clients) -> None:
    google.permissions = {"compute.networks.get"}
    with pytest.raises(exceptions.Forbidden, match=r"Required 'compute\.networks\.create' permission"):
        clients.make_network()
    with pytest.raises(exceptions.Forbidden, match=r'Required "container\.clusters\.create" permission') as refused:
        clients.make_cluster()
    assert refused.value.reason == "IAM_PERMISSION_DENIED"


def test_a_firewall_rule_needs_the_permission_to_change_its_network(google: Google, clients: Clients) -> None:
    clients.make_network()
    google.permissions = {"compute.firewalls.create", "compute.networks.get"}
    with pytest.raises(exceptions.Forbidden, match=r"compute\.networks\.updatePolicy"):
        clients.make_firewall()


def test_an_api_that_is_not_enabled_is_refused_until_it_is(google: Google, clients: Clients) -> None:
    google.add_project("empty-project", services=())
    with pytest.raises(exceptions.Forbidden, match="Kubernetes Engine API has not been used") as refused:
        clients.clusters.list_clusters(parent="projects/empty-project/locations/-")
    assert refused.value.reason == "SERVICE_DISABLED"
    assert refused.value.metadata["service"] == "container.googleapis.com"
    request = {"parent": "projects/empty-project", "service_ids": ["container.googleapis.com"]}
    made = clients.services.batch_enable_services(request=request).result(timeout=10)
    assert [one.state.name for one in made.services] == ["ENABLED"]
    assert not clients.clusters.list_clusters(parent="projects/empty-project/locations/-").clusters


def test_an_api_is_disabled_until_its_operation_is_done(google: Google, clients: Clients) -> None:
    google.add_project("empty-project", services=())
    google.delays["services"] = 3600
    request = {"parent": "projects/empty-project", "service_ids": ["container.googleapis.com"]}
    assert not clients.services.batch_enable_services(request=request).done()
    name = "projects/empty-project/services/container.googleapis.com"
    assert clients.services.get_service(request={"name": name}).state.name == "DISABLED"


def test_enabled_apis_are_listed(google: Google, clients: Clients) -> None:
    google.add_project("small-project", services=("storage", "container"))
    request = {"parent": "projects/small-project", "filter": "state:ENABLED"}
    found = [one.config.name for one in clients.services.list_services(request=request)]
    assert found == ["container.googleapis.com", "storage.googleapis.com"]


def test_several_apis_are_asked_for_at_once(google: Google, clients: Clients) -> None:
    google.add_project("small-project", services=("storage",))
    names = [f"projects/small-project/services/{one}.googleapis.com" for one in ("storage", "container")]
    answer = clients.services.batch_get_services(request={"parent": "projects/small-project", "names": names})
    assert [one.state.name for one in answer.services] == ["ENABLED", "DISABLED"]


def test_an_api_that_is_unknown_is_not_enabled(clients: Clients) -> None:
    request = {"parent": f"projects/{PROJECT}", "service_ids": ["nothing.googleapis.com"]}
    with pytest.raises(exceptions.Forbidden, match=r"nothing\.googleapis\.com"):
        clients.services.batch_enable_services(request=request)


def test_a_projects_policy_with_an_old_etag_is_refused(clients: Clients) -> None:
    resource = f"projects/{PROJECT}"
    old = clients.projects.get_iam_policy(request=iam_policy_pb2.GetIamPolicyRequest(resource=resource))
    binding = policy_pb2.Binding(role="roles/viewer", members=["user:someone@example.com"])
    new = policy_pb2.Policy(bindings=[binding], etag=old.etag)
    request = iam_policy_pb2.SetIamPolicyRequest(resource=resource, policy=new)
    clients.projects.set_iam_policy(request=request)
    with pytest.raises(exceptions.Conflict, match="concurrent policy changes"):
        clients.projects.set_iam_policy(request=request)


def limits(clients: Clients, quota: str) -> dict[str, int]:
    info = clients.quotas.get_quota_info(name=f"{QUOTAS}/quotaInfos/{quota}")
    return {
        f"{region} {one.dimensions.get('tpu_family', '')}".strip(): one.details.value
        for one in info.dimensions_infos
        for region in one.applicable_locations
    }


def test_tpu_quotas_have_the_region_and_the_family_as_dimensions(google: Google, clients: Clients) -> None:
    google.quotas["us-east5 CT6E"] = 32
    found = limits(clients, "TPUS-PER-TPU-FAMILY-per-project-region")
    assert (found["us-east5 CT6E"], found["us-east1 CT6E"], found["us-east5 TPU7X"]) == (32, 256, 256)


def test_spot_quotas_are_per_generation(google: Google, clients: Clients) -> None:
    google.quotas["CT6E spot"] = 16
    assert limits(clients, "PREEMPTIBLE-TPU-V6E-per-project-region")["us-east5"] == 16


def test_all_quotas_are_listed(clients: Clients) -> None:
    found = {one.quota_id: one for one in clients.quotas.list_quota_infos(parent=QUOTAS)}
    assert found["TPUS-PER-TPU-FAMILY-per-project-region"].metric == "compute.googleapis.com/tpus_per_tpu_family"


def test_a_quota_that_is_unknown_is_not_found(clients: Clients) -> None:
    with pytest.raises(exceptions.NotFound):
        clients.quotas.get_quota_info(name=f"{QUOTAS}/quotaInfos/NOTHING")


def test_a_path_that_the_stand_in_does_not_have_is_said_to_be_so(clients: Clients) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match="The stand-in has no POST"):
        clients.clusters.start_ip_rotation(name=f"{REGION}/clusters/demo")


def test_each_api_may_have_an_endpoint_of_its_own(google: Google) -> None:
    clients = Clients(google, f"{google.endpoint}/{{service}}")
    clients.make_network()
    clients.make_cluster()
    clients.storage.create_bucket("demo-bucket").blob("one").upload_from_string("one")
    assert clients.projects.get_project(name=f"projects/{PROJECT}").project_id == PROJECT


def test_an_endpoint_of_one_api_does_not_answer_for_another(google: Google) -> None:
    clients = Clients(google, f"{google.endpoint}/cloudbuild")
    with pytest.raises(exceptions.MethodNotImplemented):
        clients.make_cluster()
