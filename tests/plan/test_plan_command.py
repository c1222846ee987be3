"""`driver plan`: what the command takes, refuses, prints and writes. The compiler is scripted, the chart is real."""

import contextlib
import json
import os
import shutil
from typing import Any

import pytest
import yaml

from driver import cli, resources
from driver.plan import environment, opening
from tests.plan.scripted import ScriptedCompiler, memory, second, site


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Puts a scripted compiler in the place of the environment and its servers; the chart is rendered."""
    scripts: dict[str, Any] = {"script": lambda case: memory(22), "opened": 0}

    @contextlib.contextmanager
    def compiler(run, python, servers):
        here = site(tmp_path)
        scripts["opened"] += 1
        yield (
            type(here)(run, here.configs, here.speeds, {"maxtext": "0.2.5", "libtpu": "0.0.46"}),
            ScriptedCompiler(lambda case: scripts["script"](case), tmp_path),
            second,
        )

    monkeypatch.setattr(opening, "compiler", compiler)
    monkeypatch.setattr(environment, "require_platform", lambda: None)
    return scripts


def driver(*arguments: str) -> int:
    return cli.run(["plan", *arguments])


def test_it_prints_that_it_fits_and_the_exit_code_is_0(compiled, capsys):
    assert driver("-f", "llama3-8b") == 0
    out = capsys.readouterr().out
    assert "22.00 of 31.25" in out
    assert "predicted step, s" in out


def test_the_exit_code_is_1_when_it_does_not_fit(compiled, capsys):
    compiled["script"] = lambda case: memory(50)
    assert driver("-f", "llama3-8b") == 1
    assert "single changes makes it fit" in capsys.readouterr().out


def test_json_has_the_verdict_of_every_number_of_slices(compiled, capsys):
    assert driver("-f", "llama3-8b-elastic", "--quick", "--output", "json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["fits"] is True
    assert [verdict["slices"] for verdict in data["verdicts"]] == [1, 2]


def test_an_elastic_run_whose_smallest_does_not_fit_is_refused(compiled, capsys):
    compiled["script"] = lambda case: memory(50 if case.slices == 1 else 20)
    assert driver("-f", "llama3-8b-elastic", "--quick") == 1
    assert "On one slice the run needs 50.00 GiB" in capsys.readouterr().err


def test_two_configurations_stand_side_by_side(compiled, capsys):
    assert driver("--compare", "llama3-8b", "llama3-70b", "--quick") == 0
    head = capsys.readouterr().out.splitlines()[0]
    assert "llama3-8b" in head
    assert "llama3-70b" in head


def test_every_output_says_that_another_maxtext_has_compiled_the_tutorial(compiled, capsys, tmp_path):
    said = "The values say MaxText 0.2.1. This was compiled with MaxText 0.2.5 and libtpu 0.0.46"
    file = tmp_path / "plan.html"
    compare = ("--compare", "tutorial-8b", "llama3-8b", "--quick", "--html", str(file))
    assert driver(*compare) == 0
    assert f"tutorial-8b: {said}" in capsys.readouterr().out
    assert f"tutorial-8b: {said}" in file.read_text()
    assert driver(*compare, "--output", "json") == 0
    tutorial, ours = json.loads(capsys.readouterr().out)["compared"]
    assert (tutorial["maxtext"], tutorial["compiledBy"]["maxtext"]) == ("0.2.1", "0.2.5")
    assert tutorial["notes"][0].startswith(said)
    assert ours["notes"] == []


def test_what_is_made_for_the_cluster_is_not_made_by_another_maxtext(compiled, capsys, tmp_path):
    for options in (["--search"], ["--save-executable", str(tmp_path / "saved")]):
        assert driver("-f", "tutorial-8b", *options) == 2
        assert "--set maxtextVersion=0.2.5" in capsys.readouterr().err


def test_the_rules_that_the_values_may_break_are_printed(compiled, capsys):
    assert driver("-f", "tutorial-8b", "--quick") == 0
    assert "guards.allow lets these values break: tpuEnvironment." in capsys.readouterr().out
    assert driver("-f", "tutorial-8b", "--quick", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out)["guardsAllowed"] == ["tpuEnvironment"]


def test_a_search_writes_a_team_file_that_the_chart_takes(compiled, capsys, tmp_path):
    file = tmp_path / "team.yaml"
    assert driver("-f", "llama3-8b", "--search", "--limit", "6", "--write", str(file)) == 0
    assert set(yaml.safe_load(file.read_text())) <= {"job"}


def test_the_page_is_written(compiled, tmp_path):
    file = tmp_path / "plan.html"
    assert driver("-f", "llama3-8b", "--html", str(file)) == 0
    assert file.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_page_of_a_search_has_what_it_has_found(compiled, tmp_path):
    file = tmp_path / "plan.html"
    assert driver("-f", "llama3-8b", "--search", "--limit", "6", "--html", str(file)) == 0
    assert "What the search has found" in file.read_text()


@pytest.mark.parametrize("option", ["--write", "--html"])
@pytest.mark.parametrize("name", ["team.yaml", "link.yaml", "llama3-70b.yaml", "missing/team.yaml", "file/team.yaml"])
def test_what_must_not_or_cannot_be_written_is_refused_before_any_work(
    option, name, compiled, capsys, tmp_path, monkeypatch
):
    profiles = shutil.copytree(resources.values_dir(), tmp_path / "profiles")
    monkeypatch.setattr(resources, "values_dir", lambda: profiles)
    team = tmp_path / "team.yaml"
    team.write_text("job: {steps: 7}")
    (tmp_path / "link.yaml").symlink_to(team)
    (tmp_path / "file").touch()
    place = profiles / name if name == "llama3-70b.yaml" else tmp_path / name
    before = place.read_bytes() if place.is_file() else None
    assert driver("-f", "llama3-8b", "-f", str(team), "--search", option, str(place)) == 2
    assert f"{option} {place} " in capsys.readouterr().err
    assert compiled["opened"] == 0
    assert (place.read_bytes() if place.is_file() else None) == before


def test_a_folder_that_one_may_not_write_to_is_refused_before_any_work(compiled, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert driver("-f", "llama3-8b", "--html", str(tmp_path / "plan.html")) == 2
    assert "you may not write there" in capsys.readouterr().err
    assert compiled["opened"] == 0


def test_two_outputs_in_one_file_are_refused(compiled, capsys, tmp_path):
    file = str(tmp_path / "both")
    assert driver("-f", "llama3-8b", "--search", "--write", file, "--html", file) == 2
    assert "they are two files" in capsys.readouterr().err


def test_a_file_that_is_replaced_keeps_its_mode_and_a_link_stays_one(compiled, tmp_path):
    real, link = tmp_path / "real.html", tmp_path / "plan.html"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert driver("-f", "llama3-8b", "--html", str(link)) == 0
    assert link.is_symlink()
    assert real.read_text().startswith("<!doctype html>")
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "given",
    [
        ("--set", "job.maxtext.per_device_batch_size=8"),
        ("--set", "job.steps=7,job.maxtext.ici_fsdp_parallelism=4"),
        ("--set-string", "job.maxtext.remat_policy=full"),
        ("--set", "job.maxtext.query_proj=offload"),
        ("--set", "job.maxtext.optimizer_memory_host_offload=null"),
    ],
)
def test_what_a_search_looks_for_may_not_be_fixed_above_the_file_that_it_writes(given, compiled, capsys):
    assert driver("-f", "llama3-8b", "--search", *given) == 2
    assert "put it into a values file" in capsys.readouterr().err
    assert compiled["opened"] == 0


def test_what_a_search_leaves_alone_may_be_set(compiled):
    assert driver("-f", "llama3-8b", "--search", "--limit", "6", "--set", "job.maxtext.max_target_length=2048") == 0


@pytest.mark.parametrize("wrong", ["typo.yaml", "broken"])
def test_both_of_what_is_compared_are_rendered_before_anything_is_compiled(wrong, compiled, tmp_path, capsys):
    file = tmp_path / "broken.yaml"
    file.write_text("job: {stepps: 7}")
    assert driver("--compare", "llama3-8b", str(file) if wrong == "broken" else wrong) == 2
    assert compiled["opened"] == 0
    assert ("stepps" if wrong == "broken" else "typo.yaml") in capsys.readouterr().err


def test_that_no_executable_was_written_is_told(compiled, capsys, tmp_path):
    compiled["script"] = lambda case: memory(50)
    assert driver("-f", "llama3-8b", "--save-executable", str(tmp_path / "out")) == 1
    assert f"Nothing was written into {tmp_path / 'out'}: the run does not fit." in capsys.readouterr().err


@pytest.mark.parametrize(("new", "said"), [(True, "is installed"), (False, "all of it is there")])
def test_an_installation_says_whether_there_was_anything_to_do(new, said, monkeypatch, capsys):
    monkeypatch.setattr(environment, "install", lambda: new)
    assert driver("--install") == 0
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--search", "--compare", "tutorial-8b", "llama3-8b"],
        ["--compare", "tutorial-8b", "llama3-8b", "--save-executable", "out"],
        ["--quick", "--finalists", "2"],
        ["--quick", "--save-executable", "out"],
        ["--compare", "tutorial-8b", "llama3-8b", "--finalists", "2"],
        ["--limit", "5"],
        ["--write", "team.yaml"],
        ["--install", "--price", "2"],
        ["--price", "0"],
    ],
)
def test_an_option_that_would_change_nothing_is_refused(arguments, capsys):
    assert driver("-f", "llama3-8b", *arguments) == 2
    assert "There is no values file" not in capsys.readouterr().err
