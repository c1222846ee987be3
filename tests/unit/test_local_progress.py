"""How a local run is shown."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from driver.local import progress
from driver.local.hosts import State
from driver.local.progress import Gauges, View, duration

RUN = {"name": "demo", "steps": 60}
METRICS = """\
# HELP ray_maxtext_step last completed step
# TYPE ray_maxtext_step gauge
ray_maxtext_step{attempt="1",run="demo"} 12.0
ray_maxtext_restarts{attempt="1",run="demo"} 1.0
# TYPE ray_tasks gauge
ray_tasks{State="RUNNING"} 3.0
"""


@pytest.fixture
def machine(monkeypatch):
    """A clock, what the hosts' metrics ports answer, and the ports that were asked."""
    at = SimpleNamespace(time=100.0, answers={1: "", 2: METRICS}, asked=[])

    def answer(url):
        at.asked.append(int(url.split(":")[2].split("/")[0]))
        return at.answers[at.asked[-1]]

    monkeypatch.setattr("driver.local.dashboard.text", answer)
    monkeypatch.setattr("driver.local.progress.time.monotonic", lambda: at.time)
    return at


def test_gauges_go_by_the_trainers_names(machine):
    assert Gauges().read([1, 2]) == {"step": 12.0, "restarts": 1.0}


def test_before_the_first_gauge_there_are_none(machine):
    assert Gauges().read([1]) == {}


def test_the_host_that_reports_is_asked_alone_and_once_a_second(machine):
    gauges = Gauges()
    for _ in range(6):
        gauges.read([1, 2])
        machine.time += 0.5
    assert machine.asked == [1, 2, 2, 2]


def test_another_host_may_report_next(machine):
    gauges = Gauges()
    gauges.read([1, 2])
    machine.time += 1
    machine.answers = {1: METRICS.replace("12.0", "8.0"), 2: ""}
    assert gauges.read([1, 2])["step"] == 8.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1:00 min"), (187, "3:07 min"), (3723, "1:02:03 h"), (3599.6, "1:00:00 h")],
)
def test_durations_have_the_unit_that_suits_them(seconds, text):
    assert duration(seconds) == text


def test_the_numbers_of_a_step_are_one_line():
    gauges = {"loss": 2.5, "step_seconds": 0.1, "tokens_per_second_per_chip": 12345.6, "last_checkpoint_step": 20}
    view = View(RUN, "Training", gauges=gauges, restarts=1)
    assert view.numbers() == "loss 2.500  0.100 s/step  12,346 tokens/s per chip  checkpoint 20  restarts 1"


def test_the_time_left_is_that_of_the_last_step_for_each_to_come():
    assert View(RUN, "Training", gauges={"step": 49, "step_seconds": 2.0}).seconds_left == 20.0
    assert View(RUN, "Training", gauges={"step": 49}).seconds_left is None


def shown(terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=terminal, color_system=None)
    with progress.display(console) as display:
        display.show(View(RUN, "Starting the hosts", {0: State.READY, 1: State.STARTING}))
        display.show(
            View(RUN, "Training", {0: State.READY, 1: State.GONE}, {"step": 20, "loss": 2.5, "step_seconds": 1})
        )
        display.tell("slice 1 [vanishes] at step 20")
    return out.getvalue()


def test_in_a_terminal_the_state_is_a_block_below_what_happened():
    said = shown(terminal=True)
    assert "slice 1 [vanishes] at step 20" in said
    assert "step 20 of 59" in said
    assert "39 s left" in said
    assert "● 0 ready  ● 1 gone" in said


def test_in_a_log_each_thing_is_a_line():
    lines = shown(terminal=False).splitlines()
    assert [line.partition("] ")[2] for line in lines] == [
        "Starting the hosts",
        "Training",
        "slice 1 [vanishes] at step 20",
    ]


def test_in_a_log_steps_come_every_ten_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("driver.local.progress.time.monotonic", lambda: now[0])
    out = io.StringIO()
    with progress.display(Console(file=out, width=100)) as display:
        for step in range(25):
            display.show(View(RUN, "Training", gauges={"step": step, "loss": 2.5}))
            now[0] += 1
    assert [line for line in out.getvalue().splitlines() if "step" in line] == [
        "[     10 s] step 10 of 59  loss 2.500",
        "[     20 s] step 20 of 59  loss 2.500",
    ]
