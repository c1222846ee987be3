"""Watches that tell of a change, whatever ends them."""

import time

import pytest

from driver.errors import DriverError
from driver.kube import watching
from driver.kube.watching import Changes
from tests.kube.server.watches import PATIENCE_SECONDS

OF_DEMO = {"app.kubernetes.io/instance": "demo"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(watching, "_FIRST_PAUSE_SECONDS", 0.02)


@pytest.fixture
def changes(api):
    """Whose watches have begun, and have told that they have."""
    with Changes(api.connection(), "app.kubernetes.io/instance=demo", _explain) as watched:
        api.watches.await_begun(3)
        _until_quiet(watched)
        yield watched


def _explain(refusal):
    return DriverError(f"{refusal.resource}: {refusal.error.status}")


def _change(api, plural):
    api.add(plural, "demo", metadata={"labels": OF_DEMO})


def _until_quiet(changes):
    while changes.wait(0.2):
        pass


def test_it_rings_at_once_so_that_there_is_a_first_look(api):
    with Changes(api.connection(), "", _explain) as watched:
        assert watched.wait(0)


@pytest.mark.parametrize("plural", ["pods", "rayclusters", "rayjobs"])
def test_a_change_rings(api, changes, plural):
    _change(api, plural)
    assert changes.wait(PATIENCE_SECONDS)


def test_without_a_change_it_does_not_ring(changes):
    assert not changes.wait(0.2)


def test_a_bookmark_does_not_ring_and_is_where_the_watch_goes_on(api, changes):
    api.bookmark("pods")
    assert not changes.wait(0.2)
    api.watches.end()
    api.watches.await_begun(6)
    assert ("pods", api.version) in api.watches.begun


def test_a_watch_that_has_ended_goes_on_where_it_was(api, changes):
    _change(api, "pods")
    assert changes.wait(PATIENCE_SECONDS)
    api.watches.end()
    api.watches.await_begun(6)
    assert ("pods", api.version) in api.watches.begun[3:]
    _change(api, "pods")
    assert changes.wait(PATIENCE_SECONDS)


def test_what_has_changed_while_a_version_became_too_old_is_told(api, changes):
    api.compact()
    api.watches.end()
    assert changes.wait(PATIENCE_SECONDS)
    api.watches.await_begun(6)
    assert {version for _, version in api.watches.begun[3:]} == {api.version}


def test_a_watch_that_is_told_in_its_stream_that_it_is_too_old_begins_anew(api, changes):
    api.watches.errors["pods"] = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
    api.watches.end()
    assert changes.wait(PATIENCE_SECONDS)
    api.watches.await_begun(7)


def test_a_restart_of_the_api_server_is_survived(api, changes):
    api.stop()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not changes.seconds_away:
        assert changes.wait(max(0.0, deadline - time.monotonic()))
    api.start()
    api.watches.await_begun(6)
    _until_quiet(changes)
    assert changes.seconds_away == 0
    _change(api, "rayjobs")
    assert changes.wait(PATIENCE_SECONDS)


def test_a_missing_right_ends_it_with_the_resource(api):
    api.faults.refuse(403, "no", part="/pods")
    with Changes(api.connection(), "", _explain) as watched, pytest.raises(DriverError, match="pods: 403"):
        _until_quiet(watched)


def test_a_login_that_was_good_before_is_tried_again(api, changes):
    expired = api.faults.refuse(401, "no", part="/pods")
    api.watches.end()
    assert changes.wait(PATIENCE_SECONDS)
    api.faults.hooks.remove(expired)
    api.watches.await_begun(6)
    _change(api, "pods")
    assert changes.wait(PATIENCE_SECONDS)


def test_pods_are_not_sent_whole(api, changes):
    assert all("PartialObjectMetadata" in call.accept for call in api.calls)
