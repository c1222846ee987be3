"""How callers are known."""

import json
from pathlib import Path
from typing import Any

import google.auth
import pytest
import requests
from google.auth import exceptions as auth_exceptions
from google.cloud import (
    compute_v1,
)
from google.cloud.storage import Client as StorageClient
from google.oauth2 import service_account

from tests.gcp.clients import PROJECT
from tests.gcp.google import Google
from tests.gcp.tokens import ACCOUNT


def networks(google_cloud: Google, credentials: Any) -> compute_v1.NetworksClient:
    options = {"api_endpoint": google_cloud.endpoint}
    return compute_v1.NetworksClient(credentials=credentials, client_options=options, transport="rest")


@pytest.fixture
def google_cloud(google: Google) -> Google:
    """The stand-in, where the name of Google's package is needed."""
    return google


def test_application_default_credentials_find_the_key(
    google_cloud: Google, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file))
    credentials, project = google.auth.default()
    assert project == PROJECT
    assert networks(google_cloud, credentials).get(project=PROJECT, network="default").name == "default"


def test_a_key_is_exchanged_for_a_token(google_cloud: Google, key_file: Path) -> None:
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    credentials = service_account.Credentials.from_service_account_file(str(key_file), scopes=scopes)
    client = StorageClient(
        project=PROJECT, credentials=credentials, client_options={"api_endpoint": google_cloud.endpoint}
    )
    assert list(client.list_buckets()) == []
    assert google_cloud.tokens.accounts[credentials.token] == ACCOUNT


def test_a_token_that_was_not_given_is_refused(google_cloud: Google) -> None:
    url = f"{google_cloud.endpoint}/compute/v1/projects/{PROJECT}/global/networks/default"
    reply = requests.get(url, headers={"authorization": "Bearer made-up"}, timeout=10)
    assert (reply.status_code, reply.json()["error"]["status"]) == (401, "UNAUTHENTICATED")


def test_a_key_of_somebody_else_is_refused(google_cloud: Google, key_file: Path) -> None:
    content = json.loads(key_file.read_text())
    other = json.loads(json.dumps(google_cloud.tokens.key_file(PROJECT)))
    content["private_key"] = other["private_key"]
    key_file.write_text(json.dumps(content))
    credentials = service_account.Credentials.from_service_account_file(
        str(key_file), scopes=["https://www.googleapis.com/auth/cloud-platform"]
    )
    with pytest.raises(auth_exceptions.RefreshError, match="invalid_grant"):
        StorageClient(
            project=PROJECT, credentials=credentials, client_options={"api_endpoint": google_cloud.endpoint}
        ).get_bucket("demo-bucket", retry=None)


def test_a_revoked_key_is_refused(google_cloud: Google, key_file: Path) -> None:
    google_cloud.tokens.revoked = True
    credentials = service_account.Credentials.from_service_account_file(
        str(key_file), scopes=["https://www.googleapis.com/auth/cloud-platform"]
    )
    with pytest.raises(auth_exceptions.RefreshError, match="invalid_grant"):
        StorageClient(
            project=PROJECT, credentials=credentials, client_options={"api_endpoint": google_cloud.endpoint}
        ).get_bucket("demo-bucket", retry=None)
