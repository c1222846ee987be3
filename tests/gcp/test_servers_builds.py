"""The stand-ins for Artifact Registry and Cloud Build."""

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import artifactregistry_v1
from google.cloud.devtools import cloudbuild_v1

from tests.gcp import faults
from tests.gcp.clients import PROJECT, REGION, Clients
from tests.gcp.errors import GoogleError
from tests.gcp.google import Google

IMAGE = f"us-east5-docker.pkg.dev/{PROJECT}/images/trainer:1"
Status = cloudbuild_v1.Build.Status


def make_repository(clients: Clients) -> Any:
    repository = artifactregistry_v1.Repository(format_="DOCKER", labels={"team": "a"})
    request = {"parent": REGION, "repository_id": "images", "repository": repository}
    return clients.repositories.create_repository(request=request)


def build(clients: Clients, **fields: Any) -> Any:
    wanted = {"steps": [{"name": "gcr.io/cloud-builders/docker", "args": ["build", "."]}], "images": [IMAGE]}
    return clients.builds.create_build(project_id=PROJECT, build=cloudbuild_v1.Build(wanted | fields))


def test_a_repository_is_there_when_its_operation_is_done(clients: Clients) -> None:
    made = make_repository(clients).result(timeout=10)
    found = clients.repositories.get_repository(name=f"{REGION}/repositories/images")
    assert found.name == made.name
    assert (found.format_.name, found.labels) == ("DOCKER", {"team": "a"})


def test_a_repository_that_exists_is_not_made_again(clients: Clients) -> None:
    make_repository(clients).result(timeout=10)
    with pytest.raises(exceptions.Conflict):
        make_repository(clients)


def test_a_deleted_repository_is_gone_with_its_images(google: Google, clients: Clients) -> None:
    before = google.state()
    make_repository(clients).result(timeout=10)
    build(clients).result(timeout=10)
    clients.repositories.delete_repository(name=f"{REGION}/repositories/images").result(timeout=10)
    assert not [name for name in google.state() if name not in before and "/builds/" not in name]


def test_a_build_ends_with_the_digest_of_its_image(clients: Clients) -> None:
    make_repository(clients).result(timeout=10)
    done = build(clients).result(timeout=10)
    assert done.status == Status.SUCCESS
    assert done.results.images[0].name == IMAGE
    assert done.results.images[0].digest.startswith("sha256:")
    images = clients.repositories.list_docker_images(parent=f"{REGION}/repositories/images")
    assert [one.uri.rpartition("@")[2] for one in images] == [done.results.images[0].digest]


def test_a_build_works_until_its_operation_is_done(google: Google, clients: Clients) -> None:
    google.delays["build"] = 3600
    running = build(clients).metadata.build
    assert clients.builds.get_build(project_id=PROJECT, id=running.id).status == Status.WORKING
    clients.builds.cancel_build(project_id=PROJECT, id=running.id)
    assert clients.builds.get_build(project_id=PROJECT, id=running.id).status == Status.CANCELLED


def test_a_build_without_its_repository_fails(clients: Clients) -> None:
    with pytest.raises(exceptions.GoogleAPICallError, match='Repository "images" not found'):
        build(clients).result(timeout=10)


def test_a_build_without_its_source_fails(clients: Clients) -> None:
    make_repository(clients).result(timeout=10)
    clients.storage.create_bucket("sources")
    running = build(clients, source={"storage_source": {"bucket": "sources", "object_": "context.tgz"}})
    with pytest.raises(exceptions.GoogleAPICallError, match="could not fetch source"):
        running.result(timeout=10)


def test_a_build_fails_as_a_fault_says(google: Google, clients: Clients) -> None:
    google.faults.add(1, faults.Fail(GoogleError("INTERNAL", "build step 0 failed: exit status 1")))
    running = build(clients)
    with pytest.raises(exceptions.GoogleAPICallError, match="exit status 1"):
        running.result(timeout=10)
    assert clients.builds.get_build(project_id=PROJECT, id=running.metadata.build.id).status == Status.FAILURE
