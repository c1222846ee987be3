"""Reading real dumps of libtpu 0.0.46 for v6e-4: Llama's layers with MaxText 0.2.5, embedding 2048, MLP 8192, 16 heads,
2 layers, vocabulary 32000, sequence 4096, batch 4 (dumps/plain); the same with the layers' inputs and the optimizer's
state in the host's memory (dumps/offload).

Lines were left out of them: values below 16 MiB, instructions that name no value, attributes behind the metadata; and
folders are shortened."""

import shutil
from pathlib import Path

import pytest

from driver.errors import DriverError
from driver.plan import memory_report, op_names

DUMPS = Path(__file__).with_name("dumps")
NAME = "module_0000.jit_train_step.after_optimizations"
GIB = 2**30
MIB = 2**20


def read(name, largest=100):
    return memory_report.read(DUMPS / name / f"{NAME}-memory-usage-report.txt", largest)


def largest(name):
    """What a buffer is, to its MiB and kind."""
    return {buffer.what: (buffer.bytes / MIB, buffer.kind) for buffer in read(name).largest}


def test_hbm_is_the_reports_block_of_color_0():
    assert read("plain").hbm_bytes == 4395647776
    assert read("plain").host_bytes == 0


def test_the_block_that_libtpu_calls_cmem_is_host_memory():
    report = read("offload")
    assert (report.hbm_bytes, report.host_bytes) == (4308751136, 664880640)


@pytest.mark.parametrize("name", ["plain", "offload"])
def test_the_kinds_add_up_to_hbm_to_the_byte(name):
    report = read(name)
    assert sum(report.by_kind.values()) == report.hbm_bytes


def test_the_kinds_are_those_of_the_allocations():
    assert read("plain").by_kind == {
        "weights": 265338368, "optimizer": 530662912, "inputs": 5 * 65536, "temporaries": 3599155232, "other": 163584,
    }  # fmt: skip


def test_a_state_in_the_hosts_memory_takes_no_hbm():
    assert read("offload").by_kind["optimizer"] == 0
    assert not [buffer for buffer in read("offload").largest if buffer.kind == "optimizer"]


def test_parameters_have_the_names_of_maxtexts_state():
    found = largest("plain")
    assert found["f32[32000,512] weights token_embedder.embedding"] == (62.5, "weights")
    assert found["f32[8192,2,512] optimizer state mu decoder.layers.mlp.wo.kernel"] == (32, "optimizer")
    assert found["f32[512,2,16,128] weights decoder.layers.self_attention.value.kernel"] == (8, "weights")
    assert found["s32[4,4096] input inputs_position"] == (0.0625, "inputs")


def test_temporaries_say_which_layer_they_are_of_and_in_which_pass_and_equal_ones_are_counted():
    found = largest("plain")
    assert found["3 x bf16[4,4096,8192] MlpBlock dot_general, recomputed in the backward pass"][0] == 3 * 256
    assert found["bf16[4,4096,8192] MlpBlock dot_general, backward pass"][0] == 256
    assert found["bf16[4,4096,2048] Attention.out_projection dot_general, recomputed in the backward pass"][0] == 64


def test_an_attention_kernel_goes_by_its_own_name():
    assert "f32[4,16,4096,128] AttentionOp.tpu_flash_attention splash_mha_fwd_segmented_residuals" in largest("plain")


def test_what_a_loop_carries_is_what_its_body_makes_of_it():
    stacked = "NNXDecoder._apply_layers_sequentially dynamic_update_slice, backward pass, of all layers"
    assert largest("plain")[f"2 x f32[2,512,8192] {stacked}"][0] == 64


@pytest.mark.parametrize("name", ["plain", "offload"])
def test_temporaries_are_those_alive_at_hbms_peak_and_what_is_free_between_them(name):
    report = read(name, 1000)
    listed = sum(buffer.bytes for buffer in report.largest if buffer.kind == "temporaries")
    assert listed == report.by_kind["temporaries"]
    assert 0 < largest(name)[memory_report.UNUSED][0] < 400


def test_the_largest_come_first_and_are_as_many_as_asked_for():
    assert [buffer.what.split()[0] for buffer in read("plain", 2).largest] == ["bf16[4,4096,32000]", "3"]


VALUES = (
    " value: <1 a @0> (size=60,offset=0): f32[15]{0}\n"
    " value: <2 b{0} @0> (size=60,offset=0): f32[15]{0}\n"
    " value: <3 c (phi) @0> (size=30,offset=60): f32[6]{0}\n"
)
REPORT = "Memory Space: default (color=0)\nTotal bytes: 100 (100B)\n"
ASSIGNMENT = f"BufferAssignment:\nallocation 0: size 100, page 0, preallocated-temp:\n{VALUES}"


def test_an_instruction_that_works_in_place_counts_once():
    ranges = "  BufferLiveRange:\n    a{}:0-5\n    b{0}:5-9\n    c{}:2-5\n"
    report = memory_report.parse(REPORT, ASSIGNMENT, ranges, "")
    assert [(buffer.bytes, buffer.what) for buffer in report.largest] == [
        (60, "f32[15] b"), (30, "f32[6] c"), (10, memory_report.UNUSED),
    ]  # fmt: skip


def test_a_report_without_hbm_is_refused():
    with pytest.raises(DriverError, match="no block of HBM"):
        memory_report.parse("Memory Space: vmem (color=1)\nTotal bytes: 5 (5B)\n", "", "", "")


def test_a_report_without_its_buffer_assignment_is_refused(tmp_path):
    report = tmp_path / f"{NAME}-memory-usage-report.txt"
    shutil.copy(DUMPS / "plain" / report.name, report)
    with pytest.raises(DriverError, match="wrote no .*-buffer-assignment.txt"):
        memory_report.read(report)


def test_a_copy_of_a_parameter_is_named_by_it():
    program = op_names.parse(
        "HloModule m\n\nENTRY %main (p: f32[2]) -> f32[2] {\n"
        "  %p = f32[2]{0} parameter(7), metadata={op_name=\"state[\\'model\\'][\\'w\\'].value\"}\n"
        "  %copy-start.1 = (f32[2]{0}, f32[2]{0}, u32[]) copy-start(%p)\n}\n"
    )
    assert program.parameters == {7: "state['model']['w'].value"}
    assert program.describe("copy-start.1{0}") == "copy of weights w"


def test_what_has_no_name_keeps_its_instructions():
    assert op_names.parse("HloModule m\n").describe("fusion.5{1}") == "fusion.5"
