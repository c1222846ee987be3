"""The cause of a failed run, from the words of those who know."""

import pytest

from driver.kube import causes

UNKNOWN = """\
(RayTrainWorker pid=812, ip=10.0.0.7) ================================================================================
(RayTrainWorker pid=812, ip=10.0.0.7) MAXTEXT CONFIG ERROR: 'base_emb_dmi' not in 'base_emb_dim', 'steps'.
(RayTrainWorker pid=812, ip=10.0.0.7) ================================================================================
Traceback (most recent call last):
  File "worker.py", line 67, in _run_maxtext
RuntimeError: MaxText ended the process with status 2: ====================================================
run failed: worker 0: RuntimeError: MaxText ended the process with status 2: ===============================
"""
REFUSED = """\
E1130 12:00:00.000000 812 max_logging.py:30] MAXTEXT CONFIG ERROR: 1 validation error for MaxTextConfig
per_device_batch_size
  Input should be a valid number, unable to parse string as a number [type=float_parsing, input_value='many']
    For further information visit https://errors.pydantic.dev/2.11/v/float_parsing
E1130 12:00:00.000000 812 max_logging.py:31] ====================================================
run failed: worker 0: For further information visit https://errors.pydantic.dev/2.11/v/float_parsing
"""
HBM = """\
Traceback (most recent call last):
jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space \
hbm. Used 50.01G of 31.25G hbm. Exceeded hbm capacity by 18.76G.

Total hbm usage >= 50.51G:
    reserved        530.00M
run failed: worker 3:     reserved        530.00M
"""


def cause_in(*texts: str) -> causes.Cause:
    found = causes.find(*texts)
    assert found is not None
    return found


def test_an_argument_that_maxtext_does_not_know_is_named_with_the_nearest():
    cause = cause_in(UNKNOWN)
    assert cause.found == "MaxText has no argument base_emb_dmi."
    assert "job.maxtext.base_emb_dim=" in cause.fix


def test_all_arguments_that_the_trainer_does_not_find_are_named():
    cause = cause_in(
        "run failed: job.maxtext.base_emb_dmi: MaxText has no such argument; did you mean base_emb_dim?; "
        "job.maxtext.zzz: MaxText has no such argument"
    )
    assert cause.found == "MaxText has no arguments base_emb_dmi, zzz."
    assert cause.fix == (
        "--set job.maxtext.base_emb_dmi=null --set job.maxtext.base_emb_dim=... --set job.maxtext.zzz=null"
    )


def test_a_value_s_name_at_the_beginning_stays_as_it_is():
    assert cause_in("run failed: job.runName=x: too long").found == "job.runName=x: too long."


@pytest.mark.parametrize(
    ("why", "found"),
    [
        ("INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file", "Failed to open libtpu.so"),
        ("UNAVAILABLE: TPU initialization failed: No jellyfish device found.", "No jellyfish device found."),
    ],
    ids=["no libtpu", "no chips"],
)
def test_chips_that_jax_cannot_use_are_named_with_what_it_needs(why, found):
    words = f"run failed: worker 0: Unable to initialize backend 'tpu': {why} (set JAX_PLATFORMS='' to automatically"
    cause = cause_in(f"{words} choose an available backend)")
    assert cause.found.startswith("JAX cannot use the TPU chips of a host: ")
    assert found in cause.found
    assert "JAX_PLATFORMS" not in cause.found
    assert "libtpu" in cause.rule
    assert "driver image" in cause.fix


def test_an_argument_that_maxtext_refuses_is_named_with_what_is_wrong():
    cause = cause_in(REFUSED)
    assert "per_device_batch_size: Input should be a valid number" in cause.found
    assert cause.fix == "--set job.maxtext.per_device_batch_size=..."


def test_an_argument_that_the_model_sets_too():
    said = "ValueError: Keys ['base_emb_dim'] are overridden by both model config and CLI/kwargs with different values."
    assert "job.maxtext sets base_emb_dim" in cause_in(f"run failed: worker 0: {said}").found


def test_a_program_that_does_not_fit_the_chips_names_the_numbers():
    assert cause_in(HBM).found == ("The program needs 50.01GiB of a chip's HBM, which has 31.25GiB: 18.76GiB too much.")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("OSError: [Errno 30] Read-only file system: '/data/demo/checkpoints/0'",
         "/data/demo/checkpoints/0 cannot be written: read-only file system."),
        ("PermissionError: [Errno 13] Permission denied: '/data/demo'",
         "/data/demo cannot be written: permission denied."),
        ("OSError: [Errno 28] No space left on device: '/data/demo'", "There is no space left to write /data/demo."),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
         "A host ran out of memory, and the process was ended."),
    ],
)  # fmt: skip
def test_the_hosts_own_troubles(said, found):
    assert cause_in(f"run failed: worker 0: {said}").found == found


def test_a_hang_says_how_long_and_what_came_last():
    said = "the workers made no progress for 1800 s and were ended (job.stallTimeoutSeconds); the last: x"
    assert cause_in(f"run failed: {said}").found.startswith("The workers made no progress for 1800 s and were ended.")


def test_a_cause_that_is_not_known_is_told_in_the_entry_points_words():
    said = "worker 0: JAX sees 1 tpu devices on this host and 2 in all"
    cause = cause_in(f"Permission denied: some file of somebody else\nrun failed: {said}\n")
    assert cause.found == f"W{said[1:]}."


def test_the_last_run_failed_counts():
    assert cause_in("run failed: first\nrun failed: second\n").found == "Second."


def test_without_the_entry_points_word_the_exception_of_the_last_traceback_is_the_cause():
    text = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'maxtext'\n"
    assert cause_in(text).found == "ModuleNotFoundError: No module named 'maxtext'."


def test_nothing_tells_nothing():
    assert causes.find("", "all is well") is None


def test_colours_are_not_part_of_the_words():
    assert cause_in("\x1b[31mrun failed: \x1b[0mworker 0: gone").found == "Worker 0: gone."


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("MAXTEXT CONFIG ERROR: 1 validation error for MaxTextConfig steps Input should be a valid integer "
         "[type=int_type, input_value='x', input_type=str]",
         "MaxText refuses job.maxtext: steps: Input should be a valid integer."),
        ("MAXTEXT CONFIG ERROR: 1 validation error for MaxTextConfig Value error, Batch must be whole "
         "[type=value_error]",
         "MaxText refuses job.maxtext: Batch must be whole."),
        ("MAXTEXT CONFIG ERROR: 'stpes' not in 'base', 'steps'.", "MaxText has no argument stpes."),
    ],
)  # fmt: skip
def test_maxtexts_refusal_in_one_line_as_the_entry_point_has_it(said, found):
    words = f"run failed: worker 0: RuntimeError: MaxText ended the process with status 2: {said}\n"
    assert cause_in(words).found == found
