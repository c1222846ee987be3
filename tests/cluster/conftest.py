"""The cluster that the tests of this folder share, and a namespace for each of them."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import addons, cluster, release


@pytest.fixture(scope="session")
def test_cluster(request: pytest.FixtureRequest) -> Iterator[cluster.Cluster]:
    """A cluster that is there already (scripts/cluster-up) is used and left; else one is started, and ended at the end.

    It is the tests' own even where KUBECONFIG names another: their namespaces, buckets and lost nodes are no guests.
    """
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
def api(test_cluster: cluster.Cluster) -> addons.Api:
    return addons.Api(test_cluster.kubeconfig)


@pytest.fixture
def demo(request: pytest.FixtureRequest, test_cluster: cluster.Cluster, api: addons.Api) -> Iterator[release.Release]:
    """A release `demo` that is not installed yet, in a namespace of its own with a bucket of its own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].rstrip("-")
    with release.in_namespace(api, test_cluster.kubeconfig, test_cluster.buckets, name) as made:
        yield made


@pytest.fixture
def buckets(test_cluster: cluster.Cluster) -> Path:
    return test_cluster.buckets
