"""The cluster that the tests of this folder share, and a namespace for each of them.

By default it is a cluster of this machine (tests/cluster/cluster.py). With --site-values it is the one that KUBECONFIG
names, with KubeRay and two slices of two hosts free: the tests that break nodes or the operator are then left out.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import addons, cluster, release


@pytest.fixture(scope="session")
def test_cluster(request: pytest.FixtureRequest) -> Iterator[cluster.Cluster]:
    """A cluster of this machine: one that is up (scripts/cluster-up) is used and left, else one is made and ended."""
    name = os.environ.get("TEST_CLUSTER", "test")
    was_up = cluster.named(name).up
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():  # the first start takes minutes
        started = cluster.start(name, lambda what: print(f"\nTest cluster: {what}", end="", flush=True))
    yield started
    if not was_up:
        cluster.stop(name)


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> release.Place:
    site: Path | None = request.config.getoption("--site-values")
    if site is not None:
        kubeconfig = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        return release.Place(addons.Api(kubeconfig), kubeconfig, None, site.resolve())
    own: cluster.Cluster = request.getfixturevalue("test_cluster")
    return release.Place(addons.Api(own.kubeconfig), own.kubeconfig, own.buckets)


@pytest.fixture
def demo(request: pytest.FixtureRequest, place: release.Place) -> Iterator[release.Release]:
    """A release `demo` that is not installed yet, in a namespace of its own with a bucket of its own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].rstrip("-")
    with place.release(name) as made:
        yield made


@pytest.fixture
def lost(test_cluster: cluster.Cluster, place: release.Place) -> Iterator[cluster.LostNode]:
    """Node tpu-2, which a test may lose; it is back at the end."""
    node = cluster.LostNode(test_cluster, place.api, "tpu-2")
    yield node
    node.give_back()
