"""Why a build of the image failed, and what mends it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from google.api_core.exceptions import GoogleAPICallError

from driver.errors import DriverError

if TYPE_CHECKING:
    from google.cloud.devtools.cloudbuild_v1 import Build

    from driver.gcp.cloud import Cloud
    from driver.gcp.site import Site

AGAIN = "run driver image again"


def explain_failure(build: Build, cloud: Cloud, site: Site, location: str) -> DriverError:
    """The message for a build that has ended without success."""
    found = f"Build {build.id} {_ENDINGS.get(build.status.name, f'ended as {build.status.name}')}"
    said = " ".join(part for part in (_step(build), build.failure_info.detail or build.status_detail) if part)
    found = f"{found}: {said}" if said else f"{found}."
    log = f"Its log: {build.log_url or _log_command(build, site, location)}"
    return DriverError(found, rule=log, fix=_fix(build, cloud, site, location))


def build_account(build: Build, cloud: Cloud, site: Site, location: str) -> str:
    """The email of the service account that ran, or would run, a build.

    Projects that first used Cloud Build after June 2024 have Compute Engine's default one, older ones Cloud Build's own
    (https://cloud.google.com/build/docs/cloud-build-service-account-updates). Raises Google's errors.
    """
    if build.service_account:
        return build.service_account.rpartition("/")[2]
    name = f"projects/{site.project}/locations/{location}/defaultServiceAccount"
    return cloud.builds.get_default_service_account(name=name).service_account_email.rpartition("/")[2]


def _fix(build: Build, cloud: Cloud, site: Site, location: str) -> str:
    if build.status.name == "FAILURE":
        denied = _denied_role(build)
        return _grant(denied, build, cloud, site, location) if denied else "mend what the log shows"
    if build.status.name == "TIMEOUT":
        minutes = build.timeout.total_seconds() / 60
        return f"driver image --timeout-minutes {max(1, round(2 * minutes))}, or a larger --machine-type"
    return AGAIN


def _denied_role(build: Build) -> str:
    """The role that the build's account lacks; empty where the failure is another."""
    failure = build.failure_info.type_.name
    words = f"{build.failure_info.detail} {build.status_detail}".lower()
    if failure == "PUSH_NOT_AUTHORIZED" or "artifactregistry.repositories.uploadartifacts" in words:
        return "roles/artifactregistry.writer"
    if failure == "LOGGING_FAILURE" or "logging.logentries.create" in words:
        return "roles/logging.logWriter"
    return ""


def _grant(role: str, build: Build, cloud: Cloud, site: Site, location: str) -> str:
    """The smallest grant: of the one repository, where the role allows it."""
    try:
        account = build_account(build, cloud, site, location)
    except GoogleAPICallError:
        # What the build says of itself matters more than that this second question failed: the fix asks it instead.
        account = ""
    binding = ["add-iam-policy-binding"]
    if role == "roles/artifactregistry.writer":
        words = ["gcloud", "artifacts", "repositories", *binding, site.image.repository]
        words += [f"--project={site.project}", f"--location={site.region}"]
    else:
        words = ["gcloud", "projects", *binding, site.project]
    grant = shlex.join([*words, f"--member=serviceAccount:{account or 'ACCOUNT'}", f"--role={role}"])
    if account:
        return f"{grant}, then {AGAIN}"
    asked = f"gcloud builds get-default-service-account --project={site.project} --region={location}"
    return f"{grant}, then {AGAIN}. ACCOUNT is what `{asked}` prints"


def _step(build: Build) -> str:
    for place, step in enumerate(build.steps, 1):
        if step.status.name in ("FAILURE", "TIMEOUT", "INTERNAL_ERROR"):
            code = f" with exit code {step.exit_code}" if step.exit_code else ""
            return f"step {place} ({step.id or step.name}) ended as {step.status.name}{code}."
    return ""


def _log_command(build: Build, site: Site, location: str) -> str:
    return f"gcloud builds log {build.id} --project={site.project} --region={location}"


_ENDINGS = {
    "FAILURE": "failed",
    "INTERNAL_ERROR": "failed inside Cloud Build",
    "TIMEOUT": "took longer than it may",
    "CANCELLED": "was cancelled",
    "EXPIRED": "waited too long for a machine",
}
