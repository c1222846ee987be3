"""One check of preflight, asked of the stand-in."""

from __future__ import annotations

from dataclasses import replace

from driver.gcp import preflight
from driver.gcp.cloud import Cloud
from driver.gcp.findings import Finding, Subject
from driver.gcp.prerequisites import prerequisites
from driver.gcp.site import Site
from driver.gcp.waiting import Waiting
from tests.gcp.google import Google
from tests.gcp.sites import site


def cloud(google: Google) -> Cloud:
    return Cloud("demo-project", google.endpoint, google.credentials())


def ask(google: Google, check: str, of: Site | None = None) -> list[Finding]:
    """One check's findings, whatever it needs."""
    wanted = of or site()
    found = next(one for one in preflight.CHECKS if one.name == check)
    subject = Subject(wanted, prerequisites(wanted), lambda: cloud(google))
    return list(preflight.run(subject, [replace(found, needs=())])[0].findings)


def make(google: Google, of: Site) -> None:
    """Makes what the site needs, as bootstrap would."""
    for resource in prerequisites(of):
        if resource.describe(cloud(google)) is None:
            resource.create(cloud(google), Waiting())


def one(findings: list[Finding], status: str) -> Finding:
    """The only one with this status."""
    (found,) = [finding for finding in findings if finding.status == status]
    return found
