"""What a search looks through."""

from collections.abc import Sequence
from typing import Any

import pytest

from driver.plan import bounds, remat, torus
from driver.plan.bounds import UnusableError
from driver.plan.candidates import Site, candidates, check, check_new, needed
from driver.plan.verdict import Case
from driver.tpu import chips_in
from tests.plan.scripted import site


def changed(here: Site) -> set[str]:
    return {key for candidate in candidates(here, 2) for key, _ in candidate.case.changes}


def test_every_candidate_keeps_the_global_batch(tmp_path):
    here = site(tmp_path)
    for candidate in candidates(here, 2):
        assert here.batch(candidate.case).step_tokens == 4 * 4096


def test_no_candidate_changes_the_types_of_weights_or_the_sequence(tmp_path):
    changed = {key for candidate in candidates(site(tmp_path), 2) for key, _ in candidate.case.changes}
    assert not changed & {"weight_dtype", "mu_dtype", "grad_dtype", "dtype", "max_target_length", "param_scan_axis"}


def test_maxtext_takes_every_candidate(tmp_path):
    here = site(tmp_path)
    for candidate in candidates(here, 2):
        check(here, candidate.case)


def test_the_run_as_it_is_is_among_them(tmp_path):
    assert Case(2) in {candidate.case for candidate in candidates(site(tmp_path, ici_fsdp_parallelism=16), 2)}


def test_a_remat_policy_of_the_users_own_is_among_them(tmp_path):
    here = site(tmp_path, remat_policy="custom", decoder_layer_input="offload", mlpwo="device")
    assert Case(2) in {candidate.case for candidate in candidates(here, 2)}


def test_they_differ_in_sharding_within_and_between_slices_in_batch_remat_and_offload(tmp_path):
    changed = {key for candidate in candidates(site(tmp_path), 2) for key, _ in candidate.case.changes}
    assert {
        "ici_tensor_parallelism", "ici_data_parallelism", "dcn_fsdp_parallelism", "per_device_batch_size",
        "remat_policy", "decoder_layer_input", "query_proj", "optimizer_memory_host_offload",
    } <= changed  # fmt: skip


def test_experts_are_sharded_where_there_are_some(tmp_path):
    experts = {dict(c.case.changes).get("ici_expert_parallelism") for c in candidates(site(tmp_path), 2)}
    assert experts == {None}
    here = site(tmp_path, model_name="mixtral-8x7b")
    assert {4} < {dict(c.case.changes).get("ici_expert_parallelism") for c in candidates(here, 2)}


def test_an_elastic_run_gets_shardings_that_hold_on_every_number_of_slices(tmp_path):
    here = site(tmp_path, 4, smallest=1)
    for candidate in candidates(here, 4):
        for count in (1, 2, 4):
            here.mesh(candidate.case.on(count))


def test_the_roughly_fastest_comes_first(tmp_path):
    rough = [candidate.rough for candidate in candidates(site(tmp_path), 2)]
    assert rough == sorted(rough)


def test_the_bound_drops_what_cannot_fit(tmp_path):
    here = site(tmp_path, 1, model_name="llama3-70b", per_device_batch_size=1)
    plain = [c for c in candidates(here, 1) if not dict(c.case.changes).get("optimizer_memory_host_offload")]
    assert all(candidate.bound_gib > 31.25 for candidate in plain)


def test_a_change_that_says_what_holds_already_is_left_out(tmp_path):
    here = site(tmp_path, remat_policy="full")
    assert needed(here, {"remat_policy": "full", "ici_fsdp_parallelism": -1, "query_proj": None}) == {}


def test_a_change_to_maxtexts_default_is_made_where_the_run_says_otherwise(tmp_path):
    assert needed(site(tmp_path, ici_fsdp_parallelism=4), {"ici_fsdp_parallelism": -1}) == {"ici_fsdp_parallelism": -1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"ici_tensor_parallelism": 16}, "base_num_kv_heads=8 on 16 devices"),
        ({"per_device_batch_size": 0.5}, "16 sequences, which do not divide over the 32 shards"),
        ({"per_device_batch_size": 1.51}, "sequences, which do not divide"),
        ({"num_vocab_tiling": 7}, "num_vocab_tiling=7 does not divide"),
        ({"model_name": "mixtral-8x7b", "ici_expert_parallelism": 16}, "num_experts=8 on 16 devices"),
        ({"shard_optimizer_over_data": True}, "shard_optimizer_over_data with FSDP"),
        ({"parameter_memory_host_offload": True}, "param_scan_axis=0"),
    ],
)
def test_what_maxtext_would_refuse_is_refused_before_it_is_compiled(tmp_path, arguments, said):
    with pytest.raises(UnusableError, match=said):
        check(site(tmp_path, **arguments), Case(2))


@pytest.mark.parametrize(
    ("kind", "topology", "sizes", "takes"),
    [
        ("v6e", "4x4", (16,), True),
        ("v6e", "4x4", (4, 4), True),
        ("v6e", "4x4", (8, 2), False),
        ("v6e", "4x8", (8, 4), True),
        ("v6e", "4x8", (16, 2), False),
        ("v5p", "2x2x4", (4, 4), True),
        ("v5p", "2x2x4", (8, 2), True),
        # The last axis takes both axes of 2, and leaves none.
        ("v5p", "2x2x4", (2, 2, 4), False),
        ("v5p", "4x4x8", (32, 4), True),
        ("v5p", "4x4x4", (32, 2), False),
        # Eight devices are a line for JAX, which it cuts at will.
        ("v6e", "2x4", (4, 2), True),
        ("v6e", "2x4", (2, 2, 2), True),
        ("v5e", "2x4", (2, 2, 2), True),
        ("v5p", "2x2x2", (4, 2), True),
        ("v6e", "2x2", (4,), True),
    ],
)
def test_an_axis_of_the_mesh_takes_whole_axes_of_the_slice(kind, topology, sizes, takes):
    tpu = {
        "type": kind, "topology": topology, "hostsPerSlice": 1, "chipsPerHost": chips_in(topology), "devicesPerChip": 1
    }  # fmt: skip
    assert torus.takes({"tpu": tpu}, sizes) is takes


SPLIT: dict[str, Any] = {"ici_tensor_parallelism": 2, "ici_fsdp_parallelism": 8}


def test_a_mesh_that_the_torus_does_not_take_is_not_made(tmp_path):
    with pytest.raises(UnusableError, match="on 4x4: each takes whole axes"):
        check_new(site(tmp_path), Case.of(2, SPLIT))


def test_a_mesh_of_the_users_own_is_left_to_jax(tmp_path):
    check(site(tmp_path, **SPLIT), Case(2))
    check_new(site(tmp_path, **SPLIT), Case.of(2, {"remat_policy": "minimal"}))


def test_a_mesh_with_other_axes_is_left_to_maxtext_and_searched_as_it_is(tmp_path):
    here = site(tmp_path, custom_mesh_and_rule="ep-as-cp", ici_expert_parallelism=16, ici_fsdp_parallelism=5)
    check(here, Case(2))
    assert not any(axis.endswith("_parallelism") for axis in changed(here))


def test_maxtext_may_be_told_to_split_an_axis_of_the_slice(tmp_path):
    check_new(site(tmp_path, allow_split_physical_axes=True), Case.of(2, SPLIT))


def test_a_model_whose_weights_are_not_counted_is_searched_without_other_shardings(tmp_path):
    here = site(tmp_path, decoder_block="deepseek")
    assert bounds.model(here.config(Case(2))) is None
    changed = {key for candidate in candidates(here, 2) for key, _ in candidate.case.changes}
    assert changed
    assert not any(key.endswith("_parallelism") for key in changed)


@pytest.mark.parametrize(
    "arguments",
    [
        {"ici_fsdp_transpose_parallelism": 4},
        {"ici_pipeline_parallelism": 4},
        {"dcn_pipeline_parallelism": 2, "dcn_data_parallelism": 1},
        {"dcn_diloco_parallelism": 2, "dcn_data_parallelism": 1},
        {"custom_mesh": "hybrid_ring_64x4"},
    ],
)
def test_a_run_with_axes_that_the_search_does_not_vary_keeps_its_mesh(tmp_path, arguments):
    here = site(tmp_path, **arguments)
    meshes = [here.mesh(candidate.case) for candidate in candidates(here, 2)]
    assert len(meshes) > 10
    assert all(where == here.mesh(Case(2)) for where in meshes)


def falling(sizes: Sequence[float]) -> bool:
    return list(sizes) == sorted(sizes, reverse=True)


def test_of_a_model_whose_weights_are_not_counted_the_largest_batches_and_the_nearest_policies_come_first(tmp_path):
    here = site(tmp_path, decoder_block="gemma3", remat_policy="minimal")
    found = list(candidates(here, 2))
    assert found[0].case == Case(2)
    assert falling([here.batch(candidate.case).per_device for candidate in found])
    own = remat.kept_names(here.config(Case(2)))
    of_one_group = [one.kept for one in found if one.group == found[0].group]
    distances = [len(kept.device ^ own.device) + len(kept.host ^ own.host) for kept in of_one_group]
    assert distances == sorted(distances)
    assert len(distances) > 5


def test_a_policy_that_is_not_known_is_tried_beside_all_others(tmp_path):
    here = site(tmp_path, remat_policy="minimal_with_quantization")
    own = [one for one in candidates(here, 2) if here.config(one.case)["remat_policy"] == "minimal_with_quantization"]
    assert Case(2) in {one.case for one in own}
    assert len(own) > 1
    assert any(here.config(one.case)["remat_policy"] == "full" for one in candidates(here, 2))


def test_no_two_candidates_are_the_same_program_by_what_their_policies_keep(tmp_path):
    here = site(tmp_path, remat_policy="custom", query_proj="device", key_proj="device", value_proj="device")
    programs = [(one.group, one.kept) for one in candidates(here, 2)]
    assert len(set(programs)) == len(programs)


def test_a_division_into_no_parts_is_left_to_maxtext(tmp_path):
    here = site(tmp_path, num_vocab_tiling=0)
    check(here, Case(2))
    assert here.bound_gib(Case(2)) == site(tmp_path, num_vocab_tiling=1).bound_gib(Case(2))
