"""Results are found again by whoever asks for the same program, and by no one else."""

import dataclasses
import json
import os
from typing import Any

import pytest

from driver.plan import leftovers, memory_report
from driver.plan.cache import Cache, program_text
from driver.plan.request import Configuration
from driver.plan.session import Failure
from tests.run_files import ELASTIC, content

VERSIONS = {"maxtext": "0.2.5", "libtpu": "0.0.46"}


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def answered(compiler, configuration):
    """The answers of one job, by event: answered("memory", act="fail")."""

    def ask(until="memory", **changes):
        session = compiler()
        session.submit(configuration(**changes), until)
        answers = {answer.event: answer for answer in session.answers()}
        session.close()
        return answers

    return ask


def test_a_kept_result_is_found_with_its_memory_and_facts(answered, cache):
    memory = answered()["memory"]
    cache.keep("k", memory)
    found = cache.find("k")
    assert found.memory == memory_report.read(memory.report)
    assert found.facts == memory.facts
    assert found.failure is None


def test_of_the_dumps_only_the_compiled_program_is_kept_compressed(answered, cache):
    answers = answered("executable")
    kept = cache.keep("k", answers["done"], answers["memory"])
    names = sorted(path.name for path in kept.folder.iterdir())
    assert names == ["module_0000.jit_train_step.after_codegen.txt.gz", "result.json"]
    assert program_text(kept.folder) == program_text(answers["done"].job.dump) == "HloModule\n"


def test_of_a_program_without_code_its_schedule_is_kept(answered, cache):
    memory = answered()["memory"]
    text = program_text(cache.keep("k", memory).folder)
    assert text == next(memory.job.dump.glob("*after_optimizations.txt")).read_text()


def test_a_result_whose_program_is_gone_is_none(answered, cache):
    kept = cache.keep("k", answered()["memory"])
    for program in kept.folder.glob("*.gz"):
        program.unlink()
    assert cache.find("k") is None


def test_a_folder_without_a_program_has_no_text(tmp_path):
    with pytest.raises(FileNotFoundError):
        program_text(tmp_path)


def test_a_result_for_memory_is_small(answered, cache):
    kept = cache.keep("k", answered()["memory"])
    assert sum(path.stat().st_size for path in kept.folder.iterdir()) < 8192


def test_a_whole_compilation_answers_for_memory_too_but_not_the_other_way_round(answered, cache):
    answers = answered("executable")
    cache.keep("whole", answers["done"], answers["memory"])
    assert cache.find("whole", "memory").memory.hbm_bytes == 4395647776
    assert cache.find("whole", "memory").whole
    cache.keep("quick", answered()["memory"])
    assert cache.find("quick", "executable") is None


@pytest.mark.parametrize(("kind", "lasts"), [("memory", True), ("sharding", True), ("killed", False), ("disk", False)])
def test_a_failure_is_kept_only_if_it_will_come_again(kind, lasts, answered, cache):
    kept = cache.keep("k", answered(act="fail", kind=kind)["failed"])
    assert (kept is not None) == lasts == (cache.find("k") is not None)
    assert kept is None or kept.failure == Failure(kind, "because")


def test_a_result_that_cannot_be_read_is_none(answered, cache):
    kept = cache.keep("k", answered()["memory"])
    (kept.folder / "result.json").write_text("{")
    assert cache.find("k") is None


def test_the_results_that_were_not_used_for_longest_make_room(answered, tmp_path):
    cache: Any = Cache(tmp_path / "small", limit_gib=0)
    memory = answered()["memory"]
    first = cache.keep("first", memory)
    os.utime(first.folder / "result.json", (1, 1))
    cache.keep("second", memory)
    assert cache.find("first") is None
    assert cache.find("second") is not None


def test_what_a_killed_driver_has_left_is_removed_when_it_is_a_day_old_and_nobody_uses_it(tmp_path):
    old, used, young = (tmp_path / f"new-{name}" for name in ("old", "used", "young"))
    for folder in (old, used, young):
        folder.mkdir()
        (folder / "program").touch()
    for folder in (old, used):
        os.utime(folder, (1, 1))
    (tmp_path / "new-link").symlink_to(young)
    os.utime(tmp_path / "new-link", (1, 1), follow_symlinks=False)
    with leftovers.in_use(used):
        Cache(tmp_path)
    assert not old.exists()
    assert (used / "program").exists()
    assert (young / "program").exists()
    Cache(tmp_path)
    assert not used.exists()


def test_no_value_of_a_variable_is_kept(answered, cache, compiler):
    run = content(env={"XLA_FLAGS": "--secret", "HF_TOKEN": "secret"})
    session = compiler()
    session.submit(Configuration(run, 2))
    *_, memory = session.answers()
    kept = json.loads((cache.keep("k", memory).folder / "result.json").read_text())
    assert kept["configuration"]["env"] == ["XLA_FLAGS"]
    assert "secret" not in str(kept)


@pytest.mark.parametrize(
    "change",
    [
        {"changes": {"per_device_batch_size": 5}},
        {"slices": 1},
        {"run": content() | {"libtpuFlags": {}}},
        {"run": content(tpu={"topology": "4x8"})},
        {"run": content(env={"JAX_DEFAULT_MATMUL_PRECISION": "high"})},
    ],
    ids=["argument", "slices", "flags", "topology", "environment"],
)
def test_what_shapes_the_program_changes_the_key(change, configuration):
    base = configuration()
    assert dataclasses.replace(base, **change).key(VERSIONS) != base.key(VERSIONS)


def test_other_versions_have_another_key(configuration):
    assert configuration().key(VERSIONS) != configuration().key(VERSIONS | {"libtpu": "0.0.47"})


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"steps": 7},
        {"outputDirectory": "/x"},
        {"attempt": 2},
        {"megascale": {"port": 1}},
        {"maxtext": {"checkpoint_period": 9}},
    ],
)
def test_what_does_not_shape_the_program_leaves_the_key(change, configuration):
    assert Configuration(content(**change), 2).key(VERSIONS) == configuration().key(VERSIONS)


def test_a_change_to_what_the_run_says_already_has_the_runs_key(configuration):
    assert configuration(per_device_batch_size=4).key(VERSIONS) == configuration().key(VERSIONS)
    assert configuration(scan_layers=None).maxtext == {"model_name": "llama3-8b", "per_device_batch_size": 4}


@pytest.mark.parametrize(
    ("kind", "topology", "chips", "name"),
    [
        ("v6e", "4x4", 4, "v6e-16"),
        ("v5p", "2x2x2", 4, "v5p-16"),
        ("v7x", "2x2x1", 4, "tpu7x-8"),
        ("v5e", "2x4", 8, "v5e-8"),
    ],
)
def test_a_slice_is_called_as_maxtext_calls_it(kind, topology, chips, name):
    run = content(tpu={"type": kind, "topology": topology, "chipsPerHost": chips})
    assert Configuration(run, 1).topology == name


def test_fewer_slices_that_accumulate_the_batch_of_all_are_another_program():
    elastic = content(**ELASTIC)
    assert Configuration(elastic, 1).key(VERSIONS) != Configuration(content(slices={"min": 1, "max": 1}), 1).key(
        VERSIONS
    )
    assert Configuration(elastic, 2).key(VERSIONS) == Configuration(content(), 2).key(VERSIONS)


def test_of_the_environment_only_what_the_compiler_reads_decides():
    base = Configuration(content(), 2)
    assert Configuration(content(env={"HF_TOKEN": "secret"}), 2).key(VERSIONS) == base.key(VERSIONS)
    assert Configuration(content(env={"XLA_FLAGS": "--x"}), 2).key(VERSIONS) != base.key(VERSIONS)
    assert "secret" not in str(Configuration(content(env={"HF_TOKEN": "secret"}), 2).shape())
