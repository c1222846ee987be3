"""The driver killed (SIGKILL) just before and just after each of its calls: run again, it ends as if undisturbed."""

from typing import Any

import pytest

from tests.gcp.commands import Desk, Running
from tests.gcp.conftest import a_desk, a_google
from tests.gcp.faults import kill
from tests.gcp.google import Google

# The calls that change something, as the last test of this file counts them.
BOOTSTRAP_CALLS = 13
TEARDOWN_CALLS = 10
BEFORE = pytest.param(True, marks=pytest.mark.full, id="before")
MOMENTS = pytest.mark.parametrize("before", [BEFORE, pytest.param(False, id="after")])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a bootstrap leaves that nothing disturbed."""
    with a_google() as google:
        desk = a_desk(google, tmp_path_factory.mktemp("undisturbed"))
        assert desk.run("bootstrap").wait() == 0
        return google.state()


@MOMENTS
@pytest.mark.parametrize("call", range(1, BOOTSTRAP_CALLS + 1))
def test_a_bootstrap_that_was_killed_finishes_when_run_again(
    desk: Desk, google: Google, undisturbed: dict[str, Any], call: int, before: bool
):
    _killed(desk, google, call, before, "bootstrap")
    done = desk.run("bootstrap")
    assert done.wait() == 0, done.said
    assert google.state() == undisturbed


@MOMENTS
@pytest.mark.parametrize("call", range(1, TEARDOWN_CALLS + 1))
def test_a_teardown_that_was_killed_finishes_when_run_again(desk: Desk, google: Google, call: int, before: bool):
    empty = google.state()
    assert desk.run("bootstrap").wait() == 0
    _killed(desk, google, call, before, "teardown", "--yes", "--delete-bucket")
    done = desk.run("teardown", "--yes", "--delete-bucket")
    assert done.wait() == 0, done.said
    assert google.state() == empty


def test_every_call_that_changes_something_is_among_them(desk: Desk, google: Google):
    assert desk.run("bootstrap").wait() == 0
    assert len(google.mutating_calls) == BOOTSTRAP_CALLS
    assert desk.run("teardown", "--yes", "--delete-bucket").wait() == 0
    assert len(google.mutating_calls) == BOOTSTRAP_CALLS + TEARDOWN_CALLS


def _killed(desk: Desk, google: Google, call: int, before: bool, *arguments: str) -> None:
    running: list[Running] = []
    google.faults.add(call, kill(lambda: running[0].kill(), before=before))
    running.append(desk.start(*arguments))
    assert running[0].wait() < 0, running[0].said
    assert google.faults.left == 0
    google.finish_all()
