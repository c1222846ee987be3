"""Preflight's check of the programs on this machine that later commands need."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from driver import chart
from driver.errors import DriverError
from driver.gcp.findings import Finding, Status, Subject, of_error, ok, warning
from driver.gcp.kubeconfig import INSTALL_COMMANDS, PLUGIN


def check(_subject: Subject) -> Iterator[Finding]:
    """Nothing here keeps bootstrap from its work, so these are warnings."""
    try:
        helm = chart.find_helm()
    except DriverError as error:
        yield of_error(error, Status.WARNING)
    else:
        yield ok(f"Helm: {helm}")
    plugin = shutil.which(PLUGIN)
    if plugin:
        yield ok(f"{PLUGIN}: {plugin}")
    else:
        yield warning(
            f"There is no {PLUGIN} on the PATH.",
            "kubectl and Helm get their access to the cluster through it.",
            INSTALL_COMMANDS,
        )
