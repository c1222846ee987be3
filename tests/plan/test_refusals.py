"""What the user is told in place of an answer. The words are those that MaxText 0.2.5, JAX 0.11.1 and libtpu 0.0.46
have said; trainer/compile_errors.py has given them their kind."""

import pytest

from driver.errors import FAILED, USAGE
from driver.plan.refusals import IN_THE_VALUES, OF_THIS_MACHINE, as_error, shortened
from driver.plan.verdict import Case, Refusal
from tests.run_files import content

FUSION = (
    "FAILED_PRECONDITION: Continuation fusion for AllGather is enabled on platform ghostlite (variant: ), but it is not"
    " supported/recommended on platforms other than Viperlite, and this might lead to many errors including but not"
    " limited to: incorrect results, hang, SDC, etc. Please disable it with"
    " xla_tpu_enable_async_collective_fusion=false"
)
MODELS = ", ".join(f"'{name}'" for name in ("default", "llama2-7b", "llama3-8b", "llama3-70b", "gemma-2b", "qwen3-4b"))
SAID = [
    (
        "argument",
        "job.maxtext.per_device_batchsize: MaxText has no such argument; did you mean per_device_batch_size?",
        "--set job.maxtext.per_device_batchsize=null,job.maxtext.per_device_batch_size=2",
    ),
    (
        "argument",
        f"model_name='llama3-9b': Input should be {MODELS} or 'mixtral-8x7b'",
        "--set job.maxtext.model_name=llama3-8b",
    ),
    (
        "argument",
        "Keys ['vocab_size'] are overridden by both model config and CLI/kwargs with different values.This is not"
        " allowed, unless setting `override_model_config=True`.",
        "--set job.maxtext.override_model_config=true",
    ),
    ("argument", "Remat policy needs to be on list of remat policies", "another value for what is named"),
    (
        "sharding",
        "Number of devices per slice 16 does not match the product of the ICI parallelism 5",
        "--set job.maxtext.ici_fsdp_parallelism=-1",
    ),
    (
        "sharding",
        "Number of slices 2 does not match the product of the DCN parallelism 3",
        "--set job.maxtext.dcn_data_parallelism=-1",
    ),
    ("batch", "Batch dimension should be shardable among the devices in data and fsdp axis", "per_device_batch_size=1"),
    ("topology", "Invalid compile topology: v6e-17.", "another tpu.topology"),
    ("flag", "Unknown command line flag 'xla_tpu_foo'", "--set job.libtpuFlags.xla_tpu_foo=null"),
    (
        "flag",
        "Illegal value 'abc' specified for flag 'xla_tpu_scoped_vmem_limit_kib'",
        "--set job.libtpuFlags.xla_tpu_scoped_vmem_limit_kib=null",
    ),
    ("flag", FUSION, "--set job.libtpuFlags.xla_tpu_enable_async_collective_fusion_fuse_all_gather=null"),
    (
        "flag",
        "all_reduce_emitter.cc:179] Check failed: max_vmem_kib > 0 (-24 vs. 0)",
        "--set job.libtpuFlags.xla_tpu_scoped_vmem_limit_kib=98304",
    ),
    ("memory", "Ran out of memory in memory space hbm.", "driver plan"),
    ("killed", "the kernel ended the compiler's process (SIGKILL)", "--workers 1"),
    ("disk", "/tmp/x: No space left on device", "TMPDIR"),
    ("other", "INTERNAL: RET_CHECK failure", "take back the last change"),
]


def run(kind: str):
    flags = {"xla_tpu_enable_async_collective_fusion_fuse_all_gather": True} if kind == "flag" else {}
    return content(maxtext={"per_device_batchsize": 2}, libtpuFlags=flags)


@pytest.mark.parametrize(("kind", "said", "fix"), SAID, ids=[f"{kind}-{said[:20]}" for kind, said, _ in SAID])
def test_each_is_one_message_with_its_rule_and_the_change_that_mends_it(kind, said, fix):
    error = as_error(run(kind), Case(2), Refusal(kind, said))
    assert fix in error.fix
    assert error.rule
    assert error.exit_code == (USAGE if kind in IN_THE_VALUES else FAILED)


def test_a_fault_is_of_the_values_or_of_the_machine_or_the_lack_of_memory():
    assert {kind for kind, _, _ in SAID} == IN_THE_VALUES | OF_THIS_MACHINE | {"memory"}
    assert not IN_THE_VALUES & OF_THIS_MACHINE


def test_the_sharding_s_rule_has_the_chips_and_slices_of_the_run():
    error = as_error(content(), Case(2), Refusal("sharding", "because"))
    assert "multiply to the 16 devices of a slice" in error.rule
    assert "the number of slices (2)" in error.rule


def test_without_the_flag_of_the_tutorial_the_whole_fusion_is_switched_off():
    error = as_error(content(), Case(2), Refusal("flag", FUSION))
    assert "xla_tpu_enable_async_collective_fusion=false" in error.fix


def test_of_a_long_list_of_values_the_nearest_are_told():
    said = shortened(f"model_name='llama3-9b': Input should be {MODELS} or 'mixtral-8x7b'")
    assert said.startswith("model_name='llama3-9b': not one of the 7 that MaxText knows; near are llama3-8b, ")
    assert "qwen" not in said


def test_a_short_list_is_told_whole():
    said = "opt_type='foo': Input should be 'adamw', 'adam_pax', 'sgd' or 'muon'"
    assert shortened(said) == said
