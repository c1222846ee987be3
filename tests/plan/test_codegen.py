"""XLA's text of a program. Lines that show one thing each; a compiler's own are in test_real_programs."""

import pytest

from driver.errors import DriverError
from driver.plan import codegen

FUSION = (
    "  ROOT %fusion.1 = bf16[16,4]{0,1:T(4,128)(2,1)S(1)} fusion(%a, %b.2, /*index=5*/%c), kind=kOutput, calls=%f.1, "
    'metadata={op_name="jit(train_step)/dot"}, backend_config={"flag_configs":[],"window_config":'
    '{"kernel_window_bounds":["1","1"],"estimated_cycles":"3874","iteration_bounds":["1"]}}'
)


def test_an_instruction_has_its_type_operands_estimate_and_what_it_calls():
    one = codegen.instruction(FUSION)
    assert (one.name, one.opcode, one.operands) == ("fusion.1", "fusion", ("a", "b.2", "c"))
    assert (one.cycles, one.called) == (3874, ("f.1",))
    assert one.arrays == (codegen.Array("bf16", (16, 4), 1),)
    assert one.arrays[0].bytes == 128


def test_a_tuple_is_its_arrays_each_in_its_memory():
    arrays = codegen.arrays_in("((bf16[8,128]{1,0:T(8,128)(2,1)S(5)}, pred[]), f32[2]{0}, u32[]{:S(2)}, token[])")
    assert [array.space for array in arrays] == [codegen.HOST, 0, 0, 2, 0]
    assert [array.bytes for array in arrays] == [2048, 1, 8, 4, 0]


def test_a_line_that_begins_with_a_brace_does_not_end_the_computation():
    text = (
        "ENTRY %main (p: f32[]) -> f32[] {\n  %a = f32[] custom-call(%p), x={\n} , y=1\n  ROOT %b = f32[] copy(%a)\n}\n"
    )
    assert [one.name for one in codegen.parse(text).computation("main")] == ["a", "b"]


def test_a_computation_of_the_sparse_core_ends_with_its_thread():
    text = (
        '%sparse (p: s32[]) -> s32[] {\n  ROOT %s = s32[] copy(%p)\n}, execution_thread="sparsecore"\n\n'
        "ENTRY %main (p: s32[]) -> s32[] {\n  ROOT %a = s32[] copy(%p)\n}\n"
    )
    program = codegen.parse(text)
    assert [one.name for one in program.computation("sparse")] == ["s"]
    assert [one.name for one in program.computation("main")] == ["a"]


def test_what_runs_in_a_loop_runs_as_often_as_it_trips():
    text = (
        "%body (p: s32[]) -> s32[] {\n  ROOT %one = s32[] copy(%p)\n}\n\n"
        "%cond (p: s32[]) -> pred[] {\n  %n = s32[]{:T(128)} constant(32)\n"
        "  ROOT %lt = pred[] compare(%p, %n), direction=LT\n}\n\n"
        "ENTRY %main (p: s32[]) -> s32[] {\n  ROOT %w = s32[] while(%p), condition=%cond, body=%body\n}\n"
    )
    assert [(one.name, times) for one, times in codegen.parse(text).executed()] == [("w", 1), ("one", 32)]


def test_a_text_without_a_program_is_refused():
    with pytest.raises(DriverError, match="no ENTRY computation"):
        codegen.parse("HloModule jit_train_step\n")
