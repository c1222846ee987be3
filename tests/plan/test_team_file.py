"""The winner as a values file, through the real chart and Helm."""

from typing import Any

import pytest
import yaml

from driver.chart import render
from driver.errors import DriverError
from driver.plan import team_file
from driver.plan.candidates import candidates
from driver.plan.verdict import Answer, Case, StepTime, Work, judge
from driver.values import Values, find_file
from tests.plan.scripted import memory, site

VALUES = Values((find_file("llama3-8b"),))


@pytest.fixture(scope="module")
def run():
    return render(VALUES, "demo").run


def written(run, case: Case) -> str:
    answer = Answer(case, memory(25))
    return team_file.text(run, judge(run, answer, Work(16384), step=StepTime(1.25, {"compute": 1.25})))


def test_it_holds_what_differs_and_nothing_else(run):
    text = written(run, Case.of(2, {"remat_policy": "minimal", "ici_fsdp_parallelism": None}))
    assert yaml.safe_load(text) == {"job": {"maxtext": {"ici_fsdp_parallelism": None, "remat_policy": "minimal"}}}


def test_its_first_lines_say_what_it_is_and_call_the_time_predicted(run):
    head = written(run, Case.of(2, {"remat_policy": "minimal"})).splitlines()[:4]
    assert all(line.startswith("# ") for line in head)
    assert "# Predicted: 1.250 s per step." in head
    assert "# HBM per device: 25.00 of 31.25 GiB." in head


def test_a_time_by_the_schedule_is_called_a_bound(run):
    step = StepTime(1.25, {"compute": 1.25}, generated=False)
    text = team_file.text(run, judge(run, Answer(Case(2), memory(25)), Work(16384), step=step))
    assert "# Predicted: at least 1.250 s per step." in text.splitlines()


def test_all_that_a_search_sets_is_known_as_such(tmp_path):
    given: dict[str, Any] = {"remat_policy": "minimal", "gradient_accumulation_steps": 2, "param_scan_axis": 0}
    tried = [one for count in (1, 4) for one in candidates(site(tmp_path, count, **given), count)]
    assert {key for one in tried for key, _ in one.case.changes} <= team_file.SEARCHED


def test_after_the_given_values_it_makes_the_winner(run, tmp_path):
    case = Case.of(2, {"remat_policy": "custom", "decoder_layer_input": "offload", "ici_fsdp_parallelism": None})
    text = written(run, case)
    team_file.check(VALUES, "demo", run, case, text)
    file = tmp_path / "team.yaml"
    file.write_text(text)
    again = render(Values((*VALUES.files, file), VALUES.sets), "demo").run
    assert again["maxtext"] == case.arguments(run)


def test_a_set_that_would_win_over_the_file_is_refused(run):
    values = Values(VALUES.files, (*VALUES.sets, "job.maxtext.remat_policy=full"))
    case = Case.of(2, {"remat_policy": "minimal"})
    with pytest.raises(DriverError, match="another remat_policy"):
        team_file.check(values, "demo", render(values, "demo").run, case, written(run, case))


def test_what_the_chart_refuses_is_refused(run):
    case = Case.of(2, {"run_name": "mine"})
    with pytest.raises(DriverError):
        team_file.check(VALUES, "demo", run, case, written(run, case))


def test_a_winner_that_is_the_given_run_makes_an_empty_file_that_helm_takes(run):
    case = Case(2)
    text = written(run, case)
    assert yaml.safe_load(text) == {}
    team_file.check(VALUES, "demo", run, case, text)
