"""Preflight's first questions: who is asking, of which project, and may it be used at all."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from google.api_core.exceptions import Forbidden, NotFound
from google.auth.transport.requests import Request
from google.cloud.resourcemanager_v3.types import Project

from driver.gcp.cloud import READS
from driver.gcp.errors import is_api_off
from driver.gcp.findings import Finding, Subject, not_checked, ok, problem
from driver.gcp.kinds.services import Services


def credentials(subject: Subject) -> Iterator[Finding]:
    """That there are some, and that they still open doors."""
    cloud = subject.cloud
    if not cloud.credentials.valid:
        cloud.credentials.refresh(Request())
    yield ok(cloud.account or "They are valid; they do not tell whose they are.")


def project(subject: Subject) -> Iterator[Finding]:
    """That it is there, in use, and visible."""
    name = subject.site.project
    try:
        found = subject.cloud.projects.get_project(name=f"projects/{name}", retry=READS)
    except (Forbidden, NotFound) as error:
        if is_api_off(error):
            raise
        who = subject.cloud.account or "the caller"
        yield problem(
            f"Project {name} does not exist, or {who} may not see it.",
            "Google does not tell which of the two it is.",
            "correct `project` in the site file (gcloud projects list shows those that you may see), "
            "or have roles/browser granted",
        )
        return
    if found.state != Project.State.ACTIVE:
        yield problem(
            f"Project {name} is {found.state.name.lower().replace('_', ' ')}.",
            "Only an active project can hold resources.",
            shlex.join(["gcloud", "projects", "undelete", name]),
        )
    else:
        yield ok(f"{name} ({found.name.removeprefix('projects/')})")


def billing(subject: Subject) -> Iterator[Finding]:
    """That someone pays; many callers may not know, which is no problem."""
    name = subject.site.project
    cloud = subject.cloud
    answer = cloud.session.get(f"{cloud.url('cloudbilling')}/v1/projects/{name}/billingInfo", timeout=20)
    if answer.status_code != 200:
        yield not_checked("Whether the project has a billing account is not readable with these credentials.")
    elif answer.json().get("billingEnabled"):
        yield ok("The project has a billing account.")
    else:
        yield problem(
            f"Project {name} has no billing account.",
            "Compute Engine and GKE cannot be enabled without one.",
            shlex.join(["gcloud", "billing", "projects", "link", name, "--billing-account=ACCOUNT_ID"]),
        )


def apis(subject: Subject) -> Iterator[Finding]:
    """Those that are off are no problem: bootstrap turns them on, and the permission for that is checked as well."""
    services = next(one for one in subject.resources if isinstance(one, Services))
    seen = subject.looks[services.key]
    if isinstance(seen, Exception):
        raise seen
    off = [one.field.removesuffix(".googleapis.com") for one in (seen.differences if seen else ())]
    if off:
        yield ok(f"{', '.join(off)}: off, bootstrap turns them on. What they would answer is not checked.")
    else:
        yield ok("All that are needed are on.")
