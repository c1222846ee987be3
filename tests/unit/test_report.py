"""What a local run reports in the end."""

import io
import json
from pathlib import Path
from typing import Any

import metrics
import pytest
from rich.console import Console

from driver import resources
from driver.local import report

BEGUN = 1000.0
TPU = {"type": "v6e", "topology": "2x2", "hostsPerSlice": 1, "chipsPerHost": 4}


def step(number: int, time: float, loss: float, **more: Any) -> dict[str, Any]:
    return {"kind": "step", "attempt": 1, "session": 1, "step": number, "time": time, "loss": loss, "slices": 2,
            "step_seconds": 0.5, "tokens_per_second_per_chip": 100.0, **more}  # fmt: skip


def session(time: float, slices: int, start_step: int) -> dict[str, Any]:
    return {"kind": "session", "attempt": 1, "session": 1, "time": time, "slices": slices, "start_step": start_step}


def end(last: int) -> dict[str, Any]:
    return {"kind": "end", "attempt": 1, "time": 1099.0, "succeeded": True, "last_checkpoint": last, "message": ""}


@pytest.fixture
def facts(tmp_path):
    """Makes the facts of a run with these records."""

    def of(*records: dict[str, Any], succeeded: bool = True, cause: str = "", steps: int = 40) -> dict[str, Any]:
        if records:
            metrics.write(tmp_path / "demo" / "progress", list(records), 0, 1)
        (tmp_path / "demo").mkdir(exist_ok=True)
        run = {
            "name": "demo",
            "outputDirectory": str(tmp_path),
            "steps": steps,
            "slices": {"min": 1, "max": 2},
            "tpu": TPU,
        }
        events = [{"time": 1030.0, "kind": "slice", "text": "slice 1 vanishes at step 20"}]
        return report.facts(run, resources.trainer_dir(), succeeded=succeeded, cause=cause, begun=BEGUN, ended=1100.0,
                            events=events, log=Path("demo.log"))  # fmt: skip

    return of


def test_losses_are_means_of_the_first_and_last_ten_steps(facts):
    found = facts(*(step(n, 1010.0 + n, 40.0 - n) for n in range(40)), end(39))
    assert (found["lossFirst"], found["lossLast"]) == (35.5, 5.5)
    assert (found["lastStep"], found["lastCheckpoint"], found["stepsTrained"]) == (39, 39, 40)


def test_times_count_from_the_command_not_from_an_earlier_job_of_the_run(facts):
    earlier = [session(500.0, 2, 0), *(step(n, 510.0 + n, 5.0) for n in range(20))]
    found = facts(*earlier, session(1020.0, 2, 20), *(step(n, 1020.0 + n - 19, 4.0) for n in range(20, 40)), end(39))
    assert (found["wallSeconds"], found["secondsToFirstStep"]) == (100.0, 21.0)
    assert (found["stepsTrained"], found["restarts"]) == (20, 0)


def test_each_further_group_of_workers_is_a_restart(facts):
    found = facts(session(1001.0, 2, 0), step(0, 1002.0, 5.0), session(1040.0, 1, 1), step(1, 1041.0, 4.0), end(1))
    assert found["restarts"] == 1
    assert [entry["slices"] for entry in found["sessions"]] == [2, 1]


def test_evaluations_are_reported_by_step(facts):
    evaluation = {
        "kind": "eval",
        "attempt": 1,
        "session": 1,
        "step": 20,
        "time": 1030.0,
        "loss": 2.5,
        "perplexity": 12.2,
    }
    assert facts(step(20, 1029.0, 2.4), evaluation)["evalLosses"] == [{"step": 20, "loss": 2.5}]


def test_the_last_checkpoint_of_a_failed_run_is_read_from_its_folder(facts, tmp_path):
    for name in ("0", "20", "30", "40.orbax-checkpoint-tmp"):
        items = tmp_path / "demo" / "checkpoints" / name / "items"
        items.mkdir(parents=True)
        for file in ("_METADATA", "manifest.ocdbt"):
            (items / file).write_text("{}")
        stamp = {"commit_timestamp_nsecs": None if name == "30" else 1}  # 30 was cut short
        (items.parent / "_CHECKPOINT_METADATA").write_text(json.dumps(stamp))
    assert facts(step(30, 1029.0, 2.4), succeeded=False, cause="worker 0: boom")["lastCheckpoint"] == 20


def test_there_is_a_picture_of_what_was_trained(facts):
    found = facts(session(1001.0, 2, 0), *(step(n, 1002.0 + n, 5.0) for n in range(9)), session(1030.0, 1, 9), end(8))
    assert Path(found["picture"]).read_bytes().startswith(b"\x89PNG")


def test_a_run_that_trained_nothing_has_no_picture_and_no_losses(facts):
    found = facts(succeeded=False, cause="no host")
    assert (found["picture"], found["lossFirst"], found["secondsToFirstStep"], found["lastCheckpoint"]) == (
        None,
        None,
        None,
        -1,
    )


def test_the_facts_are_json(facts):
    assert json.loads(json.dumps(facts(step(0, 1002.0, 5.0))))["run"] == "demo"


def summary(found: dict[str, Any], next_command: str = "") -> str:
    text = io.StringIO()
    report.summary(found, Console(file=text, width=200), next_command)
    return text.getvalue()


def test_the_summary_says_how_it_went_and_what_is_next(facts):
    said = summary(facts(*(step(n, 1010.0 + n, 40.0 - n) for n in range(40)), end(39)), "driver local -f [tiny]")
    assert "Run demo succeeded: step 39 of 39" in said
    assert "35.500 → 5.500" in said
    assert "1:40 min in all, 10 s to the first step, then 0.500 s a step" in said
    assert "driver local -f [tiny]" in said


def test_the_summary_of_a_failure_names_the_cause(facts):
    said = summary(facts(step(3, 1010.0, 5.0), succeeded=False, cause="worker 1: [boom]"))
    assert "Run demo failed: step 3 of 39" in said
    assert "worker 1: [boom]" in said


def test_a_run_that_was_complete_is_told_so(facts):
    assert "nothing was left to train" in summary(facts(step(39, 900.0, 5.0), end(39)))
