"""The Docker repository in Artifact Registry that holds the trainer's image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from google.api_core.exceptions import NotFound

from driver.gcp.cloud import READS, found_or_none
from driver.gcp.operations import finish_long_running
from driver.gcp.resource import MARK, Command, Difference, Found, Permissions, Resource, pairs

if TYPE_CHECKING:
    from google.cloud import artifactregistry_v1 as artifactregistry

    from driver.gcp.cloud import Cloud
    from driver.gcp.site import Site
    from driver.gcp.waiting import Waiting


class Repository(Resource):
    """In the site's region, so that hosts pull from nearby and nothing is paid for the way.

    It is `shared`: an image may be pushed to any Docker repository that the site file names, but only one that carries
    this site's mark is ever deleted.
    """

    kind: ClassVar[str] = "Docker repository"
    shared: ClassVar[bool] = True
    permissions: ClassVar[Permissions] = Permissions(
        describe=("artifactregistry.repositories.get",),
        create=("artifactregistry.repositories.create",),
        delete=("artifactregistry.repositories.list", "artifactregistry.repositories.delete"),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site, site.image.repository)

    @property
    def parent(self) -> str:
        """As Artifact Registry calls the region of a project."""
        return f"projects/{self.site.project}/locations/{self.site.region}"

    @property
    def path(self) -> str:
        """As Artifact Registry's API calls it."""
        return f"{self.parent}/repositories/{self.name}"

    @property
    def host_path(self) -> str:
        """As images in it are called: REGION-docker.pkg.dev/PROJECT/REPOSITORY."""
        # A domain-scoped project (example.com:name) is two parts of the path.
        project = self.site.project.replace(":", "/")
        return f"{self.site.region}-docker.pkg.dev/{project}/{self.name}"

    def wanted(self) -> Mapping[str, Any]:
        return {"format": "DOCKER", "mode": "STANDARD_REPOSITORY", "location": self.site.region}

    def describe(self, cloud: Cloud) -> Found | None:
        found = found_or_none(lambda: cloud.repositories.get_repository(name=self.path, retry=READS))
        if found is None:
            return None
        return Found(ours=self.is_ours(found.labels), differences=tuple(_differences(found)))

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        # Bootstrap and preflight know this kind and make none: they need not wait a second for its classes.
        from google.cloud import artifactregistry_v1 as artifactregistry

        repository = artifactregistry.Repository(
            format_=artifactregistry.Repository.Format.DOCKER,
            mode=artifactregistry.Repository.Mode.STANDARD_REPOSITORY,
            labels=self.labels,
            description="Images for training with MaxText on multislice TPUs.",
        )
        operation = cloud.repositories.create_repository(
            parent=self.parent, repository_id=self.name, repository=repository
        )
        finish_long_running(operation, waiting, f"making {self.key}")

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        try:
            operation = cloud.repositories.delete_repository(name=self.path)
            finish_long_running(operation, waiting, f"deleting {self.key}")
        except NotFound:
            return

    def gcloud(self) -> Sequence[Command]:
        return [
            Command(
                (
                    "gcloud", "artifacts", "repositories", "create", self.name, f"--project={self.site.project}",
                    f"--location={self.site.region}", "--repository-format=docker", f"--labels={pairs(self.labels)}",
                ),
                "The repository of the trainer's image.",
            )
        ]  # fmt: skip

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Resource]:
        every = cloud.repositories.list_repositories(parent=cls(site).parent, retry=READS)
        names = [found.name.rpartition("/")[2] for found in every if found.labels.get(MARK) == site.id]
        return [cls._named(site, name) for name in names]

    @classmethod
    def _named(cls, site: Site, name: str) -> Repository:
        image = site.image.model_copy(update={"repository": name})
        return cls(site.model_copy(update={"image": image}))


def _differences(found: artifactregistry.Repository) -> Iterable[Difference]:
    if found.format_.name != "DOCKER":
        yield Difference("format", found.format_.name, "DOCKER")
    # Repositories of before the modes have none, and are standard ones.
    if found.mode.name not in ("STANDARD_REPOSITORY", "MODE_UNSPECIFIED"):
        yield Difference("mode", found.mode.name, "STANDARD_REPOSITORY")
