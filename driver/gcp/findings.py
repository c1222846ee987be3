"""What the checks of preflight share: what several of them ask Google, asked once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from driver.errors import DriverError
from driver.findings import Finding as Finding
from driver.findings import Status as Status
from driver.findings import not_checked as not_checked
from driver.findings import ok as ok
from driver.findings import problem as problem
from driver.findings import warning as warning
from driver.gcp import errors, threads
from driver.gcp.cloud import READS, found_or_none

if TYPE_CHECKING:
    from google.cloud import compute_v1 as compute

    from driver.gcp.cloud import Cloud
    from driver.gcp.resource import Found, Resource
    from driver.gcp.site import Site

_READERS = 8
"""Reads at the same time."""


def of_error(error: DriverError, status: Status = Status.PROBLEM) -> Finding:
    return Finding(status, error.found, error.rule, error.fix)


class Subject:
    """The site, the resources that it wants, and the cloud. Every question is asked once, also when many threads want
    to know; an error is remembered and raised again."""

    def __init__(self, site: Site, resources: Sequence[Resource], connect: Callable[[], Cloud]) -> None:
        """connect: finds the credentials; what it raises belongs to the first check."""
        self.site = site
        self.resources = tuple(resources)
        self._connect = connect
        self._answers: dict[str, Future[Any]] = {}
        self._lock = threading.Lock()

    @property
    def cloud(self) -> Cloud:
        return self._once("cloud", self._connect)

    @property
    def looks(self) -> Mapping[str, Found | Exception | None]:
        """By a resource's key: what is there, None where nothing is, or the error that the question met."""
        return self._once("looks", self._look)

    def is_there(self, resource: Resource) -> bool:
        """False also where it could not be found out: the permission to make it is then asked about as well."""
        seen = self.looks[resource.key]
        return seen is not None and not isinstance(seen, Exception)

    def missing[R: Resource](self, kind: type[R]) -> Iterator[R]:
        """Those of a kind that are still to be made."""
        for resource in self.resources:
            if isinstance(resource, kind) and not resource.existing and not self.is_there(resource):
                yield resource

    @property
    def region(self) -> compute.Region:
        """With its zones, and its quotas with their usage."""
        site = self.site
        return self._once(
            "region", lambda: self.cloud.regions.get(project=site.project, region=site.region, retry=READS)
        )

    @property
    def compute_project(self) -> compute.Project:
        """With the quotas that belong to no region, and their usage."""
        return self._once(
            "compute project", lambda: self.cloud.compute_projects.get(project=self.site.project, retry=READS)
        )

    def machine_type(self, name: str) -> compute.MachineType | None:
        """In the site's zone; None where the zone has none such."""

        def ask() -> compute.MachineType | None:
            return found_or_none(
                lambda: self.cloud.machine_types.get(
                    project=self.site.project, zone=self.site.zone, machine_type=name, retry=READS
                )
            )

        return self._once(f"machine type {name}", ask)

    def _look(self) -> dict[str, Found | Exception | None]:
        def look(resource: Resource) -> Found | Exception | None:
            try:
                return resource.describe(self.cloud)
            except errors.EXPLAINABLE as error:
                return error

        with threads.pool(_READERS) as pool:
            return dict(zip([one.key for one in self.resources], pool.map(look, self.resources), strict=True))

    def _once[T](self, question: str, ask: Callable[[], T]) -> T:
        with self._lock:
            first = question not in self._answers
            answer: Future[T] = self._answers.setdefault(question, Future())
        if first:
            try:
                answer.set_result(ask())
            except Exception as error:  # noqa: BLE001  # raised again for each who asks
                answer.set_exception(error)
        return answer.result()
