"""The options of `driver local` are values of the chart."""

from pathlib import Path

import pytest

from driver import resources
from driver.errors import DriverError
from driver.local.training import Request, plan, topology_of
from driver.values import Values

TINY = resources.values_dir() / "tiny.yaml"


def request(*sets: str, **options) -> Request:
    return Request(Values((TINY,), sets), **{"out": Path("/somewhere"), **options})


def test_a_run_is_the_profiles_on_emulated_slices():
    run = plan(request()).run
    assert (run["name"], run["tpu"]["emulated"], run["outputDirectory"]) == ("tiny", True, "/somewhere")
    assert run["runtimeInstall"]["packages"] == []


def test_options_win_over_values():
    run = plan(request("tpu.slices=4", "job.steps=5", slices=3, hosts=2, steps=7)).run
    assert (run["slices"]["max"], run["steps"]) == (3, 7)
    assert (run["tpu"]["topology"], run["tpu"]["hostsPerSlice"], run["tpu"]["chipsPerHost"]) == ("2x4", 2, 4)


def test_the_output_folder_may_have_any_name(tmp_path):
    out = tmp_path / "a,b={c} [d]"
    assert plan(request(out=out)).run["outputDirectory"] == str(out)


def test_a_relative_output_folder_is_below_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert plan(request(out=Path("runs"))).run["outputDirectory"] == str(tmp_path / "runs")


@pytest.mark.parametrize(
    ("tpu_type", "hosts", "chips", "topology"),
    [("v6e", 1, 4, "2x2"), ("v6e", 2, 4, "2x4"), ("v6e", 4, 4, "4x4"), ("v6e", 1, 1, "1x1"), ("v5p", 2, 4, "2x2x2")],
)
def test_a_number_of_hosts_is_a_topology_of_the_type(tpu_type, hosts, chips, topology):
    assert topology_of(tpu_type, hosts, chips) == topology


def test_a_number_of_hosts_that_the_type_has_not_is_refused_with_those_it_has():
    with pytest.raises(DriverError, match="no v6e slice of 3 hosts with 4 chips") as raised:
        topology_of("v6e", 3, 4)
    assert raised.value.rule.startswith("There are slices of 1, 2, 4, 8,")


def test_the_job_is_what_the_submitter_pod_runs():
    rendering = plan(request())
    assert rendering.job["entrypoint"] == "python train.py run.yaml"
    assert "train.py" in rendering.trainer_files
    assert rendering.worker_pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][:2] == ["python", "-c"]


def test_without_a_job_there_is_nothing_to_run():
    with pytest.raises(DriverError, match=r"job\.enabled is false"):
        _ = plan(request("job.enabled=false")).job
