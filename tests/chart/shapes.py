"""The chart's ci/*-values.yaml, one per supported shape, and the oldest and the newest Helm that it supports."""

from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, PROFILES, Manifest, fetched, helm, tool

CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))

HELMS = {"oldest": "helm-3.16", "newest": "helm"}
NEWEST_FIRST = ["newest", pytest.param("oldest", marks=pytest.mark.full)]
"""Where both have been seen to be the same in faster tests (test_versions.py), the required set has one of them."""
"""Their names for scripts/fetch-tools. A Helm on the PATH may be any in between, and is not asked."""

EVERYTHING = [*PROFILES, *CI_VALUES]


@cache
def helm_of(version: str) -> str:
    """Path of the oldest or the newest Helm, fetched once."""
    return tool(HELMS[version]) if version == "oldest" else fetched(HELMS[version])


@cache
def manifests(file: Path, version: str, chart: Path = CHART) -> list[Manifest]:
    """What `helm template` makes of a values file, in its order. Rendered once: do not change it."""
    text = helm("template", "demo", str(chart), "--values", str(file), program=helm_of(version))
    return parsed(text)


def parsed(text: str) -> list[Manifest]:
    """The documents of a YAML text, by the C loader: there are many, of 100 kB each."""
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]
