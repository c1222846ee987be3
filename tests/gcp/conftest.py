"""Google Cloud on loopback, fresh for each test."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from driver.gcp import retrying, waiting
from driver.gcp.cloud import Cloud
from driver.plan import environment
from tests.gcp.clients import PROJECT, Clients
from tests.gcp.commands import POLL_SECONDS, Desk
from tests.gcp.google import Google


@pytest.fixture
def google() -> Iterator[Google]:
    """With one project, all APIs enabled."""
    with a_google() as stand_in:
        yield stand_in


@contextmanager
def a_google() -> Iterator[Google]:
    """The same, for other scopes than a test."""
    stand_in = Google().start()
    stand_in.add_project(PROJECT)
    yield stand_in
    stand_in.stop()
    assert stand_in.defects == []


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver looks again after moments, as the stand-in takes no minutes."""
    monkeypatch.setattr(waiting, "POLL_SECONDS", POLL_SECONDS)
    monkeypatch.setattr(retrying, "FIRST_PAUSE_SECONDS", POLL_SECONDS)


@pytest.fixture(autouse=True)
def _no_tpu_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer may have it: `driver up` would then compile for seconds."""
    monkeypatch.setattr(environment, "is_installed", lambda: False)


@pytest.fixture
def cloud(google: Google) -> Cloud:
    """The driver's clients, with credentials that need no exchange of tokens."""
    return Cloud(PROJECT, google.endpoint, google.credentials())


@pytest.fixture
def clients(google: Google) -> Clients:
    """Google's clients as the tests of the stand-in itself use them."""
    return Clients(google)


@pytest.fixture
def key_file(google: Google, tmp_path: Path) -> Path:
    """A service account's key, for GOOGLE_APPLICATION_CREDENTIALS."""
    return _write_key(google, tmp_path)


@pytest.fixture
def desk(google: Google, tmp_path: Path) -> Desk:
    """A user's folder with the tutorial's site.yaml."""
    return a_desk(google, tmp_path)


def a_desk(google: Google, folder: Path) -> Desk:
    """The same, for other scopes than a test."""
    made = Desk(google, folder, _write_key(google, folder))
    made.write_site()
    return made


def _write_key(google: Google, folder: Path) -> Path:
    path = folder / "key.json"
    path.write_text(json.dumps(google.tokens.key_file(PROJECT)))
    return path
