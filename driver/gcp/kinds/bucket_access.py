"""The pods' access to the bucket: roles of their Kubernetes service account, through Workload Identity Federation."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from google.api_core import exceptions, retry

from driver.gcp.cloud import READS, Cloud
from driver.gcp.kinds.bucket import Bucket
from driver.gcp.resource import MARK, PROJECT_NUMBER, Command, Difference, Found, Permissions, Resource
from driver.gcp.site import Site
from driver.gcp.waiting import Waiting

ROLES = ("roles/storage.objectUser", "roles/storage.legacyBucketReader")
"""Read and write objects and folders; look at the bucket itself, which Cloud Storage FUSE does when it mounts."""

LABEL = f"{MARK}-access-"
"""With 12 hexadecimal digits of role and member, and 6 of the site: the label of the bucket that says that we made this
binding, and that this site relies on it. Its value is the site's id."""

CHANGE_SECONDS = 120.0
"""How long a change is tried again when others change the same policy, or the cluster's identity pool is too new."""


class BucketAccess(Resource):
    """One binding per role. Bindings have no labels, so the bucket gets one for each that we make, before it is made.

    Bindings that were there without a label are others' and stay. Clusters of one project share their identity pool,
    so two sites may rely on one binding: each has its label, and the last one to go removes the binding.
    """

    kind = "bucket access"
    shared = True
    permissions = Permissions(
        describe=(
            *("storage.buckets.get", "storage.buckets.list", "storage.buckets.getIamPolicy"),
            "resourcemanager.projects.get",
        ),
        create=(
            *("storage.buckets.get", "storage.buckets.update"),
            *("storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy"),
        ),
        update=(
            *("storage.buckets.get", "storage.buckets.update"),
            *("storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy"),
        ),
        delete=(
            *("storage.buckets.get", "storage.buckets.update"),
            *("storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy"),
        ),
    )

    def __init__(
        self,
        site: Site,
        *,
        bucket: Bucket,
        subject: str = "",
    ) -> None:
        """subject: another one than the site file's, as an earlier site file had it."""
        self.subject = subject or f"ns/{site.namespace}/sa/{site.service_account}"
        self.bucket = bucket
        super().__init__(site, self.subject)

    @property
    def key(self) -> str:
        return f"access of {self.subject} to gs://{self.bucket.name}"

    def wanted(self) -> Mapping[str, Any]:
        return {"bucket": self.bucket.name, "subject": self.subject, "roles": ROLES}

    def member(self, project_number: int | str) -> str:
        """As IAM names the service account."""
        return f"{_pool(self.site, project_number)}{self.subject}"

    def describe(self, cloud: Cloud) -> Found | None:
        """None while no role is bound and no label of ours is left. `ours`: there is something of ours to remove."""
        member = self.member(cloud.project_number)
        try:
            bucket = cloud.storage.get_bucket(self.bucket.name, retry=READS)
            policy = bucket.get_iam_policy(requested_policy_version=3, retry=READS)
        except exceptions.NotFound:
            return None
        bound = [role for role in ROLES if _bound(policy, role, member)]
        marked = any(_label(self.site, role, member) in bucket.labels for role in ROLES)
        if not bound and not marked:
            return None
        differences = [
            Difference(role, "granted for another site" if role in bound else "not granted", "granted", True)
            for role in _lacking(self.site, bucket.labels, policy, member)
        ]
        return Found(ours=marked, differences=tuple(differences))

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        member = self.member(cloud.project_number)

        def bind() -> None:
            bucket = cloud.storage.get_bucket(self.bucket.name, retry=READS)
            policy = bucket.get_iam_policy(requested_policy_version=3, retry=READS)
            lacking = _lacking(self.site, bucket.labels, policy, member)
            _patch_labels(bucket, {_label(self.site, role, member): self.site.id for role in lacking})
            missing = [role for role in lacking if not _bound(policy, role, member)]
            if missing:
                policy.version = 3
                policy.bindings = [*policy.bindings, *({"role": role, "members": {member}} for role in missing)]
                bucket.set_iam_policy(policy)

        _again_on_conflict(bind, waiting, self.key)

    def update(self, cloud: Cloud, found: Found, waiting: Waiting) -> None:
        self.create(cloud, waiting)

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        """Removes the bindings that carry our label, then the labels."""
        member = self.member(cloud.project_number)

        def unbind() -> None:
            bucket = cloud.storage.get_bucket(self.bucket.name, retry=READS)
            ours = [role for role in ROLES if _label(self.site, role, member) in bucket.labels]
            if not ours:
                return
            only_ours = [role for role in ours if not _other_sites(self.site, bucket.labels, role, member)]
            policy = bucket.get_iam_policy(requested_policy_version=3, retry=READS)
            if any(_bound(policy, role, member) for role in only_ours):
                policy.version = 3
                policy.bindings = list(_without(policy.bindings, only_ours, member))
                bucket.set_iam_policy(policy)
            _patch_labels(bucket, {_label(self.site, role, member): None for role in ours})

        try:
            _again_on_conflict(unbind, waiting, self.key)
        except exceptions.NotFound:
            return  # The bucket is gone, and its policy with it.

    def gcloud(self) -> Sequence[Command]:
        words = ("gcloud", "storage", "buckets", "add-iam-policy-binding", f"gs://{self.bucket.name}")
        member = self.member(PROJECT_NUMBER)
        comment = "Without the label that bootstrap sets, so `driver teardown` leaves it to whoever ran this."
        return [Command((*words, f"--member={member}", f"--role={role}"), comment) for role in ROLES]

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[BucketAccess]:
        """Also for buckets and service accounts that the site file named earlier, as far as their bindings are there:
        a label alone does not tell for whom it is."""
        found: list[BucketAccess] = []
        for bucket in _labelled(site, cloud):
            policy = bucket.get_iam_policy(requested_policy_version=3, retry=READS)
            pool = _pool(site, cloud.project_number)
            subjects = {
                member.removeprefix(pool): None
                for binding in policy.bindings
                for member in sorted(binding["members"])
                if member.startswith(pool) and _label(site, binding["role"], member) in bucket.labels
            }
            of = Bucket(site, name="" if bucket.name == site.bucket.name else bucket.name)
            found += [cls(site, bucket=of, subject=subject) for subject in subjects]
        return found


def _pool(site: Site, project_number: int | str) -> str:
    # https://cloud.google.com/kubernetes-engine/docs/how-to/workload-identity#authenticating_to
    return (
        f"principal://iam.googleapis.com/projects/{project_number}/locations/global/workloadIdentityPools/"
        f"{site.workload_pool}/subject/"
    )


def _binding_label(role: str, member: str) -> str:
    """How the labels of a binding begin, whichever site's they are."""
    return f"{LABEL}{hashlib.sha256(f'{role} {member}'.encode()).hexdigest()[:12]}-"


def _label(site: Site, role: str, member: str) -> str:
    return _binding_label(role, member) + hashlib.sha256(site.id.encode()).hexdigest()[:6]


def _other_sites(site: Site, labels: Mapping[str, str], role: str, member: str) -> list[str]:
    """The labels of other sites that rely on this binding."""
    start = _binding_label(role, member)
    return [key for key in labels if key.startswith(start) and key != _label(site, role, member)]


def _lacking(site: Site, labels: Mapping[str, str], policy: Any, member: str) -> list[str]:
    """The roles that are not bound, or bound for other sites only."""
    return [
        role
        for role in ROLES
        if not _bound(policy, role, member)
        or (_other_sites(site, labels, role, member) and _label(site, role, member) not in labels)
    ]


def _bound(policy: Any, role: str, member: str) -> bool:
    """Whether the member has the role without a condition; what others bound with conditions is theirs."""
    return any(
        binding["role"] == role and member in binding["members"] and not binding.get("condition")
        for binding in policy.bindings
    )


def _without(bindings: Iterable[dict[str, Any]], roles: Sequence[str], member: str) -> Iterable[dict[str, Any]]:
    for binding in bindings:
        members = set(binding["members"])
        if binding["role"] in roles and not binding.get("condition"):
            members.discard(member)
        if members:
            yield {**binding, "members": members}


def _patch_labels(bucket: Any, changes: Mapping[str, str | None]) -> None:
    """Only these labels: Cloud Storage merges them into what is there. None removes one."""
    labels = bucket.labels
    wanted = {key: value for key, value in {**labels, **changes}.items() if value is not None}
    if wanted != labels:
        bucket.labels = wanted
        bucket.patch(if_metageneration_match=bucket.metageneration)


def _labelled(site: Site, cloud: Cloud) -> Iterable[Any]:
    """The buckets with a label of ours: the project's, and the site's own, which may be another project's."""
    buckets = {one.name: one for one in cloud.storage.list_buckets(retry=READS)}
    if site.bucket.name not in buckets and site.bucket.existing:
        # One that may not be seen has nothing of ours: to make a binding takes more than that.
        with contextlib.suppress(exceptions.NotFound, exceptions.Forbidden):
            buckets[site.bucket.name] = cloud.storage.get_bucket(site.bucket.name, retry=READS)
    for bucket in buckets.values():
        if any(key.startswith(LABEL) and value == site.id for key, value in bucket.labels.items()):
            yield bucket


def _again_on_conflict(change: Callable[[], None], waiting: Waiting, what: str) -> None:
    """Reads, changes and writes anew while others change the policy or the labels, so that no change is lost."""

    def passes(error: Exception) -> bool:
        new_pool = isinstance(error, exceptions.BadRequest) and "Identity Pool does not exist" in str(error)
        return new_pool or isinstance(error, (exceptions.PreconditionFailed, exceptions.Conflict))

    def tell(_: Exception) -> None:
        waiting.tell(f"{what}: trying again")
        waiting.pause(0)

    retry.Retry(predicate=passes, initial=0.2, maximum=5, timeout=CHANGE_SECONDS, on_error=tell)(change)()
