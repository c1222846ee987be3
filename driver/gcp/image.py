"""Builds the trainer's image with Cloud Build and pushes it to Artifact Registry, once per content.

The image's tag is the hash of what it is built from. So the same content is never built twice, and a build that was
left running is found again by the same command: it carries the tag too. There is no state on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.api_core.exceptions import AlreadyExists, BadRequest, NotFound, ServerError
from google.cloud.devtools.cloudbuild_v1 import (
    Build,
    BuildOptions,
    BuildStep,
    CreateBuildRequest,
    GetBuildRequest,
    ListBuildsRequest,
)
from requests.exceptions import RequestException

from driver.errors import DriverError
from driver.gcp import waiting as waits
from driver.gcp.build_failure import explain_failure
from driver.gcp.build_source import BuildSource
from driver.gcp.cloud import READS
from driver.gcp.kinds.repository import Repository

if TYPE_CHECKING:
    from driver.gcp.cloud import Cloud
    from driver.gcp.site import Site
    from driver.gcp.waiting import Waiting

NAME = "maxtext-trainer"
"""Of the image, and the start of the tag that its builds carry."""

BUILDER = "gcr.io/cloud-builders/docker"
"""Google's own step for docker; every machine of Cloud Build has it already."""

PERMISSIONS = (
    "artifactregistry.repositories.create",
    "artifactregistry.repositories.get",
    "artifactregistry.tags.get",
    "cloudbuild.builds.create",
    "cloudbuild.builds.get",
    "cloudbuild.builds.list",
)
"""What the caller needs in the project, beside iam.serviceAccounts.actAs on the build's own service account."""

_ENDED = ("SUCCESS", "FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED")


@dataclass(frozen=True)
class Settings:
    """How it is built.

    location: a region, or "global" for where the region's machines may not be used.
    machine_type: one of Cloud Build's; empty for its default.
    timeout_seconds: after which Cloud Build ends the build.
    service_account: the email of who runs the build; empty for the project's default.
    """

    location: str
    machine_type: str = ""
    timeout_seconds: int = 3600
    service_account: str = ""


@dataclass(frozen=True)
class Reference:
    """An image by its content: REGION-docker.pkg.dev/PROJECT/REPOSITORY/maxtext-trainer, and its tag."""

    name: str
    tag: str

    @property
    def tagged(self) -> str:
        return f"{self.name}:{self.tag}"

    def at(self, digest: str) -> str:
        """Fixed to the very bytes, which a tag is not."""
        return f"{self.name}@{digest}"


@dataclass
class Builder:
    """One content of one site. `began` is called with the build once there is one, be it new or found."""

    cloud: Cloud
    site: Site
    source: BuildSource
    settings: Settings
    began: Callable[[Build], None] = lambda _: None

    @property
    def reference(self) -> Reference:
        return Reference(f"{Repository(self.site).host_path}/{NAME}", self.source.hash)

    @property
    def build_tag(self) -> str:
        """What this content's builds carry. The repository is in it: two sites of one project may differ in that."""
        return f"{NAME}-{self.site.region}-{self.site.image.repository}-{self.source.hash}"

    def pushed_digest(self) -> str:
        """The digest ("sha256:...") of the image with this content; empty where it is not in the repository."""
        path = f"{Repository(self.site).path}/packages/{NAME}/tags/{self.source.hash}"
        try:
            tag = self.cloud.repositories.get_tag(name=path, retry=READS)
        except NotFound:
            return ""
        return tag.version.rpartition("/")[2]

    def ensure_repository(self, waiting: Waiting) -> bool:
        """Makes the repository if it is missing; whether it did.

        Raises a DriverError where one is there to which no image can be pushed.
        """
        repository = Repository(self.site)
        found = repository.describe(self.cloud)
        if found is None:
            try:
                repository.create(self.cloud, waiting)
                return True
            except AlreadyExists:
                # Somebody else made it meanwhile.
                found = repository.describe(self.cloud)
        if found is not None and found.differences:
            one = found.differences[0]
            raise DriverError(
                f"{repository.path} is a repository with {one.field} {one.found}.",
                rule=f"An image is pushed to one with {one.field} {one.wanted}.",
                fix="name another under image.repository in the site file",
            )
        return False

    def running(self) -> Build | None:
        """The newest build of this content that has not ended."""
        # project_id stays empty here and below: with it, the client takes the path without a location, and that one
        # knows only the builds of "global".
        request = ListBuildsRequest(parent=self._parent, filter=f'tags="{self.build_tag}"')
        for build in self.cloud.builds.list_builds(request=request, retry=READS):
            if self.build_tag in build.tags and build.status.name not in _ENDED:
                return build
        return None

    def submit(self) -> Build:
        """Starts a build. Raises Google's errors, a DriverError where the location may not be used."""
        request = CreateBuildRequest(parent=self._parent, build=self._build())
        try:
            operation = self.cloud.builds.create_build(request=request)
        except BadRequest as error:
            raise self._not_here(error) from error
        except (ServerError, RequestException):
            # The answer was lost, and the build may run all the same.
            begun = self.running()
            if begun is None:
                raise
            return begun
        return operation.metadata.build

    def follow(self, build: Build, waiting: Waiting) -> str:
        """Waits until the build has ended, and returns the image's digest.

        Raises a DriverError when it failed, WaitStoppedError when the user stopped waiting.
        """
        name = f"{self._parent}/builds/{build.id}"
        began = time.monotonic()
        while build.status.name not in _ENDED:
            waiting.tell(f"{_STATUS_WORDS[build.status.name]}, waited {(time.monotonic() - began) / 60:.0f} min")
            waiting.pause(waits.POLL_SECONDS)
            build = self.cloud.builds.get_build(request=GetBuildRequest(name=name), retry=READS)
        if build.status.name != "SUCCESS":
            raise explain_failure(build, self.cloud, self.site, self.settings.location)
        for image in build.results.images:
            if image.name == self.reference.tagged:
                return image.digest
        raise DriverError(
            f"Build {build.id} succeeded and does not say which digest it pushed as {self.reference.tagged}.",
            fix=f"look at {build.log_url}, then driver image --rebuild",
        )

    def _not_here(self, error: BadRequest) -> Exception:
        """New projects may not build in every region, which Google says in one of its sentences only."""
        if "builds in this region" not in str(error):
            return error
        return DriverError(
            f"Cloud Build does not let {self.site.project} build in {self.settings.location}: {error.message}",
            rule="Where the build runs and where its image goes need not be the same place.",
            fix="driver image --build-location global",
        )

    @property
    def _parent(self) -> str:
        return f"projects/{self.site.project}/locations/{self.settings.location}"

    def _build(self) -> Build:
        options: dict[str, Any] = {
            # Without this, logs go to a bucket of Google's that accounts of one's own may not write to.
            "logging": BuildOptions.LoggingMode.CLOUD_LOGGING_ONLY,
        }
        if self.settings.machine_type:
            options["machine_type"] = self.settings.machine_type.upper().replace("-", "_")
        account = self.settings.service_account
        return Build(
            steps=[
                BuildStep(id="unpack", name=BUILDER, script=self.source.unpack_script()),
                # --pull, because a machine may have an older image of the Dockerfile's FROM.
                BuildStep(id="build", name=BUILDER, args=["build", "--pull", f"--tag={self.reference.tagged}", "."]),
            ],
            images=[self.reference.tagged],
            tags=[self.build_tag],
            timeout={"seconds": self.settings.timeout_seconds},
            options=BuildOptions(**options),
            service_account=f"projects/{self.site.project}/serviceAccounts/{account}" if account else "",
        )


@dataclass(frozen=True)
class Image:
    """What came of it. uri: fixed to a digest, empty where the build still runs; build: None where none was needed."""

    uri: str
    tagged: str
    build: Build | None = None
    repository_made: bool = False


def make(builder: Builder, waiting: Waiting, *, rebuild: bool = False, detach: bool = False) -> Image:
    """The image in the repository: found there, or built now.

    rebuild: builds it although it is there, for a newer base image.
    detach: returns as soon as a build runs.
    Raises Google's errors, a DriverError when the build failed, WaitStoppedError.
    """
    tagged = builder.reference.tagged
    made = builder.ensure_repository(waiting)
    build = builder.running()
    if build is None:
        digest = "" if rebuild else builder.pushed_digest()
        if digest:
            return Image(builder.reference.at(digest), tagged, repository_made=made)
        build = builder.submit()
    builder.began(build)
    if detach:
        return Image("", tagged, build, made)
    return Image(builder.reference.at(builder.follow(build, waiting)), tagged, build, made)


_STATUS_WORDS = {
    "PENDING": "not queued yet",
    "QUEUED": "queued",
    "WORKING": "building",
    "STATUS_UNKNOWN": "in a state that Cloud Build does not tell",
}
