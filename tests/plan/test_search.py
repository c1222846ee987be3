"""The search: what it compiles, what it leaves out, and what it says is best."""

from typing import Any

import pytest
import yaml

from driver.errors import DriverError
from driver.plan import planning, remat
from driver.plan.planning import Plan, Wishes
from driver.plan.verdict import Case, Refusal
from tests.plan.scripted import ScriptedCompiler, Untold, batch, memory, searched, second, site, timed


def test_every_candidate_is_counted_once(tmp_path):
    tally = searched(site(tmp_path), ScriptedCompiler(lambda case: memory(20), tmp_path)).tally
    counted = tally.by_bound + tally.by_neighbour + tally.too_slow + tally.beyond_limit + tally.compiled
    assert counted == tally.candidates > 100


def test_it_compiles_no_more_than_the_limit(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(40), tmp_path)
    assert searched(site(tmp_path), compiler, limit=7).tally.compiled == 7
    assert len(compiler.asked) == 7


def test_what_cannot_fit_by_the_bound_is_not_compiled(tmp_path):
    here = site(tmp_path, model_name="llama3-70b", per_device_batch_size=2)
    compiler = ScriptedCompiler(lambda case: memory(40), tmp_path)
    assert searched(here, compiler).tally.by_bound > 0
    assert all(here.bound_gib(case) <= 31.25 for case in compiler.asked[1:])


def test_what_keeps_all_that_one_without_room_keeps_is_not_compiled(tmp_path):
    here = site(tmp_path)
    compiler = ScriptedCompiler(lambda case: memory(40), tmp_path)
    searched(here, compiler, limit=1000)
    seen: list[tuple[tuple[Any, ...], remat.Kept]] = []
    for case in compiler.asked:
        group = tuple(pair for pair in case.changes if pair[0] not in ("remat_policy", *remat.LOCATIONS))
        kept = remat.kept_names(here.config(case))
        assert not any(g == group and k.device <= kept.device and k.host <= kept.host for g, k in seen)
        seen.append((group, kept))


def test_of_one_sharding_batch_and_offload_two_policies_that_fit_are_enough(tmp_path):
    search = searched(site(tmp_path), ScriptedCompiler(lambda case: memory(20), tmp_path), limit=1000)
    groups = [found.candidate.group for found in search.tally.fitting]
    assert max(groups.count(group) for group in groups) == 2


def test_what_the_compiler_refuses_is_counted_and_passed_over(tmp_path):
    compiler = ScriptedCompiler(lambda case: Refusal("other", "it cannot") if case.changes else memory(40), tmp_path)
    tally = searched(site(tmp_path), compiler, limit=6).tally
    assert (tally.compiled, tally.refused, tally.refusal, tally.fitting) == (6, 5, "it cannot", [])


def test_a_candidate_of_an_elastic_run_fits_on_every_number_of_slices(tmp_path):
    here = site(tmp_path, 2, smallest=1)
    compiler = ScriptedCompiler(lambda case: memory(40 if case.slices == 1 else 20), tmp_path)
    assert searched(here, compiler, (1, 2), limit=5).tally.fitting == []
    # One that has failed on one slice is not compiled for two.
    assert {case.slices for case in compiler.asked} == {1}


def test_what_fits_is_ordered_by_its_schedule(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    search = searched(site(tmp_path), compiler, predictor=timed(compiler, batch))
    seconds = [found.seconds for found in search.tally.fitting]
    assert seconds == sorted(seconds)
    assert len(set(seconds)) > 10


def test_what_is_slower_at_its_peak_than_the_best_schedule_is_not_compiled(tmp_path):
    here = site(tmp_path)
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    search = searched(here, compiler, predictor=timed(compiler, lambda case: 0.001), limit=1000)
    assert len(compiler.asked) == 1
    assert search.tally.too_slow == search.tally.candidates - search.tally.by_bound - 1


def test_of_activations_that_had_no_room_beside_a_smaller_state_none_is_compiled_beside_a_larger(tmp_path):
    here = site(tmp_path)
    compiler = ScriptedCompiler(lambda case: memory(40), tmp_path)
    searched(here, compiler, limit=1000)
    seen: list[tuple[tuple[float, ...], remat.Kept, float]] = []
    for case in compiler.asked:
        load, kept, resident = here.load(case), remat.kept_names(here.config(case)), here.resident_gib(case)
        for other, less, state in seen:
            if other == load and less.device <= kept.device and less.host <= kept.host:
                assert resident + 40 - state <= 31.25
        seen.append((load, kept, resident))


def test_it_tells_after_each_answer(tmp_path):
    told: list[int] = []
    compiler = ScriptedCompiler(lambda case: memory(40), tmp_path)
    searched(site(tmp_path), compiler, limit=4, tell=lambda tally: told.append(tally.compiled))
    assert told == [1, 2, 3, 4]


def test_where_no_time_is_predicted_the_order_is_the_rough_one_and_it_says_why(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    search = searched(site(tmp_path), compiler, predictor=Untold())
    ranked = search.finals(2)
    assert [found.candidate.rough for found in ranked] == sorted(found.candidate.rough for found in ranked)
    assert len(compiler.completed) == 2
    assert set(search.untimed) == {"No step time is predicted: The speed of PCIe is not known."}


# The run as it is.


@pytest.mark.parametrize("arguments", [{}, {"model_name": "llama3-70b"}, {"ici_tensor_parallelism": 2}])
def test_the_run_as_it_is_is_judged_first_whatever_is_known_of_it(tmp_path, arguments):
    here = site(tmp_path, **arguments)
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    search = searched(here, compiler, limit=3)
    assert compiler.asked[0] == Case(2)
    assert Case(2) in {found.candidate.case for found in search.tally.fitting}
    assert compiler.asked.count(Case(2)) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"per_device_batch_size": "four"},
        {"max_target_length": "8k"},
        {"ici_fsdp_parallelism": "auto"},
        {"num_vocab_tiling": "many"},
        {"base_num_kv_heads": "all"},
    ],
)
def test_what_maxtext_refuses_of_the_run_ends_the_search_after_one_compilation(tmp_path, arguments):
    compiler = ScriptedCompiler(lambda case: Refusal("argument", "Input should be a valid number"), tmp_path)
    with pytest.raises(DriverError, match="Input should be a valid number") as raised:
        searched(site(tmp_path, **arguments), compiler)
    assert raised.value.exit_code == 2
    assert compiler.asked == [Case(2)]


def test_what_maxtext_takes_and_nobody_can_count_by_ends_the_search_with_one_message(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    with pytest.raises(DriverError, match="cannot count by the run's arguments") as raised:
        searched(site(tmp_path, gradient_accumulation_steps=[2]), compiler)
    assert raised.value.exit_code == 2


def test_a_run_that_has_no_room_does_not_end_the_search(tmp_path):
    def script(case: Case):
        return memory(20) if case.changes else Refusal("memory", "Ran out of memory in memory space hbm")

    search = searched(site(tmp_path), ScriptedCompiler(script, tmp_path), limit=3)
    assert len(search.tally.fitting) == 2


def test_what_a_policy_that_is_not_known_needs_says_nothing_of_others(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20 if case.changes else 60), tmp_path)
    here = site(tmp_path, remat_policy="minimal_with_quantization")
    searched(here, compiler, limit=1000)
    assert here.load(Case(2)) in {here.load(case) for case in compiler.asked[1:]}


# A model whose parameters are not counted.


def test_what_has_no_room_says_nothing_of_those_with_their_state_on_the_host_where_no_state_is_counted(tmp_path):
    def script(case: Case):
        return memory(20 if dict(case.changes).get("optimizer_memory_host_offload") else 40)

    here = site(tmp_path, decoder_block="gemma3", per_device_batch_size=1)
    assert searched(here, ScriptedCompiler(script, tmp_path)).tally.fitting


# The whole search, as it is planned.


def planned(here, compiler, predictor=second, **wishes: Any) -> Plan:
    return planning.search(here, compiler, predictor, Wishes(**wishes), lambda tally: None, lambda case, text: None)


def test_a_winner_that_is_the_run_as_it_is_is_said_to_be_and_its_file_has_no_values(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    seconds = timed(compiler, lambda case: 2.0 if case.changes else 1.0)
    plan = planned(site(tmp_path), compiler, seconds)
    assert plan.verdicts[0].case == Case(2)
    assert planning.AS_IT_IS in plan.notes
    assert yaml.safe_load(plan.team_file) == {}
    assert plan.team_file.startswith("# ")


def test_another_winner_is_not_said_to_be_the_run_as_it_is(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    plan = planned(site(tmp_path), compiler, timed(compiler, lambda case: 1.0 if case.changes else 2.0))
    assert planning.AS_IT_IS not in plan.notes
    assert yaml.safe_load(plan.team_file)["job"]["maxtext"]


def test_a_text_for_a_number_ends_a_search_as_it_ends_a_plan(tmp_path):
    compiler = ScriptedCompiler(lambda case: Refusal("argument", "per_device_batch_size='four'"), tmp_path)
    with pytest.raises(DriverError, match="MaxText refuses the arguments: per_device_batch_size='four'") as raised:
        planned(site(tmp_path, per_device_batch_size="four"), compiler)
    assert raised.value.exit_code == 2
    assert compiler.asked == [Case(2)]


def test_one_that_is_interrupted_before_anything_is_known_says_so(tmp_path):
    def script(case: Case):
        raise KeyboardInterrupt

    with pytest.raises(DriverError, match="Interrupted while the run as it is was compiled"):
        planned(site(tmp_path), ScriptedCompiler(script, tmp_path))
