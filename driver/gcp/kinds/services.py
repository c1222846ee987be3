"""The APIs that the driver calls, enabled in the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.gcp.cloud import READS, Cloud
from driver.gcp.operations import finish_long_running
from driver.gcp.resource import Command, Difference, Found, Permissions, Resource
from driver.gcp.site import Site
from driver.gcp.waiting import Waiting

APIS = tuple(
    f"{name}.googleapis.com"
    for name in (
        "serviceusage",
        "cloudresourcemanager",
        "compute",
        "container",
        "iam",
        "storage",
        "artifactregistry",
        "cloudbuild",
        "cloudquotas",
    )
)
"""At most 20, which Google enables in one call."""


class Services(Resource):
    """All APIs together, because Google enables them in one call.

    They are the project's and never ours: what is missing is a difference that `update` mends, and `delete` leaves
    them enabled, because others may have come to rely on them.
    """

    kind = "APIs"
    shared = True
    permissions = Permissions(
        describe=("serviceusage.services.get",),
        create=("serviceusage.services.enable", "serviceusage.services.get"),
        update=("serviceusage.services.enable", "serviceusage.services.get"),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site, site.project)

    @property
    def key(self) -> str:
        return f"APIs of {self.name}"

    def wanted(self) -> Mapping[str, Any]:
        return {"enabled": APIS}

    def describe(self, cloud: Cloud) -> Found:
        """There in every project; each API that is not enabled is a difference."""
        parent = f"projects/{self.site.project}"
        names = [f"{parent}/services/{api}" for api in APIS]
        answer = cloud.services.batch_get_services(request={"parent": parent, "names": names}, retry=READS)
        # Google answers with the project's number in the names.
        enabled = {one.name.rpartition("/")[2] for one in answer.services if one.state.name == "ENABLED"}
        missing = [api for api in APIS if api not in enabled]
        return Found(ours=False, differences=tuple(Difference(api, "disabled", "enabled", True) for api in missing))

    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        """Enables all; those that are already enabled stay so."""
        self._enable(cloud, APIS, waiting)

    def update(self, cloud: Cloud, found: Found, waiting: Waiting) -> None:
        self._enable(cloud, [difference.field for difference in found.differences], waiting)

    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        """Does nothing: see the class."""

    def gcloud(self) -> Sequence[Command]:
        return [Command(("gcloud", "services", "enable", *APIS, f"--project={self.site.project}"))]

    def _enable(self, cloud: Cloud, apis: Sequence[str], waiting: Waiting) -> None:
        request = {"parent": f"projects/{self.site.project}", "service_ids": list(apis)}
        operation = cloud.services.batch_enable_services(request=request)
        finish_long_running(operation, waiting, f"enabling {len(apis)} APIs")
