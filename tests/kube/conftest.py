"""A cluster's API on loopback, fresh for each test, and ways to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.kube.connection import Connection
from driver.plan import environment
from tests.kube import manifests
from tests.kube.server.api import Api, write_kubeconfig


@pytest.fixture
def api() -> Iterator[Api]:
    """The API of a cluster with nothing on it."""
    made = Api()
    made.start()
    yield made
    made.stop()
    assert made.defects == []


@pytest.fixture(autouse=True)
def no_tpu_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer may have it: an install of a test would then compile for seconds."""
    monkeypatch.setattr(environment, "is_installed", lambda: False)


@pytest.fixture
def demo(api: Api) -> None:
    """The release `demo` trains on the cluster, on 2 slices of 2 hosts."""
    api.put_all(manifests.whole())


@pytest.fixture
def connection(api: Api) -> Connection:
    """To namespace `team`."""
    return api.connection()


@pytest.fixture
def kubeconfig(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's kubeconfig, in $KUBECONFIG, with namespace `team`."""
    path = write_kubeconfig(api.kubeconfig(namespace="team"), tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path
