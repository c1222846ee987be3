"""What MaxText and its workers are told."""

import arguments
import pytest
from run import RunFileError

from tests import run_files


def told(run, slices):
    return arguments.maxtext_arguments(run, slices)


def test_arguments_are_data_not_a_command_line():
    run = run_files.run(maxtext={"model_name": "a b; rm -rf /"})
    assert "model_name=a b; rm -rf /" in arguments.argv(run, 2, "base.yml")


def test_the_run_decides_where_it_writes_and_how_long_it_trains():
    args = told(run_files.run(), 2)
    assert (args["run_name"], args["base_output_directory"], args["steps"]) == ("demo", "/data", 100)


def test_values_are_written_as_maxtext_reads_them():
    run = run_files.run(maxtext={"scan_layers": True, "logical_axis_rules": [["a", "b"]], "load_parameters_path": None})
    argv = arguments.argv(run, 2, "base.yml")
    assert {"scan_layers=true", 'logical_axis_rules=[["a", "b"]]', "load_parameters_path="} <= set(argv)
    assert argv[1] == "base.yml"


@pytest.mark.parametrize("key", ["run_name", "num_slices", "compile_topology", "dataset_type", "steps"])
def test_an_argument_that_the_trainer_computes_is_refused(key):
    with pytest.raises(RunFileError, match=f"job.maxtext sets {key}"):
        told(run_files.run(maxtext={key: 1}), 2)


def test_the_global_batch_is_kept_on_fewer_slices():
    run = run_files.run(**run_files.ELASTIC)
    assert [told(run, n)["gradient_accumulation_steps"] for n in (1, 2)] == [2, 1]


def test_accumulation_of_the_users_own_is_multiplied():
    run = run_files.run(**run_files.ELASTIC, maxtext={"gradient_accumulation_steps": 4})
    assert [told(run, n)["gradient_accumulation_steps"] for n in (1, 2)] == [8, 4]


def test_a_slice_count_that_cannot_keep_the_batch_is_refused():
    run = run_files.run(slices={"min": 2, "max": 3}, elastic={"enabled": True})
    with pytest.raises(RunFileError, match="must divide tpu.slices"):
        told(run, 2)


def test_a_batch_that_may_scale_is_left_alone():
    run = run_files.run(slices={"min": 2, "max": 3}, elastic={"enabled": True, "globalBatch": "scale"})
    assert "gradient_accumulation_steps" not in told(run, 2)


def test_each_slice_count_has_a_compile_cache_of_its_own():
    run = run_files.run(**run_files.ELASTIC)
    assert told(run, 1)["jax_cache_dir"] == "/data/.compile-cache/maxtext-0.2.5-v6e-4x4-x1"
    assert told(run, 2)["jax_cache_dir"] != told(run, 1)["jax_cache_dir"]
    assert told(run_files.run(compileCacheDirectory=""), 2)["jax_cache_dir"] == ""


def test_libtpu_flags_come_from_the_map_and_the_network():
    assert arguments.libtpu_arguments(run_files.run()) == (
        "--xla_tpu_scoped_vmem_limit_kib=122880 --xla_tpu_overlap_compute_collective_tc=true"
        " --megascale_grpc_interface_prefixes=eth1,eth2,lo"
    )


def test_one_slice_has_no_megascale_network():
    assert "megascale" not in arguments.libtpu_arguments(run_files.run(slices={"min": 1, "max": 1}))


def test_no_static_slice_count_reaches_a_worker():
    environment = arguments.worker_environment(run_files.run())
    assert [name for name in environment if name.startswith("MEGASCALE_")] == ["MEGASCALE_PORT"]


def test_the_runs_own_environment_wins():
    run = run_files.run(env={"JAX_PLATFORMS": "tpu"})
    assert arguments.worker_environment(run)["JAX_PLATFORMS"] == "tpu"


def test_an_emulated_worker_has_cpu_devices_in_place_of_chips():
    environment = arguments.worker_environment(run_files.run(tpu={"emulated": True}))
    assert (environment["JAX_PLATFORMS"], environment["JAX_NUM_CPU_DEVICES"]) == ("cpu", "4")
    assert "LIBTPU_INIT_ARGS" not in environment


def test_an_emulated_run_is_data_parallel_whatever_the_profile_shards():
    run = run_files.run(tpu={"emulated": True}, maxtext={"ici_tensor_parallelism": 4, "dcn_fsdp_parallelism": 2})
    args = told(run, 2)
    assert (args["ici_data_parallelism"], args["dcn_data_parallelism"]) == (16, 2)
    assert (args["ici_tensor_parallelism"], args["ici_fsdp_parallelism"], args["dcn_fsdp_parallelism"]) == (1, 1, 1)


def test_a_misspelt_argument_is_refused_with_the_nearest_one(monkeypatch):
    monkeypatch.setattr(arguments, "known_keys", lambda: frozenset({"checkpoint_period", "model_name"}))
    with pytest.raises(
        RunFileError, match="checkpoint_perod: MaxText has no such argument; did you mean checkpoint_period"
    ):
        arguments.check_keys(run_files.run(maxtext={"checkpoint_perod": 1}))


def test_a_batch_of_part_of_a_sequence_cannot_be_kept_on_real_data():
    data = {"kind": "grain", "trainFiles": "/data/a", "tokenizer": {"type": "", "path": "/data/t"}}
    run = run_files.run(**run_files.ELASTIC, data=data, maxtext={"per_device_batch_size": 0.5})
    with pytest.raises(RunFileError, match="per_device_batch_size=0.5 .* make it 1 or more"):
        told(run, 1)


def test_data_that_is_not_there_is_known_before_the_workers_start(tmp_path):
    data = {"kind": "grain", "trainFiles": str(tmp_path / "train-*"), "tokenizer": {"type": "", "path": str(tmp_path)}}
    with pytest.raises(RunFileError, match="data.trainFiles is .*train-.*, and no file matches it"):
        arguments.check(run_files.run(data=data))


def test_a_chip_may_be_two_devices():
    run = run_files.run(tpu={"emulated": True, "devicesPerChip": 2})
    assert (run.chips(2), run.devices(2)) == (32, 64)
    assert arguments.worker_environment(run)["JAX_NUM_CPU_DEVICES"] == "8"
    assert told(run, 2)["ici_data_parallelism"] == 32
