"""What the gauges tell over time."""

from driver.kube.training import Training


def test_what_is_missing_is_as_it_was():
    training = Training()
    training.see({"step": 3.0, "loss": 2.0, "restarts": 0.0}, 0)
    training.see({"step": 4.0, "restarts": 0.0}, 1)
    assert training.known["loss"] == 2.0
    assert training.step == 4


def test_a_session_begins_with_another_count_of_restarts_at_the_step_after_its_checkpoint():
    training = Training()
    training.see({"step": 31.0, "restarts": 0.0, "last_checkpoint_step": 20.0}, 0)
    session = training.see({"restarts": 1.0, "slices": 1.0, "last_checkpoint_step": 25.0}, 50)
    assert session is not None
    assert (session.start_step, session.slices, session.previous_heard_at) == (26, 1, 0)
    assert training.last_step == 31
    assert not training.stepping


def test_the_gauges_that_ray_still_shows_of_the_group_before_are_not_taken_for_news():
    training = Training()
    training.see({"step": 31.0, "restarts": 0.0}, 0)
    training.see({"restarts": 1.0, "last_checkpoint_step": 20.0}, 50)
    assert training.see({"step": 31.0, "restarts": 0.0}, 51) is None
    assert len(training.sessions) == 2
    assert training.step == 20


def test_a_job_that_is_submitted_again_is_known_by_a_step_that_was_there_before():
    training = Training()
    training.see({"step": 31.0, "restarts": 0.0, "last_checkpoint_step": 20.0}, 0)
    assert training.see({"step": 21.0, "restarts": 0.0, "last_checkpoint_step": 20.0}, 90) is not None


def test_silence_is_longer_than_three_steps():
    training = Training()
    training.see({"step": 1.0, "step_seconds": 20.0}, 0)
    assert not training.silent(59)
    assert training.silent(61)
