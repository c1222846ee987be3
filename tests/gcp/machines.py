"""What Google has where, and the limits of a project: extracts that are large enough for the tests, not the whole."""

from __future__ import annotations

from typing import Any

# https://cloud.google.com/tpu/docs/regions-zones and https://cloud.google.com/compute/docs/regions-zones (2026)
TPU_ZONES = {
    "ct4p-hightpu-4t": ("us-central2-b",),
    "ct5lp-hightpu-1t": ("us-central1-a", "us-west1-c", "us-west4-a", "us-west4-b", "europe-west4-b"),
    "ct5lp-hightpu-4t": ("us-central1-a", "us-west1-c", "us-west4-a", "us-west4-b", "europe-west4-b"),
    "ct5lp-hightpu-8t": ("us-central1-a", "us-west1-c", "us-west4-a", "us-west4-b", "europe-west4-b"),
    "ct5p-hightpu-4t": ("us-central1-a", "us-east5-a", "europe-west4-b"),
    "ct6e-standard-1t": ("us-east5-a", "us-east5-b", "us-east1-d", "us-central1-b", "europe-west4-a"),
    "ct6e-standard-4t": ("us-east5-a", "us-east5-b", "us-east1-d", "us-central1-b", "europe-west4-a"),
    "ct6e-standard-8t": ("us-east5-a", "us-east5-b", "us-east1-d", "us-central1-b", "europe-west4-a"),
    "tpu7x-standard-1t": ("us-central1-c",),
    "tpu7x-standard-4t": ("us-central1-c",),
}
REGIONS = {
    "us-central1": "abcf",
    "us-central2": "b",
    "us-east1": "bcd",
    "us-east5": "abc",
    "us-west1": "abc",
    "us-west4": "abc",
    "europe-west4": "abc",
}
ZONES = tuple(f"{region}-{letter}" for region, letters in REGIONS.items() for letter in letters)

# vCPUs, memory in MB, chips, quota family
MACHINES: dict[str, tuple[int, int, int, str]] = {
    "e2-medium": (2, 4096, 0, ""),
    "e2-standard-4": (4, 16384, 0, ""),
    "n1-standard-4": (4, 15360, 0, ""),
    "n1-standard-16": (16, 61440, 0, ""),
    "n2-standard-16": (16, 65536, 0, ""),
    "ct4p-hightpu-4t": (240, 416768, 4, "CT4P"),
    "ct5lp-hightpu-1t": (24, 49152, 1, "CT5LP"),
    "ct5lp-hightpu-4t": (112, 196608, 4, "CT5LP"),
    "ct5lp-hightpu-8t": (224, 393216, 8, "CT5LP"),
    "ct5p-hightpu-4t": (208, 458752, 4, "CT5P"),
    "ct6e-standard-1t": (44, 180224, 1, "CT6E"),
    "ct6e-standard-4t": (180, 737280, 4, "CT6E"),
    "ct6e-standard-8t": (180, 1474560, 8, "CT6E"),
    "tpu7x-standard-1t": (56, 245760, 1, "TPU7X"),
    "tpu7x-standard-4t": (224, 983040, 4, "TPU7X"),
}

VERSIONS = (
    "1.35.3-gke.1389000", "1.35.2-gke.1842000", "1.34.5-gke.1002000", "1.34.1-gke.1829001", "1.33.5-gke.1201000",
    "1.32.9-gke.1548000",
)  # fmt: skip
CHANNELS = {
    "RAPID": VERSIONS[0:4],
    "REGULAR": VERSIONS[1:5],
    "STABLE": VERSIONS[3:6],
    "EXTENDED": VERSIONS[1:6],
}
# https://cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra
DRANET_MINIMUM = "1.34.1-gke.1829001"

# Of a fresh project with room for the tests; `Google.quotas` overrides by key. Regional ones are per region.
QUOTAS: dict[str, float] = {
    "NETWORKS": 15,
    "SUBNETWORKS": 100,
    "FIREWALLS": 100,
    "CPUS": 500,
    "CPUS_ALL_REGIONS": 1000,
    "IN_USE_ADDRESSES": 200,
}
TPU_CHIPS = 256


def available(machine_type: str, zone: str) -> bool:
    return machine_type in MACHINES and zone in TPU_ZONES.get(machine_type, ZONES)


def region_of(location: str) -> str:
    return location if location in REGIONS else location.rpartition("-")[0]


def zones_of(location: str) -> list[str]:
    return [f"{location}-{letter}" for letter in REGIONS[location]] if location in REGIONS else [location]


def version_key(version: str) -> tuple[int, ...]:
    """1.34.1-gke.1829001 as numbers, so that versions compare as GKE's do."""
    return tuple(int(part) for part in version.replace("-gke.", ".").split("."))


def server_config() -> dict[str, Any]:
    return {
        "defaultClusterVersion": CHANNELS["REGULAR"][0],
        "validMasterVersions": list(VERSIONS),
        "validNodeVersions": list(VERSIONS),
        "defaultImageType": "COS_CONTAINERD",
        "validImageTypes": ["COS_CONTAINERD", "UBUNTU_CONTAINERD"],
        "channels": [
            {"channel": name, "defaultVersion": versions[0], "validVersions": list(versions)}
            for name, versions in CHANNELS.items()
        ],
    }
