"""The end of a search: which are compiled to the end, what code from an earlier plan counts, and what is refused."""

import pytest

from driver.errors import DriverError
from driver.plan.search import Found
from driver.plan.verdict import Case, Refusal, StepTime
from tests.plan.scripted import ScriptedCompiler, batch, memory, searched, site, timed


def steps(ranked: list[Found]) -> list[StepTime]:
    return [found.step for found in ranked if found.step]


def test_the_fastest_by_schedule_are_compiled_to_the_end(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    search = searched(site(tmp_path), compiler, predictor=timed(compiler, batch))
    first = [found.candidate.case for found in search.tally.fitting[:3]]
    ranked = search.finals(3)
    assert compiler.completed == first
    assert [step.generated for step in steps(ranked[:4])] == [True, True, True, False]
    assert [step.seconds for step in steps(ranked[:3])] == sorted(map(batch, first))
    assert search.tally.best is ranked[0]


def test_no_more_is_compiled_to_the_end_when_no_other_can_win(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    order: list[Case] = []

    def far_apart(case: Case) -> float:
        if case not in order:
            order.append(case)
        return 1.0 + order.index(case)

    search = searched(site(tmp_path), compiler, predictor=timed(compiler, far_apart))
    search.finals(3)
    assert compiler.completed == order[:1]


def test_a_finalist_that_the_whole_compilation_rejects_is_replaced_by_the_next(tmp_path):
    rejected: list[Case] = []

    def first(case: Case) -> bool | Refusal:
        rejected.append(case)
        return len(rejected) == 1

    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path, first)
    search = searched(site(tmp_path), compiler, predictor=timed(compiler, lambda case: 10.0))
    ranked = search.finals(2)
    assert [step.generated for step in steps(ranked[:3])] == [True, True, False]
    assert rejected[0] not in {found.candidate.case for found in ranked}


# What is in the cache with code.


def test_a_slow_one_with_code_from_an_earlier_plan_does_not_win_by_having_it(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    compiler.completed.append(Case(2))

    def seconds(case: Case) -> float:
        return batch(case) if case.changes else 100.0

    search = searched(site(tmp_path), compiler, predictor=timed(compiler, seconds))
    ranked = search.finals(3)
    assert len(compiler.completed) == 1 + 3
    assert ranked[0].generated
    assert ranked[0].candidate.case != Case(2)


def test_one_that_has_code_among_the_fastest_is_a_finalist_and_not_compiled_again(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    compiler.completed.append(Case(2))
    order: list[Case] = []

    def in_a_row(case: Case) -> float:
        if case not in order:
            order.append(case)
        return 1.0 + order.index(case) / 1000

    seconds = timed(compiler, lambda case: in_a_row(case) / 0.8 if case.changes else 1.0025)
    search = searched(site(tmp_path), compiler, predictor=seconds)
    # By their schedules 1.000, 1.001 and 1.002, before the one with code; what comes after it cannot win.
    ranked = search.finals(4)
    assert compiler.completed == [Case(2), *order[:3]]
    assert ranked[0].candidate.case == Case(2)


def test_without_finals_a_slow_one_with_code_is_not_the_first(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    compiler.completed.append(Case(2))
    seconds = timed(compiler, lambda case: batch(case) if case.changes else 100.0)
    search = searched(site(tmp_path), compiler, predictor=seconds)
    assert search.tally.fitting[-1].candidate.case == Case(2)
    assert search.tally.best is search.tally.fitting[0]


def test_what_cannot_win_is_told_by_the_shortest_time_of_any(tmp_path):
    here = site(tmp_path)
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    compiler.completed.append(Case(2))
    # The run has code and is slow; the first other one is faster than any chip.
    search = searched(here, compiler, predictor=timed(compiler, lambda case: 0.001 if case.changes else 100.0))
    assert len(compiler.asked) == 2
    assert search.tally.too_slow > 0


def test_what_is_rougher_than_the_best_but_not_slower_at_its_peak_is_compiled(tmp_path):
    here = site(tmp_path)
    peak = here.peak(Case(2))
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    search = searched(here, compiler, predictor=timed(compiler, lambda case: peak * 2 / 0.8), limit=1000)
    assert any(found.candidate.rough[0] > peak * 2 for found in search.tally.fitting)
    assert search.tally.too_slow == 0


# What whole compilations refuse.


def test_a_flag_that_fails_in_code_generation_is_not_tried_with_all_that_fit(tmp_path):
    refusal = Refusal("flag", "Continuation fusion for all-gather is enabled")
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path, rejected=lambda case: refusal)
    search = searched(site(tmp_path), compiler, predictor=timed(compiler, batch))
    with pytest.raises(DriverError, match="Continuation fusion") as raised:
        search.finals(3)
    assert raised.value.exit_code == 2
    assert len(compiler.completed) == 3
    assert search.tally.refusal == "Continuation fusion for all-gather is enabled"


def test_where_the_only_one_that_fits_is_refused_its_words_are_told(tmp_path):
    refusal = Refusal("flag", "Continuation fusion for all-gather is enabled")
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path, rejected=lambda case: refusal)
    search = searched(site(tmp_path), compiler, limit=1, predictor=timed(compiler, batch))
    with pytest.raises(DriverError, match="Continuation fusion"):
        search.finals(3)


def test_a_refusal_of_one_does_not_end_a_search_in_which_others_have_code(tmp_path):
    refused: list[Case] = []

    def one(case: Case) -> bool | Refusal:
        refused.append(case)
        return Refusal("flag", "no") if len(refused) == 1 else False

    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path, one)
    search = searched(site(tmp_path), compiler, predictor=timed(compiler, lambda case: 10.0))
    assert search.finals(2)[0].generated
    assert len(compiler.completed) == 3


@pytest.mark.parametrize("kind", ["killed", "disk", "other"])
def test_a_finalist_that_this_machine_has_ended_keeps_its_memory_and_its_place(tmp_path, kind):
    ended = Refusal(kind, "it was ended")
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path, rejected=lambda case: ended)
    search = searched(site(tmp_path), compiler, predictor=timed(compiler, batch))
    first = search.tally.fitting[0].candidate
    ranked = search.finals(2)
    assert ranked[0].candidate == first
    assert ranked[0].hbm_gib == 20
    assert not ranked[0].generated
    assert len(compiler.completed) == 2
    assert any(first.says in said and "it was ended" in said for said in search.untimed)
