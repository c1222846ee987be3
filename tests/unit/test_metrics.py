"""Progress records, written and read back."""

import pytest
from metrics import collect, read, write


def step(number, time, loss=1.0, attempt=1):
    return {"kind": "step", "attempt": attempt, "session": 1, "step": number, "time": time, "loss": loss}


def test_what_was_written_is_read(tmp_path):
    write(tmp_path, [step(0, 1.0), step(1, 2.0)], 0, 1000)
    write(tmp_path, [step(2, 3.0), {"kind": "end", "attempt": 1, "time": 4.0, "succeeded": True}], 2, 2000)
    history = read(tmp_path)
    assert list(history.steps) == [0, 1, 2]
    assert history.end is not None
    assert history.end["succeeded"]


def test_a_step_trained_again_counts_once_by_its_newest_record(tmp_path):
    write(tmp_path, [step(5, 20.0, loss=2.0)], 5, 20_000)
    write(tmp_path, [step(5, 10.0, loss=3.0)], 5, 10_000)
    assert read(tmp_path).steps[5]["loss"] == 2.0


def test_the_newest_end_tells_how_the_run_ended():
    ends = [{"kind": "end", "attempt": 1, "time": t, "succeeded": t > 5} for t in (6.0, 4.0)]
    history = collect(ends)
    assert history.end is not None
    assert history.end["succeeded"]


def test_a_run_that_has_not_begun_has_no_history(tmp_path):
    assert read(tmp_path / "none").steps == {}


def test_a_broken_record_is_named(tmp_path):
    (tmp_path / "00000000-1.jsonl").write_text('{"kind"')
    with pytest.raises(ValueError, match="00000000-1.jsonl, line 1: not a JSON record"):
        read(tmp_path)
