"""The arithmetic of a step's time, on programs of a few instructions in the compiler's own syntax."""

import pytest

from driver import tpu
from driver.errors import DriverError
from driver.plan import codegen, step_time

V6E = tpu.hardware("v6e")
MS = 1_750_000
"""Cycles of v6e in a millisecond."""
ICI = 90e9
"""Bytes in a second over one link, which is what a line of two chips has."""


def fusion(name: str, cycles: int) -> str:
    return f'  %{name} = f32[8]{{0}} fusion(%p), kind=kLoop, calls=%f, backend_config={{"estimated_cycles":"{cycles}"}}'


def gather(megabytes: float, channel: int = 1, start: bool = False) -> str:
    """Of two devices: half of the result comes from the other."""
    size = int(megabytes * 2e6)
    call = f"replica_groups=[2,2]<=[4], channel_id={channel}, dimensions={{0}}"
    if start:
        return f"  %ag{channel} = (s8[{size // 2}]{{0}}, s8[{size}]{{0}}) all-gather-start(%p), {call}"
    return f"  %ag{channel} = s8[{size}]{{0}} all-gather(%p), {call}"


def program(*entry: str, **computations: list[str]) -> codegen.Program:
    texts = [f"%{name} (p: f32[8]) -> f32[8] {{\n" + "\n".join(body) + "\n}" for name, body in computations.items()]
    return codegen.parse("\n\n".join([*texts, "ENTRY %main (p: f32[8]) -> f32[8] {\n" + "\n".join(entry) + "\n}"]))


def predict(*entry: str, hardware: tpu.Hardware = V6E, topology: str = "2x2", **computations: list[str]):
    return step_time.predict(program(*entry, **computations), hardware, topology)


LOOP = "  %w = (s32[]) while(%t), condition=%cond, body=%body, backend_config={}"


def cond(trips: int) -> list[str]:
    return [f"  %n = s32[]{{:T(128)}} constant({trips})", "  ROOT %lt = pred[] compare(%i, %n), direction=LT"]


def test_computing_takes_the_cycles_that_the_compiler_estimates():
    assert predict(fusion("a", 3 * MS), fusion("b", MS)).seconds == pytest.approx(4e-3)


def test_a_loop_takes_its_body_times_its_trips_beside_a_peeled_iteration():
    step = predict(fusion("peeled", MS), LOOP, cond=cond(31), body=[fusion("b", 2 * MS)])
    assert step.seconds == pytest.approx(1e-3 + 31 * 2e-3)


def test_loops_in_loops_multiply():
    inner = "  %w2 = (s32[]) while(%t), condition=%cond2, body=%body2, backend_config={}"
    step = predict(LOOP, cond=cond(3), body=[inner], cond2=cond(5), body2=[fusion("b", MS)])
    assert step.seconds == pytest.approx(15e-3)


def test_the_compilers_own_trip_count_stands_before_the_constant():
    loop = LOOP.replace("{}", '{"known_trip_count":{"n":"7"}}')
    assert predict(loop, cond=cond(9), body=[fusion("b", MS)]).seconds == pytest.approx(7e-3)


def test_a_loop_that_nobody_can_count_is_refused():
    with pytest.raises(DriverError, match="loop w has no trip count"):
        predict(LOOP, cond=["  ROOT %c = pred[] parameter(0)"], body=[fusion("b", MS)])


def test_a_conditional_takes_its_longer_branch():
    choice = "  %c = f32[8]{0} conditional(%i, %p, %p), branch_computations={%one, %two}"
    assert predict(choice, one=[fusion("a", MS)], two=[fusion("b", 4 * MS)]).seconds == pytest.approx(4e-3)


def test_a_collective_that_is_not_started_before_is_waited_for():
    step = predict(gather(90), fusion("a", MS))
    assert step.spent.exposed["ici"] == pytest.approx(90e6 / ICI)
    assert step.seconds == pytest.approx(2e-3)
    assert step.spent.bytes["ici"] == pytest.approx(90e6)


def test_what_a_collective_takes_beside_computing_adds_no_time():
    step = predict(gather(90, start=True), fusion("a", 3 * MS), "  %d = s8[180000000]{0} all-gather-done(%ag1)")
    assert step.spent.exposed["ici"] == 0
    assert step.spent.taken["ici"] == pytest.approx(1e-3)
    assert step.seconds == pytest.approx(3e-3)


def test_of_a_collective_longer_than_the_computing_beside_it_the_rest_is_exposed():
    step = predict(gather(450, start=True), fusion("a", 3 * MS), "  %d = s8[900000000]{0} all-gather-done(%ag1)")
    assert step.spent.exposed["ici"] == pytest.approx(2e-3)


def test_two_collectives_share_the_links():
    done = ["  %d1 = s8[2]{0} all-gather-done(%ag1)", "  %d2 = s8[2]{0} all-gather-done(%ag2)"]
    step = predict(gather(90, 1, True), gather(90, 2, True), fusion("a", MS), *done)
    assert step.spent.exposed["ici"] == pytest.approx(1e-3)


def test_a_collective_in_a_loop_counts_every_trip():
    step = predict(LOOP, cond=cond(4), body=[gather(90), fusion("b", MS)])
    assert step.spent.bytes["ici"] == pytest.approx(4 * 90e6)
    assert step.seconds == pytest.approx(4 * 2e-3)


def test_a_collective_fused_with_computing_is_counted_once_and_ends_with_its_last_fusion():
    inside = [gather(90)]
    parts = [
        fusion(name, cycles).replace("calls=%f", f"calls=%{name}s")
        for name, cycles in (("start", 0), ("step", MS // 2), ("done", 0))
    ]
    step = predict(*parts, starts=inside, steps=inside, dones=inside)
    assert step.spent.bytes["ici"] == pytest.approx(90e6)
    assert step.spent.exposed["ici"] == pytest.approx(0.5e-3)


def test_a_transfer_to_the_host_takes_pcie():
    start = "  %c = (s8[64000000]{0:S(5)}, s8[64000000]{0}, u32[]{:S(2)}) copy-start(%p)"
    step = predict(start, fusion("a", MS), "  %d = s8[64000000]{0:S(5)} copy-done(%c)")
    assert step.spent.bytes["toHost"] == 64e6
    assert step.spent.exposed["toHost"] == pytest.approx(1e-3)


def test_a_type_without_a_clock_gets_no_prediction():
    with pytest.raises(DriverError, match="no prediction of a step's time on v7x"):
        predict(fusion("a", MS), hardware=tpu.hardware("v7x"), topology="2x2x1")


def splash(phase: str, rows: int, width: int, length: int = 8192, block: int = 2048) -> str:
    """A call for 3 sequences and 32 heads of 128, whose mask's grid is of so many rows and so wide."""
    key = "" if phase == "fwd" else f"_{phase}"
    grid = ", ".join([f"s8[1,{rows},{width}]{{2,1,0}}"] * 2)
    heads = ", ".join([f"bf16[3,32,{length},128]{{3,2,1,0}}"] * 3)
    return (
        f"  %{phase} = (bf16[3,32,{length},128]{{3,2,1,0}}) custom-call(%a, %b, %q, %k, %v), "
        f'custom_call_target="tpu_custom_call", operand_layout_constraints={{{grid}, {heads}}}, '
        f'frontend_attributes={{kernel_metadata={{"xprof_metadata": "{{\\"block_q{key}\\": {block}, '
        f'\\"block_kv{key}\\": {block}}}"}}}}, metadata={{op_name="jit(train_step)/splash_mha_{phase}_x/pallas_call"}}'
    )


def test_attention_takes_its_flops_at_the_measured_share_of_the_peak():
    step = predict(splash("fwd", 4, 4), splash("dkv", 4, 4))
    scores = 3 * 32 * 8192**2 * 10 / 16
    assert step.spent.attention == pytest.approx(scores * 512 * (2 / (918e12 * 0.477) + 5 / (918e12 * 0.810)))


def test_without_the_fused_backward_kernel_dq_and_dkv_share_its_work():
    scores = 3 * 32 * 8192**2 * 10 / 16
    apart = predict(splash("fwd", 4, 4), splash("dkv", 4, 4), splash("dq", 4, 4)).spent.attention
    assert apart == pytest.approx(scores * 512 * (2 / (918e12 * 0.477) + 7 / (918e12 * 0.810)))


def test_a_sliding_window_leaves_fewer_blocks():
    window = predict(splash("fwd", 4, 2)).spent.attention
    assert window / predict(splash("fwd", 4, 4)).spent.attention == pytest.approx(7 / 10)


def test_smaller_blocks_leave_out_more_of_what_the_mask_hides():
    small = predict(splash("fwd", 16, 16, block=512)).spent.attention
    assert small / predict(splash("fwd", 4, 4)).spent.attention == pytest.approx((17 / 32) / (5 / 8))


def test_a_type_without_a_measured_share_says_that_attention_is_counted_at_the_peak():
    step = predict(splash("fwd", 4, 4), hardware=tpu.hardware("v5p"), topology="2x2x1")
    assert step.unknown == ("Attention kernels run at the peak in this: v5p has no splashOfPeak.",)


def test_a_transfer_across_a_loop_goes_on_in_all_of_its_passes():
    start = "  %c = (s8[320000000]{0:S(5)}, s8[320000000]{0}, u32[]{:S(2)}) copy-start(%p)"
    done = "  %d = s8[320000000]{0:S(5)} copy-done(%c)"
    step = predict(start, LOOP, done, cond=cond(4), body=[fusion("b", 2 * MS)])
    assert step.spent.taken["toHost"] == pytest.approx(10e-3)
    assert step.spent.exposed["toHost"] == pytest.approx(2e-3)


KERNEL = (
    '  %k.1 = bf16[64]{0} custom-call(%p), custom_call_target="tpu_custom_call",'
    " operand_layout_constraints={bf16[819000000]{0}, s32[8]{0}}, backend_config={COST}"
)


def test_a_kernel_takes_what_its_authors_estimate():
    cost = '"cost_estimate":{"flops":"918000000000","transcendentals":"0","bytes_accessed":"8"}'
    step = predict(KERNEL.replace("COST", cost))
    assert step.seconds == pytest.approx(1e-3)
    assert step.unknown == ()


def test_a_kernel_without_an_estimate_takes_its_bytes_and_is_told():
    step = predict(KERNEL.replace("COST", ""))
    assert step.seconds == pytest.approx(1e-3, rel=0.01)
    assert step.unknown == ("The kernel k has no estimate: it takes what HBM takes for its operands in this.",)


@pytest.mark.parametrize(
    "instruction",
    [
        "  %s = s8[819000000]{0} slice(%big), slice={[0:819000000]}",
        "  %u = s8[999999999]{0} dynamic-update-slice(%big, %part, %at)",
        "  %b = s8[1638000000]{0} broadcast(%at), dimensions={}",
        "  %c = s8[819000000]{0} copy(%part)",
        "  %v = s8[1638000000]{0:S(1)} copy(%whole)",
    ],
    ids=["slice", "update", "broadcast", "copy", "into VMEM"],
)
def test_what_is_not_estimated_takes_hbm_for_the_bytes_that_it_moves(instruction):
    operands = [
        "  %big = s8[999999999]{0} parameter(0)",
        "  %part = s8[819000000]{0} parameter(1)",
        "  %at = s32[] parameter(2)",
        "  %whole = s8[1638000000]{0} parameter(3)",
    ]
    assert predict(*operands, instruction).spent.compute == pytest.approx(1638e6 / V6E.hbm_bandwidth, rel=1e-6)
