"""What is known before anything is compiled. The totals are those that libtpu's compiler reported (2 x v6e-16)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from driver.plan import bounds, remat
from driver.plan.bounds import UnusableError
from driver.plan.verdict import Case
from tests.plan.scripted import SPEEDS, site

B70: dict[str, Any] = {"model_name": "llama3-70b", "dcn_fsdp_parallelism": 2, "dcn_data_parallelism": 1}
NARROW: dict[str, Any] = {"weight_dtype": "bfloat16"}
INPUT_AWAY = {"remat_policy": "custom", "decoder_layer_input": "offload"}

# Arguments, number of slices, GiB per chip that the compiler needs.
REPORTED = [
    ({**B70, "per_device_batch_size": 2}, 2, 49.84),
    ({**B70, "per_device_batch_size": 1}, 2, 43.64),
    ({**B70, **NARROW, "per_device_batch_size": 2}, 2, 34.37),
    ({**B70, **NARROW, "per_device_batch_size": 1}, 2, 27.81),
    ({**B70, **NARROW, "per_device_batch_size": 2, "param_scan_axis": 0}, 2, 30.00),
    ({**B70, **NARROW, **INPUT_AWAY, "per_device_batch_size": 2}, 2, 26.5),
    ({**B70, **INPUT_AWAY, "per_device_batch_size": 2, "optimizer_memory_host_offload": True}, 2, 29.57),
    ({"model_name": "llama3-70b", **NARROW, "per_device_batch_size": 1}, 1, 48.57),
    ({"ici_tensor_parallelism": 4}, 1, 21.9),
    ({"ici_tensor_parallelism": 4}, 2, 25.8),
    ({}, 1, 19.6),
    ({}, 2, 20.2),
]


def parameters(config: Mapping[str, Any]) -> int:
    sizes = bounds.model(config)
    assert sizes
    return sizes.parameters


@pytest.mark.parametrize(("arguments", "slices", "reported"), REPORTED)
def test_the_bound_is_not_above_what_the_compiler_needs(tmp_path, arguments, slices, reported):
    assert site(tmp_path, slices, **arguments).bound_gib(Case(slices)) <= reported


def test_the_bound_is_near_enough_to_drop_what_is_far_too_large(tmp_path):
    assert site(tmp_path, **B70, per_device_batch_size=2).bound_gib(Case(2)) > 31.25


def test_what_the_host_keeps_is_not_in_the_bound(tmp_path):
    here = site(tmp_path, **B70, per_device_batch_size=2)
    away = Case.of(2, {"optimizer_memory_host_offload": True})
    assert here.bound_gib(Case(2)) - here.bound_gib(away) == pytest.approx(70.55e9 * 8 / 32 / 2**30, rel=0.001)


def test_weights_of_a_known_model_are_counted_one_by_one(tmp_path):
    # MaxText's log: "number parameters: 8.030 billion".
    assert parameters(site(tmp_path).config(Case(2))) == 8_030_261_248


def test_a_mixture_of_experts_has_every_experts_weights(tmp_path):
    # Mixtral's authors say 46.7 billion.
    config = site(tmp_path, model_name="mixtral-8x7b").config(Case(2))
    assert parameters(config) == pytest.approx(46.7e9, rel=0.001)


def test_a_model_whose_weights_are_not_counted_has_no_bound(tmp_path):
    assert site(tmp_path, decoder_block="deepseek").bound_gib(Case(2)) == 0


def test_a_checkpoint_has_twelve_bytes_for_each_float32_weight(tmp_path):
    assert site(tmp_path).work(Case(2)).checkpoint_bytes == 12 * 8_030_261_248


def test_with_bfloat16_weights_adams_moments_are_bfloat16_too(tmp_path):
    assert site(tmp_path, **NARROW).work(Case(2)).checkpoint_bytes == 6 * 8_030_261_248


def test_one_axis_takes_the_devices_that_the_others_leave(tmp_path):
    where = site(tmp_path, ici_tensor_parallelism=4).mesh(Case(2))
    assert (where.ici["fsdp"], where.ici["tensor"], where.dcn["data"]) == (4, 4, 2)


def test_axes_that_do_not_multiply_to_the_devices_are_named_with_both_numbers(tmp_path):
    wrong = site(tmp_path, ici_fsdp_parallelism=4, ici_tensor_parallelism=2)
    with pytest.raises(UnusableError, match=r"ici_fsdp_parallelism=4, ici_tensor_parallelism=2 multiply to 8.*16 dev"):
        wrong.mesh(Case(2))


def test_two_open_axes_of_a_kind_are_refused(tmp_path):
    with pytest.raises(UnusableError, match="ici_fsdp_parallelism and ici_tensor_parallelism are -1"):
        site(tmp_path, ici_tensor_parallelism=-1).mesh(Case(2))


def test_dcn_axes_on_one_slice_are_refused(tmp_path):
    with pytest.raises(UnusableError, match="dcn_fsdp_parallelism=2.* on one slice"):
        site(tmp_path, 1, dcn_fsdp_parallelism=2, dcn_data_parallelism=1).mesh(Case(1))


def test_fewer_slices_accumulate_what_an_elastic_run_keeps(tmp_path):
    here = site(tmp_path, 4, smallest=1)
    assert [here.batch(Case(n)).accumulated for n in (1, 2, 4)] == [4, 2, 1]


def test_maxtexts_tflops_do_not_count_what_is_computed_again(tmp_path):
    here = site(tmp_path)
    assert here.work(Case(2)).model_tflop == here.work(Case.of(2, remat.policy("minimal"))).model_tflop


def test_what_is_computed_again_makes_a_step_roughly_longer(tmp_path):
    here = site(tmp_path)
    assert here.rough(Case(2))[0] > here.rough(Case.of(2, remat.policy("minimal_with_context")))[0]


def test_the_product_out_of_the_mlp_takes_no_memory(tmp_path):
    # The compiler's report of a step that keeps it by name has no stack of it: nothing needs it again.
    sizes = bounds.model(site(tmp_path).config(Case(2)))
    assert sizes
    assert remat.kept_elements(sizes, frozenset({"mlpwo"})) == 0
    bound = {name: site(tmp_path, remat_policy=name).bound_gib(Case(2)) for name in remat.POLICIES}
    assert bound["save_dot_except_mlpwi"] == bound["save_dot_except_mlp"]


def test_no_two_rungs_of_the_ladder_keep_the_same():
    kept = [remat.kept_names(changes) for _, changes in remat.LADDER]
    assert len(set(kept)) == len(kept)


def peak(tmp_path, **arguments: Any) -> float:
    return site(tmp_path, **arguments).peak(Case(2))


def test_no_link_is_in_the_peak(tmp_path):
    alone = peak(tmp_path)
    assert alone == peak(tmp_path, ici_tensor_parallelism=4)
    assert alone == peak(tmp_path, dcn_fsdp_parallelism=2, dcn_data_parallelism=1)
    assert alone == peak(tmp_path, optimizer_memory_host_offload=True)


def test_the_peak_has_what_a_policy_computes_again(tmp_path):
    counted = site(tmp_path).work(Case(2)).model_tflop
    assert counted
    once = counted / SPEEDS.tflops
    assert peak(tmp_path, remat_policy="minimal_with_context") == pytest.approx(once)
    assert peak(tmp_path, remat_policy="full") == pytest.approx(once * 4 / 3, rel=0.1)


def test_a_policy_that_is_not_known_may_compute_nothing_again(tmp_path):
    assert peak(tmp_path, remat_policy="minimal_with_quantization") == peak(
        tmp_path, remat_policy="minimal_with_context"
    )


def test_of_quantized_products_there_is_no_peak(tmp_path):
    assert peak(tmp_path, quantization="int8") == 0


def test_what_goes_to_the_host_and_what_comes_back_are_beside_each_other(tmp_path):
    here = site(tmp_path, optimizer_memory_host_offload=True, per_device_batch_size=1, max_target_length=128)
    here = replace(here, speeds=replace(here.speeds, ici=float("inf"), dcn=float("inf")))
    state = 8_030_261_248 * 8 / 16
    assert here.rough(Case(2))[0] == pytest.approx(state / here.speeds.host)


def test_a_text_is_read_as_maxtext_reads_it(tmp_path):
    texts: dict[str, Any] = {
        "max_target_length": "4096.0",
        "optimizer_memory_host_offload": "false",
        "ici_fsdp_parallelism": "16",
    }
    config = site(tmp_path, **texts).config(Case(2))
    assert (config["max_target_length"], config["optimizer_memory_host_offload"]) == (4096, False)
    assert site(tmp_path, **texts).bound_gib(Case(2)) == site(tmp_path, ici_fsdp_parallelism=16).bound_gib(Case(2))
    assert site(tmp_path, max_target_length="8k").config(Case(2))["max_target_length"] == "8k"


def test_a_tuned_variant_has_its_models_sizes(tmp_path):
    assert parameters(site(tmp_path, model_name="llama3-8b-Instruct").config(Case(2))) == 8_030_261_248
