"""Which single changes make a configuration fit."""

from typing import Any

import pytest

from driver.errors import DriverError
from driver.plan import fixes, planning
from driver.plan.planning import Plan, Wishes
from driver.plan.verdict import Case, Refusal
from tests.plan.scripted import ScriptedCompiler, Untold, memory, second, site, timed

BIG: dict[str, Any] = {
    "model_name": "llama3-70b", "dcn_fsdp_parallelism": 2, "dcn_data_parallelism": 1, "per_device_batch_size": 2,
}  # fmt: skip


def under(limit: float):
    return lambda answer: answer.memory is not None and answer.memory.total <= limit


def changed(tried) -> list[set[str]]:
    return [{key for key, _ in one.fix.changes} for one in tried]


def test_every_proposal_is_one_decision(tmp_path):
    here = site(tmp_path, **BIG)
    for fix in fixes.proposals(here, Case(2)):
        assert fix.says
        assert fix.changes
    says = [fix.says for fix in fixes.proposals(here, Case(2))]
    assert len(says) == len(set(says))


def test_a_smaller_batch_keeps_the_global_batch(tmp_path):
    here = site(tmp_path, **BIG)
    (fix,) = [one for one in fixes.proposals(here, Case(2)) if "accumulated" in one.says]
    assert dict(fix.changes) == {"per_device_batch_size": 1, "gradient_accumulation_steps": 2}
    assert here.batch(fix.case(Case(2))).step_tokens == here.batch(Case(2)).step_tokens


def test_what_changes_the_training_or_its_checkpoints_says_so(tmp_path):
    warned = {fix.warns for fix in fixes.proposals(site(tmp_path, **BIG), Case(2)) if fix.warns}
    assert warned == {
        "changes the arithmetic of the training",
        "checkpoints of the run as it is cannot be read with it",
    }


def test_nothing_is_proposed_that_the_run_has_already(tmp_path):
    here = site(tmp_path, **BIG, weight_dtype="bfloat16", optimizer_memory_host_offload=True, num_vocab_tiling=8)
    keys = {key for fix in fixes.proposals(here, Case(2)) for key, _ in fix.changes}
    assert not keys & {"weight_dtype", "mu_dtype", "optimizer_memory_host_offload", "num_vocab_tiling"}


def test_a_policy_that_keeps_more_is_not_proposed(tmp_path):
    here = site(tmp_path, **BIG)
    policies = {dict(fix.changes).get("remat_policy") for fix in fixes.proposals(here, Case(2))} - {None}
    assert policies == {"custom"}


def test_only_what_the_compiler_says_fits_is_told(tmp_path):
    here = site(tmp_path, **BIG)

    def script(case: Case):
        return memory(30 if dict(case.changes).get("optimizer_memory_host_offload") else 40)

    compiler = ScriptedCompiler(script, tmp_path)
    assert changed(fixes.verified(here, Case(2), [2], compiler, under(31), second)) == [
        {"optimizer_memory_host_offload"}
    ]


def test_what_a_bound_speaks_against_is_not_compiled(tmp_path):
    here = site(tmp_path, **BIG)
    compiler = ScriptedCompiler(lambda case: memory(40), tmp_path)
    fixes.verified(here, Case(2), [2], compiler, under(31), second)
    assert all(here.bound_gib(case) <= 31.25 for case in compiler.asked)


def test_the_fastest_by_its_schedule_comes_first(tmp_path):
    here = site(tmp_path, **BIG)
    compiler = ScriptedCompiler(lambda case: memory(30), tmp_path)

    def offloading_is_fast(case: Case) -> float:
        return 1.0 if dict(case.changes).get("parameter_memory_host_offload") else 2.0

    tried = fixes.verified(here, Case(2), [2], compiler, under(31), timed(compiler, offloading_is_fast))
    assert changed(tried)[0] == {"parameter_memory_host_offload", "param_scan_axis"}


def test_without_step_times_the_roughly_fastest_comes_first_and_what_changes_the_arithmetic_last(tmp_path):
    here = site(tmp_path, **BIG)
    tried = fixes.verified(here, Case(2), [2], ScriptedCompiler(lambda case: memory(30), tmp_path), under(31), Untold())
    harmless = [one.order for one in tried if not one.fix.warns]
    assert harmless == sorted(harmless)
    assert tried[-1].fix.warns == "changes the arithmetic of the training"


def test_an_elastic_runs_change_fits_on_every_number_of_slices(tmp_path):
    here = site(tmp_path, 2, smallest=1, per_device_batch_size=8)
    compiler = ScriptedCompiler(lambda case: memory(40 if case.slices == 1 else 20), tmp_path)
    assert fixes.verified(here, Case(2), [1, 2], compiler, under(31), second) == []


def test_a_change_that_maxtext_refuses_after_all_is_left_out(tmp_path):
    here = site(tmp_path, **BIG)
    compiler = ScriptedCompiler(lambda case: Refusal("argument", "no"), tmp_path)
    assert fixes.verified(here, Case(2), [2], compiler, under(31), second) == []


def test_it_tells_how_far_it_is(tmp_path):
    told: list[tuple[int, int]] = []
    compiler = ScriptedCompiler(lambda case: memory(30), tmp_path)
    fixes.verified(site(tmp_path, **BIG), Case(2), [2], compiler, under(31), second, lambda *at: told.append(at))
    assert told[-1] == (len(compiler.asked), len(compiler.asked))


# As a plan tells them.


def planned(here, compiler, **wishes: Any) -> Plan:
    return planning.plan(here, compiler, timed(compiler, lambda case: 2.0), Wishes(**wishes), lambda said: None)


def too_large(case: Case):
    return memory(25 if case.changes else 50)


@pytest.mark.parametrize("kind", ["killed", "disk", "other"])
def test_a_change_whose_compilation_this_machine_has_ended_is_told_with_its_memory(tmp_path, kind):
    ended = Refusal(kind, "it was ended")
    compiler = ScriptedCompiler(too_large, tmp_path, rejected=lambda case: ended)
    plan = planned(site(tmp_path, per_device_batch_size=8), compiler, finalists=2)
    told = {fix.case: fix for fix in plan.fixes}
    assert len(compiler.completed) == 2
    for case in compiler.completed:
        assert told[case].fits
        assert told[case].memory == memory(25)
        assert not (told[case].step and told[case].accepted)
        assert any(told[case].says in said and "it was ended" in said for said in plan.untimed)


def test_where_code_generation_refuses_every_change_its_words_are_told(tmp_path):
    refusal = Refusal("flag", "Continuation fusion for all-gather is enabled")
    compiler = ScriptedCompiler(too_large, tmp_path, rejected=lambda case: refusal)
    with pytest.raises(DriverError, match="Continuation fusion") as raised:
        planned(site(tmp_path, per_device_batch_size=8), compiler)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("quick", [True, False])
def test_of_an_elastic_runs_change_the_memory_is_that_of_the_slices_that_need_most(tmp_path, quick):
    def script(case: Case):
        return memory(50) if not case.changes else memory(28 if case.slices == 1 else 20)

    here = site(tmp_path, 2, smallest=1, per_device_batch_size=8)
    plan = planned(here, ScriptedCompiler(script, tmp_path), quick=quick)
    assert plan.fixes
    assert {fix.memory.total for fix in plan.fixes if fix.memory} == {28}


def test_a_division_of_the_loss_into_no_parts_is_maxtexts_to_refuse(tmp_path):
    compiler = ScriptedCompiler(lambda case: Refusal("argument", "num_vocab_tiling=0"), tmp_path)
    with pytest.raises(DriverError, match="num_vocab_tiling=0"):
        planned(site(tmp_path, num_vocab_tiling=0), compiler)


def test_a_batch_without_end_is_maxtexts_to_refuse(tmp_path):
    compiler = ScriptedCompiler(lambda case: Refusal("argument", "per_device_batch_size=inf"), tmp_path)
    with pytest.raises(DriverError, match="per_device_batch_size=inf"):
        planned(site(tmp_path, per_device_batch_size=float("inf")), compiler)
