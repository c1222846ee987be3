"""Preflight's check of permissions: exactly those that the plan would use, and which roles bring the missing ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from google.api_core.exceptions import InvalidArgument

from driver.gcp import roles
from driver.gcp.cloud import READS
from driver.gcp.errors import GOOGLE_ERRORS
from driver.gcp.findings import Finding, Subject, ok, problem, warning
from driver.gcp.kinds.bucket import Bucket
from driver.gcp.resource import Found, Resource

_OF_PROJECT = ("storage.buckets.create", "storage.buckets.list")
_ACT_AS = "iam.serviceAccounts.actAs"
_AT_ONCE = 100
"""https://cloud.google.com/resource-manager/reference/rest/v3/projects/testIamPermissions"""


def check(subject: Subject) -> Iterator[Finding]:
    """One finding for each role that is missing."""
    in_project, in_bucket = needed(subject)
    held, untestable = _held(in_project, _ask_project(subject))
    if _ACT_AS in in_project and _ACT_AS not in held and _may_act_as_nodes(subject):
        held.add(_ACT_AS)
    findings = list(_missing(subject, set(in_project) - held - untestable, ""))
    if in_bucket:
        bucket = subject.site.bucket.name
        held_there, untestable_there = _held(in_bucket, _ask_bucket(subject, bucket))
        untestable |= untestable_there
        findings += _missing(subject, set(in_bucket) - held_there - untestable_there, bucket)
    if untestable:
        findings.append(warning(f"Google does not test {', '.join(sorted(untestable))}."))
    yield from findings or [ok(f"All {len({*in_project, *in_bucket})} that are needed are held.")]


def needed(subject: Subject) -> tuple[list[str], list[str]]:
    """The permissions that the plan would use: in the project, and in the bucket where it is there already (it may be
    another project's, or its permissions granted on itself)."""
    bucket_is_there = any(isinstance(one, Bucket) and subject.is_there(one) for one in subject.resources)
    in_project: set[str] = set()
    in_bucket: set[str] = set()
    for resource in subject.resources:
        for permission in _used(resource, subject.looks[resource.key]):
            of_bucket = bucket_is_there and permission.startswith("storage.") and permission not in _OF_PROJECT
            (in_bucket if of_bucket else in_project).add(permission)
    return sorted(in_project), sorted(in_bucket)


def _used(resource: Resource, seen: Found | Exception | None) -> Iterator[str]:
    permissions = resource.permissions
    yield from permissions.describe
    there = isinstance(seen, Found)
    if not there and not resource.existing:
        yield from permissions.create
    if isinstance(seen, Found) and any(one.in_place for one in seen.differences):
        yield from permissions.update
    if isinstance(seen, Found) and seen.ours and seen.broken:
        yield from (*permissions.delete, *permissions.create)


def _held(wanted: Sequence[str], ask: Callable[[Sequence[str]], Iterable[str]]) -> tuple[set[str], set[str]]:
    """Those that the caller has, and those that Google refuses to be asked about."""
    held: set[str] = set()
    untestable: set[str] = set()
    for start in range(0, len(wanted), _AT_ONCE):
        part = list(wanted[start : start + _AT_ONCE])
        while part:
            try:
                held |= set(ask(part))
                break
            except InvalidArgument as error:
                # "Permission x.y.z is not valid for this resource." and nothing about the others.
                named = set(re.findall(r"[\w]+(?:\.[\w]+){2,}", str(error))) & set(part)
                if not named:
                    raise
                untestable |= named
                part = [one for one in part if one not in named]
    return held, untestable


def _ask_project(subject: Subject) -> Callable[[Sequence[str]], Iterable[str]]:
    def ask(part: Sequence[str]) -> Iterable[str]:
        return subject.cloud.projects.test_iam_permissions(
            request={"resource": f"projects/{subject.site.project}", "permissions": list(part)}, retry=READS
        ).permissions

    return ask


def _may_act_as_nodes(subject: Subject) -> bool:
    """Whether it is granted on the service account of the nodes itself: Compute Engine's default one. Where that cannot
    be found out, it counts as missing, as in the project."""
    cloud = subject.cloud
    try:
        account = f"{cloud.project_number}-compute@developer.gserviceaccount.com"
        url = f"{cloud.url('iam')}/v1/projects/{subject.site.project}/serviceAccounts/{account}:testIamPermissions"
        answer = cloud.session.post(url, json={"permissions": [_ACT_AS]}, timeout=20)
    except GOOGLE_ERRORS:
        return False
    return answer.ok and _ACT_AS in answer.json().get("permissions", [])


def _ask_bucket(subject: Subject, name: str) -> Callable[[Sequence[str]], Iterable[str]]:
    bucket = subject.cloud.storage.bucket(name)
    return lambda part: bucket.test_iam_permissions(list(part))


def _missing(subject: Subject, missing: Iterable[str], bucket: str) -> Iterator[Finding]:
    account = subject.cloud.account
    where = f"in bucket {bucket}" if bucket else f"in project {subject.site.project}"
    for role, brings in roles.fewest(missing).items():
        found = f"{account or 'The caller'} lacks {', '.join(brings)} {where}."
        if role:
            rule = f"{role} is the smallest predefined role with {'it' if len(brings) == 1 else 'them'}."
            yield problem(found, rule, roles.grant(subject.site.project, role, account, bucket))
        else:
            yield problem(found, "", "have it granted, by a custom role or an administrator's")
