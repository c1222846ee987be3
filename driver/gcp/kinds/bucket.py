"""The bucket with data, checkpoints and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from google.api_core import exceptions

from driver.errors import DriverError
from driver.gcp.cloud import READS, Cloud
from driver.gcp.resource import Command, Difference, Found, Permissions, Resource, pairs
from driver.gcp.site import Site
from driver.gcp.waiting import Waiting

DELETES_AT_ONCE = 16
ROUNDS = 3
"""How often the bucket is emptied when something still writes to it."""


class Bucket(Resource):
    """In the site's region, for the site's service account only: no access lists of single objects, nothing public."""

    kind = "bucket"
    permissions = Permissions(
        describe=("storage.buckets.get", "storage.buckets.list", "resourcemanager.projects.get"),
        create=("storage.buckets.create", "storage.buckets.get"),
        update=("storage.buckets.update", "storage.buckets.get"),
        delete=(
            *("storage.buckets.delete", "storage.buckets.get", "storage.objects.list", "storage.objects.delete"),
            *("storage.folders.list", "storage.folders.delete"),
        ),
    )

    def __init__(self, site: Site, *, name: str = "") -> None:
        """name: another one than the site file's, as an earlier site file had it."""
        super().__init__(site, name or site.bucket.name, existing=site.bucket.existing and not name)

    @property
    def key(self) -> str:
        return f"bucket gs://{self.name}"

    def wanted(self) -> Mapping[str, Any]:
        return {
            "location": self.site.region,
            "storageClass": "STANDARD",
            "uniformAccess": True,
            "publicAccessPrevention": "enforced",
            "hierarchicalNamespace": self.site.bucket.hierarchical_namespace,
        }

    def describe(self, cloud: Cloud) -> Found | None:
        """details: `hierarchicalNamespace`, whether it has one, and `location`, such as us-east5 or us: an existing
        bucket works whatever they are, and preflight warns of what is slow.

        Raises a DriverError when the bucket is there and may not be seen: names are shared by all of Google Cloud.
        """
        try:
            there = cloud.storage.get_bucket(self.name, retry=READS)
        except exceptions.NotFound:
            return None
        except exceptions.Forbidden as error:
            raise self._not_ours_to_see(cloud) from error
        differences = [] if self.existing else list(self._differences(there))
        in_our_project = int(there.project_number) == cloud.project_number
        if not in_our_project and not self.existing:
            differences.insert(0, Difference("project", f"number {there.project_number}", self.site.project))
        return Found(
            ours=in_our_project and self.is_ours(there.labels),
            differences=tuple(differences),
            details={
                "hierarchicalNamespace": bool(there.hierarchical_namespace_enabled),
                "location": there.location.lower(),
            },
        )

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        bucket = cloud.storage.bucket(self.name)
        bucket.labels = self.labels
        bucket.storage_class = "STANDARD"
        bucket.hierarchical_namespace_enabled = self.site.bucket.hierarchical_namespace
        _close(bucket)
        cloud.storage.create_bucket(bucket, location=self.site.region, project=self.site.project)

    def update(self, cloud: Cloud, found: Found, waiting: Waiting) -> None:
        bucket = cloud.storage.get_bucket(self.name, retry=READS)
        _close(bucket)
        bucket.patch(if_metageneration_match=bucket.metageneration)

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        """Deletes all objects, all versions of them and all folders, then the bucket.

        Google keeps deleted objects for as long as the bucket's soft delete says (seven days, unless changed).
        Raises Google's conflict when objects are written as fast as they are deleted.
        """
        rounds = 0

        def gone() -> bool:
            nonlocal rounds
            rounds += 1
            try:
                bucket = cloud.storage.get_bucket(self.name, retry=READS)
                _delete_objects(bucket, waiting)
                if bucket.hierarchical_namespace_enabled:
                    _delete_folders(cloud, self.name, waiting)
                bucket.delete()
            except exceptions.NotFound:
                return True
            except exceptions.Conflict:
                if rounds == ROUNDS:
                    raise
                return False
            return True

        waiting.until(gone, f"deleting {self.key}, to which something still writes")

    def gcloud(self) -> Sequence[Command]:
        address = f"gs://{self.name}"
        create = (
            *("gcloud", "storage", "buckets", "create", address),
            f"--project={self.site.project}",
            "--default-storage-class=STANDARD",
            f"--location={self.site.region}",
            "--uniform-bucket-level-access",
            "--public-access-prevention",
            *(["--enable-hierarchical-namespace"] if self.site.bucket.hierarchical_namespace else []),
        )
        mark = ("gcloud", "storage", "buckets", "update", address, f"--update-labels={pairs(self.labels)}")
        return [
            Command(create, "The tutorial's gsutil mb is an older tool for the same."),
            Command(mark, "gcloud cannot set labels when it creates a bucket."),
        ]

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Bucket]:
        listed = [(cls(site, name=one.name), one) for one in cloud.storage.list_buckets(retry=READS)]
        return [bucket for bucket, one in listed if bucket.is_ours(one.labels)]

    def _differences(self, there: Any) -> Iterable[Difference]:
        location = there.location.lower()
        if location != self.site.region:
            yield Difference("location", location, self.site.region)
        hierarchical = bool(there.hierarchical_namespace_enabled)
        if hierarchical != self.site.bucket.hierarchical_namespace:
            yield Difference("hierarchical namespace", _on(hierarchical), _on(not hierarchical))
        if there.storage_class != "STANDARD":
            yield Difference("storage class", there.storage_class, "STANDARD")
        access = there.iam_configuration
        if not access.uniform_bucket_level_access_enabled:
            yield Difference("uniform access", "off", "on", True)
        if access.public_access_prevention != "enforced":
            yield Difference("public access prevention", access.public_access_prevention, "enforced", True)

    def _not_ours_to_see(self, cloud: Cloud) -> DriverError:
        return DriverError(
            f"The bucket gs://{self.name} exists, and {cloud.account or 'your account'} may not see it.",
            rule="Bucket names are unique in all of Google Cloud: someone else has this one, or it is in "
            f"{self.site.project} and the permission storage.buckets.get is missing (roles/storage.admin has it).",
            fix="choose another bucket.name in the site file, such as "
            f"{self.site.project.replace(':', '-').replace('.', '-')}-{self.site.cluster.name}"[:180],
        )


def _close(bucket: Any) -> None:
    bucket.iam_configuration.uniform_bucket_level_access_enabled = True
    bucket.iam_configuration.public_access_prevention = "enforced"


def _on(flag: bool) -> str:
    return "on" if flag else "off"


def _delete_objects(bucket: Any, waiting: Waiting) -> None:
    """Page by page, each page's objects at once."""
    deleted = 0
    with ThreadPoolExecutor(DELETES_AT_ONCE) as pool:
        listed = bucket.list_blobs(versions=True, fields="items(name,generation),nextPageToken", retry=READS)
        for page in listed.pages:
            deleted += sum(pool.map(_delete_object, page))
            waiting.tell(f"{deleted} objects deleted from gs://{bucket.name}")
            waiting.pause(0)


def _delete_object(blob: Any) -> int:
    try:
        # Listed with its generation: what is written under the same name meanwhile is another object.
        blob.delete(retry=READS)
    except exceptions.NotFound:
        return 0
    return 1


def _delete_folders(cloud: Cloud, bucket: str, waiting: Waiting) -> None:
    """The folders of a hierarchical namespace are resources of their own, and only empty ones can be deleted."""
    folders = f"{cloud.url('storage')}/storage/v1/b/{bucket}/folders"
    names = list(_folder_names(cloud, folders))
    with ThreadPoolExecutor(DELETES_AT_ONCE) as pool:
        for depth in sorted({name.count("/") for name in names}, reverse=True):
            level = [name for name in names if name.count("/") == depth]
            list(pool.map(lambda name: _delete_folder(cloud, f"{folders}/{quote(name, safe='')}"), level))
            waiting.tell(f"deleting {len(names)} folders from gs://{bucket}")
            waiting.pause(0)


def _folder_names(cloud: Cloud, folders: str) -> Iterator[str]:
    token: str | None = None
    while token != "":
        page = READS(_call)(cloud, "GET", folders, pageToken=token)
        yield from (one["name"] for one in page.get("items", []))
        token = page.get("nextPageToken", "")


def _delete_folder(cloud: Cloud, url: str) -> None:
    try:
        READS(_call)(cloud, "DELETE", url)
    except exceptions.NotFound:
        return


def _call(cloud: Cloud, method: str, url: str, **parameters: str | None) -> dict[str, Any]:
    answer = cloud.session.request(method, url, params=parameters, timeout=60)
    if not answer.ok:
        raise exceptions.from_http_response(answer)
    return dict(answer.json()) if answer.content else {}
