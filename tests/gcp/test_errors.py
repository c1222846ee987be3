"""Google's errors in the words of the driver. What Google sends is read by its own client libraries."""

import io
import json

import pytest
import requests
from google.api_core import exceptions
from google.auth.exceptions import RefreshError, TransportError

from driver.errors import DriverError
from driver.gcp import errors
from tests.gcp.errors import GoogleError, permission_denied, service_disabled, unknown_project
from tests.gcp.faults import PASSING, STOCK_OUT
from tests.gcp.sites import site

SITE = site()


def received(error: GoogleError) -> exceptions.GoogleAPICallError:
    """As the clients raise it."""
    response = requests.Response()
    response.status_code = error.code
    response.request = requests.Request("POST", "https://api/x").prepare()
    response.raw = io.BytesIO(json.dumps(error.as_json()).encode())
    return exceptions.from_http_response(response)


def explained(error: GoogleError) -> DriverError:
    return errors.explain(received(error), "creating VPC network n", SITE)


@pytest.mark.parametrize("service", ["compute.googleapis.com", "container.googleapis.com", "iam.googleapis.com"])
def test_a_missing_permission_is_named_with_the_grant(service):
    error = explained(permission_denied("compute.networks.create", "projects/demo-project", service))
    assert "compute.networks.create" in error.rule
    assert "gcloud projects add-iam-policy-binding demo-project" in error.fix
    assert "--role=roles/compute.networkAdmin" in error.fix


def test_a_refusal_of_cloud_storage_names_the_permission_too():
    message = "me@example.com does not have storage.buckets.create access to the Google Cloud project."
    error = explained(GoogleError("PERMISSION_DENIED", message, legacy="forbidden"))
    assert "storage.buckets.create" in error.rule
    assert "--role=roles/storage.admin" in error.fix


def test_an_api_that_is_off_is_named_with_the_command_that_enables_it():
    error = explained(service_disabled("compute.googleapis.com", "Compute Engine API", "demo-project", "42"))
    assert "compute.googleapis.com is not enabled" in error.found
    assert "gcloud services enable compute.googleapis.com --project=demo-project" in error.fix


@pytest.mark.parametrize("service", ["compute.googleapis.com", "storage.googleapis.com", "container.googleapis.com"])
def test_a_project_that_is_not_there_is_said_to_be_missing(service):
    error = explained(unknown_project(service, "demo-project"))
    assert "project demo-project does not exist" in error.found
    assert "gcloud projects list" in error.fix


def test_a_network_that_is_not_there_is_no_missing_project():
    gone = GoogleError("NOT_FOUND", "The resource 'projects/demo-project/global/networks/n' was not found")
    assert "does not exist, or you may not" not in explained(gone).found


def test_a_stock_out_names_what_to_try_instead():
    error = explained(STOCK_OUT)
    assert "us-east5-b has no free machines" in error.found
    for way in ("zone:", "spot", "flex-start", "reservation"):
        assert way in error.fix
    assert "tpu.capacity: on-demand" not in error.fix  # that is what has none


def test_a_stock_out_names_the_zones_that_google_names():
    message = (
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: The zone 'projects/p/zones/us-east5-b' does not have enough "
        "resources available to fulfill the request. Consider trying your request in the us-east5-c, us-east1-d zone(s)"
    )
    error = explained(GoogleError("UNAVAILABLE", message))
    assert "zone: us-east1-d or us-east5-c" in error.fix
    assert "us-east5-b" not in error.fix


@pytest.mark.parametrize(
    "message",
    [
        "Quota 'NETWORKS' exceeded.  Limit: 5.0 globally.",
        "Insufficient regional quota to satisfy request: resource \"CPUS\": request requires '16.0' and is short '8.0'",
    ],
)
def test_a_quota_is_told_from_a_missing_permission(message):
    error = explained(GoogleError("PERMISSION_DENIED", message))
    assert "quota does not allow" in error.rule
    assert "iam-admin/quotas?project=demo-project" in error.fix


def test_too_many_calls_are_no_quota_of_machines():
    assert "how many calls" in explained(PASSING[429]).rule


def test_a_project_without_billing_is_told_so():
    error = explained(GoogleError("PERMISSION_DENIED", "This API method requires billing.", reason="BILLING_DISABLED"))
    assert "gcloud billing projects link demo-project" in error.fix


def test_a_name_that_is_taken_is_told_so():
    assert "The name is taken" in explained(GoogleError("ALREADY_EXISTS", "The resource 'n' already exists")).rule


def test_credentials_that_have_expired_name_the_login():
    error = errors.explain(RefreshError("invalid_grant: Token has been expired or revoked."), "reading", SITE)
    assert error.fix.startswith("gcloud auth application-default login")


@pytest.mark.parametrize("error", [TransportError("no route"), requests.ConnectionError("refused"), requests.Timeout()])
def test_no_connection_says_that_nothing_is_lost(error):
    assert "carries on" in errors.explain(error, "reading", SITE).rule


def test_a_certificate_that_is_not_trusted_is_told_from_no_connection():
    assert "REQUESTS_CA_BUNDLE" in errors.explain(requests.exceptions.SSLError("self-signed"), "reading", SITE).fix


def test_the_cause_of_a_retry_that_gave_up_is_what_is_explained():
    error = exceptions.RetryError("Timeout of 60.0s exceeded", received(PASSING[503]))
    assert "fault of Google Cloud's" in errors.explain(error, "reading", SITE).rule


def test_a_drivers_own_error_stays_as_it_is():
    error = DriverError("x")
    assert errors.explain(error, "reading", SITE) is error


def test_a_mistake_of_the_drivers_own_is_not_explained_away():
    with pytest.raises(ZeroDivisionError):
        errors.explain(ZeroDivisionError(), "reading", SITE)


def test_what_google_says_is_one_line_without_the_address():
    assert errors.said(exceptions.NotFound("GET https://x/y?z: The thing\nis gone")) == "The thing is gone"


@pytest.mark.parametrize("code", [409, 429, 500, 503, 504])
def test_what_passes_is_tried_again(code):
    assert errors.passes(received(PASSING[code]))


@pytest.mark.parametrize(
    "error",
    [
        STOCK_OUT,
        GoogleError("RESOURCE_EXHAUSTED", "Insufficient quota", reason="QUOTA_EXCEEDED"),
        permission_denied("compute.networks.create", "p", "compute.googleapis.com"),
        GoogleError("INVALID_ARGUMENT", "Invalid value for field 'resource.mtu'"),
    ],
)
def test_what_does_not_pass_is_not_tried_again(error):
    assert not errors.passes(received(error))


def test_compute_engines_own_rate_limit_is_tried_again():
    assert errors.passes(received(GoogleError("PERMISSION_DENIED", "Rate Limit Exceeded", legacy="rateLimitExceeded")))


def test_an_api_that_was_just_enabled_is_tried_again():
    assert errors.passes(received(service_disabled("compute.googleapis.com", "Compute", "demo-project", "42")))


def test_a_busy_cluster_is_tried_again():
    busy = "Cluster is running incompatible operation operation-1700000000000-abc."
    assert errors.passes(received(GoogleError("FAILED_PRECONDITION", busy)))


def test_a_broken_connection_is_tried_again_and_a_bad_certificate_is_not():
    assert errors.passes(requests.ConnectionError("reset"))
    assert not errors.passes(requests.exceptions.SSLError("self-signed"))
