"""Whether an install starts the run."""

from datetime import UTC, datetime

import pytest

from driver.errors import DriverError
from driver.kube.attempts import stop_values, values_for
from driver.kube.release import Revision


def before(**values):
    return Revision("demo", 1, "deployed", datetime.now(UTC), "maxtext-multislice-0.1.0", values=values)


def test_a_first_install_has_the_values_as_they_are():
    assert values_for({"a": 1}, None, rerun=False) == {"a": 1}


def test_a_rerun_counts_the_attempt_up():
    assert values_for({}, before(), rerun=True)["job"] == {"attempt": 2, "enabled": True}
    assert values_for({}, before(job={"attempt": 4}), rerun=True)["job"]["attempt"] == 5


def test_a_rerun_is_beyond_an_attempt_that_the_values_name():
    assert values_for({"job": {"attempt": 7}}, before(job={"attempt": 4}), rerun=True)["job"]["attempt"] == 8


def test_a_rerun_of_a_suspended_run_lets_it_go():
    held = {"rayJob": {"ownCluster": True, "suspend": True}}
    assert values_for(held, before(**held), rerun=True)["rayJob"]["suspend"] is False


def test_a_rerun_of_what_was_never_installed_is_refused():
    with pytest.raises(DriverError, match="no run to start again"):
        values_for({}, None, rerun=True)


def test_an_install_keeps_the_attempt_that_was_reached():
    assert values_for({"a": 1}, before(job={"attempt": 3}), rerun=False) == {"a": 1, "job": {"attempt": 3}}


def test_an_attempt_that_the_values_name_is_theirs():
    assert values_for({"job": {"attempt": 1}}, before(job={"attempt": 3}), rerun=False) == {"job": {"attempt": 1}}


@pytest.mark.parametrize(
    "stopped", [{"job": {"enabled": False}}, {"rayJob": {"ownCluster": True, "suspend": True}}], ids=["job", "suspend"]
)
def test_a_stopped_run_is_not_started_by_surprise(stopped):
    with pytest.raises(DriverError, match=r"The run of demo is stopped[\s\S]*--rerun"):
        values_for({"a": 1}, before(**stopped), rerun=False)


def test_a_stopped_run_is_started_or_left_by_values_that_say_so():
    stopped = before(job={"enabled": False})
    for said in (True, False):
        assert values_for({"job": {"enabled": said}}, stopped, rerun=False) == {"job": {"enabled": said}}


def test_a_run_on_the_release_s_cluster_is_stopped_by_its_job():
    assert stop_values({"job": {"steps": 5}}) == {"job": {"steps": 5, "enabled": False}}


def test_a_run_with_its_own_cluster_is_suspended():
    assert stop_values({"rayJob": {"ownCluster": True}}) == {"rayJob": {"ownCluster": True, "suspend": True}}


def test_under_kueue_the_job_is_taken_away():
    queued = {"rayJob": {"ownCluster": True, "queue": "tpu"}}
    assert stop_values(queued) == queued | {"job": {"enabled": False}}
