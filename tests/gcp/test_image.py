"""The trainer's image: built once per content, found again, and pushed where the site wants it."""

import threading
from typing import Any

import pytest

from driver import resources
from driver.errors import DriverError
from driver.gcp import build_source, image
from driver.gcp.cloud import Cloud
from driver.gcp.kinds.repository import Repository
from driver.gcp.site import Site
from driver.gcp.waiting import Waiting, WaitStoppedError
from tests.gcp.clients import PROJECT
from tests.gcp.errors import GoogleError
from tests.gcp.faults import Answer, Cut, Fail, Refuse
from tests.gcp.sites import site

SITE = site()
BUILDS = f"projects/{PROJECT}/locations/us-east5/builds/"
REPOSITORY = f"projects/{PROJECT}/locations/us-east5/repositories/maxtext-multislice"


def builder(google, of: Site = SITE, **settings) -> image.Builder:
    cloud = Cloud(of.project, google.endpoint, google.credentials())
    source = build_source.pack(resources.trainer_dir())
    return image.Builder(cloud, of, source, image.Settings(**{"location": of.region, **settings}))


def builds(google) -> list[dict[str, Any]]:
    return [one for name, one in google.resources.items() if "/builds/" in name]


def is_create(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/builds")


def test_it_is_built_from_the_source_and_named_by_its_digest(google):
    one = builder(google)
    made = image.make(one, Waiting())
    (build,) = builds(google)
    name = f"us-east5-docker.pkg.dev/{PROJECT}/maxtext-multislice/maxtext-trainer"
    assert made.uri == f"{name}@{build['results']['images'][0]['digest']}"
    assert build["images"] == [f"{name}:{one.source.hash}"]
    assert build["steps"][0]["script"] == one.source.unpack_script()


def test_the_build_runs_in_the_sites_region(google):
    image.make(builder(google), Waiting())
    assert [name for name in google.resources if name.startswith(BUILDS)]


def test_the_repository_is_made_with_the_sites_mark(google):
    assert image.make(builder(google), Waiting()).repository_made
    assert google.resources[REPOSITORY]["labels"]["maxtext-multislice"] == SITE.id
    assert google.resources[REPOSITORY]["format"] == "DOCKER"


def test_a_repository_of_somebody_else_is_used_and_left_as_it_is(google):
    theirs = {"name": REPOSITORY, "format": "DOCKER", "mode": "STANDARD_REPOSITORY", "labels": {"team": "a"}}
    google.resources[REPOSITORY] = dict(theirs)
    made = image.make(builder(google), Waiting())
    assert made.uri
    assert not made.repository_made
    assert google.resources[REPOSITORY] == theirs


@pytest.mark.parametrize(
    ("field", "value"), [("format", "PYTHON"), ("mode", "REMOTE_REPOSITORY"), ("mode", "VIRTUAL_REPOSITORY")]
)
def test_a_repository_that_takes_no_images_is_refused_before_a_build(google, field, value):
    google.resources[REPOSITORY] = {"name": REPOSITORY, "format": "DOCKER", "mode": "STANDARD_REPOSITORY", field: value}
    with pytest.raises(DriverError, match=value):
        image.make(builder(google), Waiting())
    assert google.mutating_calls == []


def test_the_same_content_is_not_built_again(google):
    first = image.make(builder(google), Waiting())
    before = len(google.mutating_calls)
    second = image.make(builder(google), Waiting())
    assert second.uri == first.uri
    assert second.build is None
    assert len(google.mutating_calls) == before


def test_rebuild_builds_what_is_there(google):
    image.make(builder(google), Waiting())
    assert image.make(builder(google), Waiting(), rebuild=True).uri
    assert len(builds(google)) == 2


def test_a_detached_build_is_found_again_and_waited_for(google):
    google.delays["build"] = 3600
    detached = image.make(builder(google), Waiting(), detach=True)
    assert detached.uri == ""
    google.finish_all()
    found = image.make(builder(google), Waiting())
    assert found.uri.rpartition("@")[2] == builds(google)[0]["results"]["images"][0]["digest"]
    assert len(builds(google)) == 1


def test_a_build_that_runs_is_joined(google):
    google.delays["build"] = 3600
    image.make(builder(google), Waiting(), detach=True)
    joined = builder(google)
    joined.began = lambda build: google.finish_all()
    assert image.make(joined, Waiting()).uri
    assert len(builds(google)) == 1


def test_builds_of_another_repository_are_not_taken_for_ours(google):
    google.delays["build"] = 3600
    image.make(builder(google, site(image={"repository": "other"})), Waiting(), detach=True)
    image.make(builder(google), Waiting(), detach=True)
    assert len(builds(google)) == 2


def test_waiting_can_be_stopped_and_the_build_goes_on(google):
    google.delays["build"] = 3600
    stop = threading.Event()
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if text.startswith("building"):
            stop.set()

    with pytest.raises(WaitStoppedError):
        image.make(builder(google), Waiting(tell, stop))
    assert "building" in [text.partition(",")[0] for text in told]
    google.finish_all()
    assert builds(google)[0]["status"] == "SUCCESS"


@pytest.mark.parametrize("fault", [Cut(), Answer(Refuse.with_code(503).error)], ids=["cut", "503"])
def test_a_lost_answer_does_not_begin_a_second_build(google, fault):
    google.delays["build"] = 0.3
    google.faults.add(is_create, fault)
    assert image.make(builder(google), Waiting()).uri
    assert google.faults.left == 0
    assert len(builds(google)) == 1


def test_a_build_that_was_not_begun_raises_googles_error(google):
    google.faults.add(is_create, Refuse.with_code(503))
    with pytest.raises(Exception, match="currently unavailable"):
        image.make(builder(google), Waiting())
    assert builds(google) == []


def test_a_region_that_may_not_be_used_is_told_with_another_place(google):
    said = "due to quota restrictions, cannot run builds in this region. Please contact support"
    google.faults.add(is_create, Refuse(GoogleError("FAILED_PRECONDITION", said)))
    with pytest.raises(DriverError) as told:
        image.make(builder(google), Waiting())
    assert "--build-location global" in told.value.fix


@pytest.mark.parametrize("code", [429, 500, 503])
def test_reads_are_asked_again(google, code):
    google.faults.add(lambda method, path: method == "GET", Refuse.with_code(code), times=2)
    assert image.make(builder(google), Waiting()).uri


def test_settings_arrive_in_the_build(google):
    account = f"maxtext-build@{PROJECT}.iam.gserviceaccount.com"
    one = builder(google, machine_type="e2-highcpu-8", timeout_seconds=1200, service_account=account)
    image.make(one, Waiting())
    (build,) = builds(google)
    assert build["options"] == {"machineType": "E2_HIGHCPU_8", "logging": "CLOUD_LOGGING_ONLY"}
    assert build["timeout"] == "1200s"
    assert build["serviceAccount"] == f"projects/{PROJECT}/serviceAccounts/{account}"


def test_a_build_elsewhere_still_pushes_to_the_sites_region(google):
    made = image.make(builder(google, location="global"), Waiting())
    assert made.uri.startswith("us-east5-docker.pkg.dev/")
    assert [name for name in google.resources if f"projects/{PROJECT}/locations/global/builds/" in name]


def failure(google, status: str = "FAILURE", **facts) -> DriverError:
    """What is told of a build that ended so. facts: of the build, as Cloud Build has them."""
    google.delays["build"] = 3600
    failing = builder(google)

    def end(_build) -> None:
        google.finish_all()
        build = builds(google)[-1]
        del build["results"]
        build |= {"status": status, **facts}

    failing.began = end
    with pytest.raises(DriverError) as told:
        image.make(failing, Waiting())
    google.delays.clear()
    return told.value


def test_a_failed_step_is_named_with_the_log(google):
    steps = [{"id": "unpack", "status": "SUCCESS"}, {"id": "build", "status": "FAILURE", "exitCode": 1}]
    told = failure(google, steps=steps, failureInfo={"type": "USER_BUILD_STEP", "detail": "build step 1 failed"})
    assert "step 2 (build) ended as FAILURE with exit code 1" in told.found
    assert "https://console.cloud.google.com/cloud-build/builds;region=us-east5/" in told.rule


DENIED = {"type": "PUSH_NOT_AUTHORIZED", "detail": "denied"}


def test_a_push_that_is_not_allowed_names_the_grant_on_the_repository(google):
    account = f"{google.projects[PROJECT]}-compute@developer.gserviceaccount.com"
    assert failure(google, failureInfo=DENIED).fix.startswith(
        f"gcloud artifacts repositories add-iam-policy-binding maxtext-multislice --project={PROJECT} "
        f"--location=us-east5 --member=serviceAccount:{account} --role=roles/artifactregistry.writer"
    )


def test_a_push_that_dockers_own_words_refuse_is_known_too(google):
    said = 'denied: Permission "artifactregistry.repositories.uploadArtifacts" denied on resource'
    told = failure(google, failureInfo={"type": "PUSH_FAILED", "detail": said})
    assert "--role=roles/artifactregistry.writer" in told.fix


def test_the_grant_is_for_the_account_that_ran_the_build(google):
    account = f"maxtext-build@{PROJECT}.iam.gserviceaccount.com"
    told = failure(
        google,
        failureInfo={"type": "LOGGING_FAILURE"},
        serviceAccount=f"projects/{PROJECT}/serviceAccounts/{account}",
    )
    assert f"--member=serviceAccount:{account} --role=roles/logging.logWriter" in told.fix


def test_the_grant_says_how_to_find_the_account_where_google_does_not_tell_it(google):
    google.faults.add(lambda method, path: path.endswith("defaultServiceAccount"), Refuse.with_code(409))
    told = failure(google, failureInfo=DENIED)
    assert f"gcloud builds get-default-service-account --project={PROJECT} --region=us-east5" in told.fix


def test_a_build_that_took_too_long_is_told_with_a_longer_time(google):
    told = failure(google, "TIMEOUT", timeout="1200s")
    assert "took longer than it may" in told.found
    assert "--timeout-minutes 40" in told.fix


@pytest.mark.parametrize(
    ("status", "words"),
    [("CANCELLED", "was cancelled"), ("INTERNAL_ERROR", "inside Cloud Build"), ("EXPIRED", "waited too long")],
)
def test_builds_that_ended_otherwise_say_so(google, status, words):
    assert words in failure(google, status).found


def test_after_a_failure_the_same_command_builds_again(google):
    google.faults.add(is_create, Fail(GoogleError("INTERNAL", "ended")))
    with pytest.raises(DriverError):
        image.make(builder(google), Waiting())
    assert image.make(builder(google), Waiting()).uri


def test_a_domains_project_is_two_parts_of_the_images_name(google):
    reference = builder(google, site(project="example.com:demo-project")).reference
    assert reference.name == "us-east5-docker.pkg.dev/example.com/demo-project/maxtext-multislice/maxtext-trainer"


def test_teardown_finds_the_repository_by_its_mark_under_any_name(cloud):
    for name in ("maxtext-multislice", "renamed"):
        Repository(site(image={"repository": name})).create(cloud, Waiting())
    other = site(cluster={"name": "another"}, image={"repository": "theirs"})
    Repository(other).create(cloud, Waiting())
    marked = Repository.marked(SITE, cloud)
    assert [one.name for one in marked] == ["maxtext-multislice", "renamed"]
    for one in marked:
        one.delete(cloud, Waiting())
    assert [one.name for one in Repository.marked(other, cloud)] == ["theirs"]
    assert Repository.marked(SITE, cloud) == []


def test_a_repository_that_is_gone_already_is_no_error(cloud):
    Repository(SITE).delete(cloud, Waiting())
