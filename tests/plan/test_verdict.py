"""What is said of one configuration."""

import json

import pytest

from driver.plan.verdict import Answer, Case, Memory, Refusal, StepTime, Work, judge
from tests import run_files
from tests.plan.scripted import memory

RUN = run_files.content()
WORK = Work(tokens=16384, model_tflop=900, checkpoint_bytes=96e9)
STEP = StepTime(2.0, {"compute": 1.5, "waiting for DCN": 0.5}, ici_bytes=4e10, dcn_bytes=1e9)


def test_what_leaves_room_fits():
    verdict = judge(RUN, Answer(Case(2), memory(22)), WORK)
    assert verdict.fits
    assert verdict.spare_gib == pytest.approx(9.25)


def test_what_needs_more_than_a_program_can_use_does_not_fit():
    assert not judge(RUN, Answer(Case(2), memory(50.01)), WORK).fits


def test_what_is_nearer_to_the_limit_than_the_report_is_exact_counts_as_not_fitting():
    verdict = judge(RUN, Answer(Case(2), memory(31.2)), WORK)
    assert verdict.close
    assert not verdict.fits


def test_a_close_call_fits_once_the_whole_compilation_has_accepted_it():
    verdict = judge(RUN, Answer(Case(2), memory(31.2), accepted=True), WORK)
    assert verdict.fits
    assert not verdict.close


def test_without_scanned_layers_the_code_of_each_is_left_room_for():
    for said in (False, "false"):
        verdict = judge(RUN, Answer(Case.of(2, {"scan_layers": said}), memory(30)), WORK)
        assert verdict.close
        assert not verdict.fits
    assert judge(RUN, Answer(Case.of(2, {"scan_layers": False}), memory(29)), WORK).fits
    assert judge(RUN, Answer(Case.of(2, {"scan_layers": None}), memory(30)), WORK).fits


def test_what_the_whole_compilation_refuses_does_not_fit_whatever_the_report_said():
    assert not judge(RUN, Answer(Case(2), memory(20), Refusal("memory", "out of memory")), WORK).fits


def test_rates_are_per_chip():
    rates = judge(RUN, Answer(Case(2), memory(22)), WORK, step=STEP).rates
    assert rates == {"tokensPerSecondPerChip": 8192, "tflopsPerChip": 450, "mfu": pytest.approx(450 / 918)}


def test_a_chip_of_two_devices_does_the_work_of_both_and_each_has_half_of_its_hbm():
    run = run_files.content(tpu={"devicesPerChip": 2, "hbmGiBPerChip": 189.48})
    verdict = judge(run, Answer(Case(2), memory(90)), WORK, step=STEP)
    assert verdict.usable_gib == pytest.approx(94.74)
    assert verdict.rates["tokensPerSecondPerChip"] == 16384


def test_without_a_price_nothing_costs_anything():
    assert judge(RUN, Answer(Case(2), memory(22)), WORK, step=STEP).cost == {}


def test_a_price_per_chip_hour_gives_the_cost_of_a_step_of_the_run_and_of_a_billion_tokens():
    cost = judge(RUN, Answer(Case(2), memory(22)), WORK, step=STEP, price=1.8).cost
    assert cost["perStep"] == pytest.approx(32 * 1.8 * 2 / 3600)
    assert cost["run"] == pytest.approx(100 * cost["perStep"])
    assert cost["perBillionTokens"] == pytest.approx(cost["perStep"] * 1e9 / (16384 * 32))


def test_maxtexts_own_count_of_the_work_stands_above_the_drivers():
    answer = Answer(Case(2), memory(22), work=Work(tokens=8192, model_tflop=450))
    assert judge(RUN, answer, WORK, step=STEP).rates["tflopsPerChip"] == 225


def test_the_data_is_json_and_says_null_for_what_is_not_known():
    data = json.loads(json.dumps(judge(RUN, Answer(Case.of(2, {"remat_policy": "full"}), memory(22)), WORK).as_data()))
    assert data["fits"] is True
    assert data["step"] is None
    assert data["changes"] == {"remat_policy": "full"}
    assert data["hbmGiB"]["usable"] == 31.25


def test_a_null_takes_an_argument_away():
    assert "scan_layers" not in Case.of(2, {"scan_layers": None}).arguments(RUN)


def test_equal_changes_in_another_order_are_the_same_case():
    assert Case.of(2, {"a": 1, "b": 2}) == Case.of(2, {"b": 2, "a": 1})


def test_the_kinds_of_memory_are_in_the_data():
    answer = Answer(Case(2), Memory(22, {"weights": 2, "the rest": 20}))
    assert judge(RUN, answer, WORK).as_data()["hbmGiB"]["kinds"] == {"weights": 2, "the rest": 20}


def test_within_two_percent_of_the_limit_only_the_whole_compilation_tells():
    judged = {gib: judge(RUN, Answer(Case(2), memory(gib)), Work(1)) for gib in (30.6, 30.7, 31.8, 31.9)}
    assert [judged[gib].fits for gib in judged] == [True, False, False, False]
    assert [judged[gib].close for gib in judged] == [False, True, True, False]
    assert judge(RUN, Answer(Case(2), memory(30.7), accepted=True), Work(1)).fits
