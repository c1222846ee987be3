"""The node's program for the tests that only call it: one for all of a module."""

import pytest

from tests.gke.fake_api import fake_api
from tests.gke.kubelet import POD, short_folder, started


@pytest.fixture(scope="module")
def node():
    with short_folder() as folder, fake_api() as api, started(api, folder) as node:
        api.put("/api/v1/nodes/node1", metadata={"name": "node1", "uid": "node-uid"})
        api.put(POD, metadata={"annotations": {"gke-gcsfuse/volumes": "true"}}, spec={})
        yield node


@pytest.fixture
def folder():
    """For programs of a test's own."""
    with short_folder() as folder:
        yield folder
