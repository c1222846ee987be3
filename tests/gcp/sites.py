"""Site files for the tests: the tutorial's, and what differs from it."""

from __future__ import annotations

from typing import Any

from driver.gcp.site import Site

TUTORIAL: dict[str, Any] = {
    "project": "demo-project",
    "zone": "us-east5-b",
    "cluster": {"name": "multislice"},
    "tpu": {"type": "v6e", "topology": "4x4", "slices": 2},
    "bucket": {"name": "demo-bucket"},
}
"""Two v6e slices of 16 chips."""


def content(**changes: Any) -> dict[str, Any]:
    """What a site file says. changes: by its keys; parts are merged, as in tpu={"slices": 3}."""
    merged = {
        key: {**TUTORIAL.get(key, {}), **change} if isinstance(change, dict) else change
        for key, change in changes.items()
    }
    return TUTORIAL | merged


def site(**changes: Any) -> Site:
    return Site.model_validate(content(**changes))
