"""What the commands import, imported once in the process from which theirs are forked."""

import importlib

for _name in (
    "driver.commands.bootstrap", "driver.commands.teardown", "driver.gcp.bootstrap", "driver.gcp.script",
    "driver.gcp.teardown", "google.cloud.compute_v1", "google.cloud.container_v1", "google.cloud.resourcemanager_v3",
    "google.cloud.artifactregistry_v1", "google.cloud.cloudquotas_v1", "google.cloud.service_usage_v1",
    "google.cloud.storage", "tests.gcp.commands",
):  # fmt: skip
    importlib.import_module(_name)
