"""Which saved training step a worker loads, and what it says when it loads none."""

import hashlib
import json
from pathlib import Path
from typing import Any

import compile_step
import pytest
import run as run_file
import saved_trainstep
import trainstep_manifest
import yaml
from run import Run
from saved_trainstep import Found

from driver.plan import environment, executables
from driver.plan.request import Configuration
from driver.plan.session import Answer, Job
from tests.run_files import ELASTIC, content

PROGRAM = b"a compiled program"
VERSIONS = trainstep_manifest.versions()


def save(folder: Path, run: dict[str, Any], slices: int = 2, **case: Any) -> Path:
    """The file and its manifest, as `driver plan` writes them for a run file; the compiler alone is left out."""
    configuration = Configuration(run, slices, **case)
    request = configuration.request("1", "executable", folder / "dump", folder / "file")
    # What a server reads from its pipe, and what it answers.
    request = json.loads(json.dumps(request))
    compiled = compile_step.changed(Run.model_validate(request["run"]), request)
    facts = json.loads(json.dumps({"program": trainstep_manifest.program(compiled, request["slices"])}))
    answer = Answer(Job("1", configuration, "executable", folder / "dump"), "done", 1.0, facts=facts)
    path = folder / executables.file_name(configuration)
    path.write_bytes(PROGRAM)
    written = executables.manifest(answer, hashlib.sha256(PROGRAM).hexdigest(), VERSIONS)
    path.with_name(f"{path.name}.json").write_text(json.dumps(written))
    return path


def find(folder: Path, run: dict[str, Any], slices: int = 2) -> Found:
    """What a worker of this run finds there; the run file has gone through YAML and Ray."""
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(run | {"compiledTrainstepsDirectory": str(folder)}))
    loaded = run_file.load(file)
    return saved_trainstep.find(Run.model_validate(loaded.model_dump(by_alias=True)), slices)


def manifest(path: Path, **changes: Any) -> None:
    file = path.with_name(f"{path.name}.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


RUNS: dict[str, dict[str, Any]] = {
    "fixed": content(),
    "elastic": content(**ELASTIC),
    "numbers": content(maxtext={"learning_rate": 3e-05, "a": 1e30, "b": 0.5, "c": True, "d": [["x", ["y"]], 1]}),
    "environment": content(env={"XLA_FLAGS": "--xla_a=1", "JAX_TRACEBACK_FILTERING": "off", "HF_TOKEN": "secret"}),
    "without flags": content(libtpuFlags={}, env={}) | {"libtpuFlags": {}},
    "real data": content(data={"kind": "grain", "trainFiles": "/data/a", "tokenizer": {"type": "", "path": "/t"}}),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_what_was_saved_for_a_run_file_is_what_its_workers_load(run, tmp_path):
    for slices in range(run["slices"]["min"], run["slices"]["max"] + 1):
        path = save(tmp_path, run, slices)
        assert find(tmp_path, run, slices) == (path, hashlib.sha256(PROGRAM).hexdigest(), "")


def test_another_name_attempt_and_folder_are_the_same_program(tmp_path):
    save(tmp_path, content())
    moved = content(name="other", attempt=7, outputDirectory="/elsewhere", compileCacheDirectory="")
    assert find(tmp_path, moved).refused == ""


def test_what_a_plan_changed_must_be_in_the_values_of_the_run(tmp_path):
    save(tmp_path, content(), changes={"remat_policy": "full", "scan_layers": None})
    changed = content()
    changed["maxtext"] = {"model_name": "llama3-8b", "per_device_batch_size": 4, "remat_policy": "full"}
    assert find(tmp_path, changed).refused == ""
    assert 'remat_policy is "full" there and not set here' in find(tmp_path, content()).refused


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"maxtext": {"per_device_batch_size": 8}}, "per_device_batch_size is 4 there and 8 here"),
        ({"maxtext": {"scan_layers": 1}}, "scan_layers is true there and 1 here"),
        ({"maxtext": {"remat_policy": "full"}}, 'remat_policy is not set there and "full" here'),
        ({"steps": 200}, "steps is 100 there and 200 here"),
        ({"libtpuFlags": {"xla_tpu_a": True}}, "libtpu's xla_tpu_a is not set there and true here"),
        ({"env": {"XLA_FLAGS": "--xla_a=1"}}, 'job.env.XLA_FLAGS is not set there and "--xla_a=1" here'),
        ({"tpu": {"chipsPerHost": 8}}, "tpu.chipsPerHost is 4 there and 8 here"),
    ],
)
def test_a_step_of_another_program_is_refused_with_what_differs(changes, says, tmp_path):
    path = save(tmp_path, content())
    assert find(tmp_path, content(**changes)).refused == f"{path} is another program: {says}"


@pytest.mark.parametrize("package", trainstep_manifest.PACKAGES)
def test_another_version_is_refused(package, tmp_path):
    path = save(tmp_path, content())
    manifest(path, versions=VERSIONS | {package: "0.0.1"})
    assert f'{package} is "0.0.1" there and "{VERSIONS[package]}" here' in find(tmp_path, content()).refused
    manifest(path, versions={name: version for name, version in VERSIONS.items() if name != package})
    assert f"{package} is not set there" in find(tmp_path, content()).refused


def test_three_differences_are_named_and_the_others_counted(tmp_path):
    save(tmp_path, content())
    many = content(maxtext=dict.fromkeys("abcde", 1))
    assert find(tmp_path, many).refused.endswith(
        "a is not set there and 1 here, b is not set there and 1 here, c is not set there and 1 here (and 2 more)"
    )


def test_environment_that_shapes_no_program_is_not_written_down(tmp_path):
    path = save(tmp_path, RUNS["environment"])
    assert "secret" not in path.with_name(f"{path.name}.json").read_text()


def test_a_group_of_another_number_of_slices_takes_the_other_file(tmp_path):
    run = RUNS["elastic"]
    save(tmp_path, run, 2)
    assert find(tmp_path, run, 1).refused == f"{tmp_path} has no v6e-4x4-x1.trainstep.json"
    save(tmp_path, run, 1)
    assert [find(tmp_path, run, slices).path.name for slices in (1, 2)] == [
        "v6e-4x4-x1.trainstep",
        "v6e-4x4-x2.trainstep",
    ]


def test_a_file_under_the_name_of_another_number_of_slices_is_refused(tmp_path):
    run = RUNS["elastic"]
    path = save(tmp_path, run, 2)
    for name in (path.name, f"{path.name}.json"):
        (tmp_path / name).rename(tmp_path / name.replace("x2", "x1"))
    assert "slices is 2 there and 1 here" in find(tmp_path, run, 1).refused


def test_what_is_missing_or_broken_is_named(tmp_path):
    def refused() -> str:
        return find(tmp_path, content()).refused

    path = save(tmp_path, content())
    path.write_bytes(b"another program")
    assert refused() == f"{path} is not the file that v6e-4x4-x2.trainstep.json was written for"
    path.unlink()
    assert refused() == f"{tmp_path} has no v6e-4x4-x2.trainstep"
    path.mkdir()
    assert refused() == f"{path} cannot be read: Is a directory"
    manifest(path, schemaVersion=2)
    assert refused() == f"{path} is another program: its manifest has schemaVersion 2, and this trainer reads 1"
    for text in ("{", "[]", "{}", '{"schemaVersion": 1, "versions": 3}', "\xff"):
        path.with_name(f"{path.name}.json").write_bytes(text.encode("latin-1"))
        assert refused() == f"{path}.json is not the manifest of a training step"


def test_a_folder_that_is_not_there_is_named():
    run = Run.model_validate(content(compiledTrainstepsDirectory="/no/such/folder"))
    assert saved_trainstep.find(run, 2).refused == "there is no folder /no/such/folder"


def test_all_processes_load_or_none_does():
    """Each process says the same, whatever itself has found."""
    good, other = Found(Path("/f"), "d1", ""), Found(Path("/f"), "d2", "")
    missing = Found(Path("/f"), "", "/x has no f")
    for group, said in (
        ([good, good], ""),
        ([missing, good], "/x has no f"),
        ([good, missing], "/x has no f (on process 1)"),
        ([good, other], "/f is not the same file on all hosts"),
    ):
        texts = [f"{n}\n{found.digest}\n{found.refused}" for n, found in enumerate(group)]
        for n, found in enumerate(group):
            assert saved_trainstep.agree(found, n, {texts[n]: texts[::-1]}.__getitem__) == said


def test_no_file_is_looked_for_without_a_folder():
    assert saved_trainstep.choose(Run.model_validate(content()), 2) == ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tpu": {"emulated": True}}, "a saved step is a program for TPUs, and these slices are emulated"),
        ({"data": {"evalEverySteps": 5}}, "MaxText cannot evaluate (data.evalEverySteps) beside a step that it loaded"),
    ],
)
def test_where_no_step_can_be_loaded_the_folder_is_not_read_and_process_0_says_so(changes, says, monkeypatch, capsys):
    run = Run.model_validate(content(compiledTrainstepsDirectory="/no/such/folder", **changes))
    for process in (1, 0):
        monkeypatch.setattr(saved_trainstep, "_process", lambda process=process: process)
        assert saved_trainstep.choose(run, 2) == ""
    assert capsys.readouterr().out == f"training step: compiled here, because {says}\n"


def test_the_choice_is_printed_once_and_is_the_file(tmp_path, monkeypatch, capsys):
    path = save(tmp_path, content())
    run = Run.model_validate(content(compiledTrainstepsDirectory=str(tmp_path)))
    monkeypatch.setattr(saved_trainstep, "exchange", lambda text: [text])
    monkeypatch.setattr(saved_trainstep, "_process", lambda: 0)
    assert saved_trainstep.choose(run, 2) == str(path)
    assert capsys.readouterr().out == f"training step: loaded from {path}\n"


def test_both_sides_mean_the_same_packages_schema_and_names():
    assert environment._PACKAGES == trainstep_manifest.PACKAGES
    assert executables.SCHEMA_VERSION == trainstep_manifest.SCHEMA_VERSION
    assert executables.file_name(Configuration(content(), 2)) == trainstep_manifest.file_name(
        Run.model_validate(content()), 2
    )
