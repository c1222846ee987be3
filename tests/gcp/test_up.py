"""`driver up` as far as its question: nothing is made before a yes, and what is asked says what it takes."""

import io
import json

import pytest
import yaml

from driver import cli
from driver.errors import USAGE, DriverError
from driver.plan import before_install
from tests.gcp.sites import content


@pytest.fixture
def run(tmp_path, monkeypatch, google, key_file, capsys):
    """Runs `driver up` in a user's folder; gives exit code, stdout and stderr. changes: to the site file."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file))
    monkeypatch.setenv("MAXTEXT_MULTISLICE_API_ENDPOINT", google.endpoint)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def command(*arguments, **changes):
        (tmp_path / "site.yaml").write_text(yaml.safe_dump(content(**changes)))
        code = cli.run(["up", *arguments])
        return code, *capsys.readouterr()

    return command


def test_a_dry_run_says_what_is_made_and_how_many_chips(run, google):
    code, out, _ = run("-f", "llama3-8b", "--dry-run")
    assert code == 0
    assert "+ GKE cluster multislice is made" in " ".join(out.split())
    assert "2 x v6e 4x4 = 32 chips on 8 ct6e-standard-4t (on-demand)" in out
    assert "trains run llama3-8b: 100 steps on 2 slices, 32 chips" in out
    assert google.mutating_calls == []


def test_the_same_for_programs(run):
    _, out, _ = run("-f", "llama3-8b", "--dry-run", "--output", "json")
    facts = json.loads(out)
    assert (facts["chips"], facts["runChips"], facts["run"]) == (32, 32, "llama3-8b")


@pytest.mark.parametrize("answer", ["n\n", ""], ids=["no", "nobody there"])
def test_nothing_is_made_without_a_yes(run, google, monkeypatch, answer):
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    code, _, err = run("-f", "llama3-8b")
    assert code == 1
    assert "32 chips" in err
    assert "Nothing was changed." in err
    assert google.mutating_calls == []


def test_values_that_the_chart_refuses_end_it_before_google_is_asked(run, google):
    code, _, err = run("-f", "llama3-8b", "--set", "job.stepz=3")
    assert code == 2
    assert "Did you mean job.steps?" in err
    assert google.calls == []


def test_more_slices_than_the_site_has_are_refused(run, google):
    code, _, err = run("-f", "llama3-8b", "--set", "tpu.slices=4")
    assert code == 2
    assert "The values ask for 4 slices, and the site has 2." in err
    assert google.calls == []


def test_slices_of_another_kind_are_refused(run):
    code, _, err = run("-f", "llama3-8b", "--set", "tpu.topology=2x4,job.maxtext.ici_fsdp_parallelism=8")
    assert code == 2
    assert "The values ask for slices of v6e 2x4" in err


def test_problems_of_preflight_end_it_before_it_asks(run, google):
    google.quotas["CT6E"] = 16
    code, _, err = run("-f", "llama3-8b", "--yes")
    assert code == 1
    assert "32 v6e chips (on-demand)" in err
    assert google.mutating_calls == []


def test_without_values_it_says_what_to_give(run):
    code, _, err = run()
    assert code == 2
    assert "-f llama3-8b" in err


# A site that is made and a run on it, end to end, need a cluster that runs pods: tests/cluster/test_up.py.


def test_a_run_that_does_not_fit_ends_it_before_it_asks(run, google, monkeypatch):
    def check(checked, watch):
        raise DriverError("On 2 slices the run needs 50 GiB.", exit_code=USAGE)

    monkeypatch.setattr(before_install, "check", check)
    code, _, err = run("-f", "llama3-8b", "--yes")
    assert code == 2
    assert "On 2 slices the run needs 50 GiB." in err
    assert google.mutating_calls == []


def test_a_dry_run_checks_no_memory_and_takes_no_option_against_it(run):
    code, _, err = run("-f", "llama3-8b", "--dry-run", "--no-plan")
    assert code == 2
    assert "--dry-run checks no memory" in err
