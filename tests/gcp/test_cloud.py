"""The clients of one project, and what happens without credentials."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import google.auth
import pytest
from google.auth import environment_vars
from google.auth.exceptions import DefaultCredentialsError

from driver.errors import DriverError
from driver.gcp import cloud as module
from driver.gcp.cloud import Cloud, connect
from tests.gcp.clients import PROJECT
from tests.gcp.faults import Refuse
from tests.gcp.tokens import ACCOUNT

COMPUTE = [
    *("networks", "subnetworks", "firewalls", "regions", "zones", "machine_types", "reservations"),
    *("compute_projects", "global_operations", "region_operations", "zone_operations"),
]
CLIENTS = [*COMPUTE, "clusters", "services", "projects", "repositories", "builds", "quotas"]


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_uses_the_one_endpoint(google, cloud, name):
    assert getattr(cloud, name).transport._host == google.endpoint


def test_the_storage_client_uses_the_one_endpoint(google, cloud):
    assert cloud.storage.api_endpoint == google.endpoint


def test_the_name_of_the_api_goes_into_the_endpoint(google):
    cloud = Cloud(PROJECT, "https://{service}-psc.p.googleapis.com", google.credentials())
    assert cloud.url("storage") == "https://storage-psc.p.googleapis.com"
    assert cloud.clusters.transport._host == "https://container-psc.p.googleapis.com"


def test_a_client_is_made_once_for_all_threads(google, monkeypatch):
    made = []
    both = threading.Barrier(8)

    def make(_cloud, _module, name, _service):
        made.append(name)
        return object()

    monkeypatch.setattr(Cloud, "_client", make)
    cloud = Cloud(PROJECT, google.endpoint, google.credentials())

    def use(_number):
        both.wait()
        return cloud.networks

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(use, range(8)))) == 1
    assert made == ["NetworksClient"]


def test_a_key_file_is_enough_to_connect(google, key_file, monkeypatch):
    monkeypatch.setenv(environment_vars.CREDENTIALS, str(key_file))
    cloud = connect(PROJECT, google.endpoint)
    assert str(cloud.project_number) == google.projects[PROJECT]
    assert cloud.account == ACCOUNT


def test_a_key_file_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv(environment_vars.CREDENTIALS, str(tmp_path / "none.json"))
    with pytest.raises(DriverError, match=r"none\.json was not found") as error:
        connect(PROJECT)
    assert "gcloud auth application-default login" in error.value.fix


def test_no_credentials_name_the_login(monkeypatch):
    def default(**_):
        raise DefaultCredentialsError("Your default credentials were not found. To set up Application ...")

    monkeypatch.setattr(google.auth, "default", default)
    with pytest.raises(DriverError, match="not found") as error:
        connect(PROJECT)
    assert error.value.fix.startswith("gcloud auth application-default login")


def test_calls_with_a_users_credentials_are_counted_against_the_project(monkeypatch, tmp_path):
    login = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    path = tmp_path / "adc.json"
    path.write_text(json.dumps(login))
    monkeypatch.setenv(environment_vars.CREDENTIALS, str(path))
    assert connect(PROJECT).credentials.quota_project_id == PROJECT
    path.write_text(json.dumps(login | {"quota_project_id": "another-one"}))
    assert connect(PROJECT).credentials.quota_project_id == "another-one"


@pytest.mark.parametrize(
    "endpoint",
    ["example.com", "ftp://example.com", "https://example.com/path", "https://user@example.com", "http://example.com"],
)
def test_an_endpoint_that_is_none_or_that_would_show_the_token_is_refused(endpoint):
    with pytest.raises(DriverError, match="API endpoint") as error:
        connect(PROJECT, endpoint)
    assert error.value.exit_code == 2


def test_reads_are_repeated_after_what_passes(google, cloud):
    google.faults.add(lambda method, path: method == "GET", Refuse.with_code(500))
    assert cloud.networks.get(project=PROJECT, network="default", retry=module.READS).name == "default"
    assert not google.faults.left
