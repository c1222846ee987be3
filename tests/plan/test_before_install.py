"""The check that an install makes. The compiler is scripted; its environment is said to be there."""

import contextlib
from dataclasses import replace

import pytest

from driver.errors import USAGE, DriverError
from driver.plan import before_install, environment, opening
from driver.plan.verdict import Answer, Case, Refusal
from tests.plan.scripted import ScriptedCompiler, memory, second, site
from tests.run_files import content


class Compiler(ScriptedCompiler):
    """kept: what a whole compilation has said before."""

    kept: Answer | None = None

    def kept_whole(self, case: Case) -> Answer | None:
        return self.kept


@pytest.fixture
def checked(monkeypatch, tmp_path):
    """checked(script, slices, smallest): what the check says of a run whose memory the script gives."""

    def check(script, slices=2, smallest=None, kept=None, maxtext="0.2.5"):
        here = replace(site(tmp_path, slices, smallest), compiled_by={"maxtext": maxtext})

        @contextlib.contextmanager
        def compiler(run, python, servers):
            scripted = Compiler(script, tmp_path)
            scripted.kept = kept
            yield here, scripted, second

        monkeypatch.setattr(opening, "compiler", compiler)
        monkeypatch.setattr(environment, "is_installed", lambda: True)
        monkeypatch.setattr(environment, "require_platform", lambda: None)
        return before_install.check(here.run)

    return check


def test_what_fits_is_told_with_its_memory(checked):
    remark = checked(lambda case: memory(22))
    assert remark.said == "HBM: 22.00 of 31.25 GiB per device by the TPU compiler's report: it fits."
    assert not remark.warns


def test_what_cannot_fit_is_refused_with_the_ways_out(checked):
    with pytest.raises(DriverError, match="On 2 slices the run needs 50.00 GiB of HBM per device, of 31.25") as raised:
        checked(lambda case: memory(50))
    assert "driver plan with the same values" in raised.value.fix
    assert "--no-plan" in raised.value.fix
    assert raised.value.exit_code == USAGE


def test_an_elastic_run_has_to_fit_on_the_fewest_slices(checked):
    with pytest.raises(DriverError, match="On one slice the run needs 50") as raised:
        checked(lambda case: memory(50 if case.slices == 1 else 20), smallest=1)
    assert "--set elastic.minSlices=2" in raised.value.fix
    assert "every number of slices from 1 to 2" in raised.value.rule


def test_too_close_to_tell_is_a_warning_and_no_refusal(checked):
    remark = checked(lambda case: memory(31.2))
    assert remark.warns
    assert "too close to tell" in remark.said


def test_what_a_plan_has_compiled_to_the_end_decides_a_close_call(checked):
    rejected = Answer(Case(2), memory(31.2), Refusal("memory", "Ran out of memory"))
    with pytest.raises(
        DriverError, match="On 2 slices the compiler rejects the program after its memory report: Ran out of memory"
    ):
        checked(lambda case: memory(31.2), kept=rejected)
    accepted = Answer(Case(2), memory(31.2), accepted=True)
    assert not checked(lambda case: memory(31.2), kept=accepted).warns


@pytest.mark.parametrize("kind", ["argument", "sharding", "batch", "topology", "flag"])
def test_what_the_values_are_at_fault_for_is_refused_in_the_compilers_words(kind, checked):
    with pytest.raises(DriverError, match="because") as raised:
        checked(lambda case: Refusal(kind, "because"))
    assert raised.value.exit_code == USAGE
    assert "--no-plan" in raised.value.fix


@pytest.mark.parametrize("kind", ["killed", "disk", "other"])
def test_what_this_machine_is_at_fault_for_is_a_warning(kind, checked):
    remark = checked(lambda case: Refusal(kind, "because"))
    assert remark.warns
    assert "could not be checked" in remark.said


def test_a_program_that_the_compiler_calls_too_large_without_a_report_is_refused(checked):
    with pytest.raises(DriverError, match="Ran out of memory"):
        checked(lambda case: Refusal("memory", "Ran out of memory in memory space hbm"))


def test_a_run_for_another_maxtext_is_not_judged_by_this_one(checked):
    remark = checked(lambda case: memory(50), maxtext="0.3.0")
    assert remark.warns
    assert "the run is for MaxText 0.2.5, and the compiler's environment has 0.3.0" in remark.said


def test_an_environment_that_does_not_start_is_a_warning(monkeypatch):
    monkeypatch.setattr(environment, "is_installed", lambda: True)
    monkeypatch.setattr(environment, "require_platform", lambda: None)
    monkeypatch.setattr(environment, "compiler_python", lambda given: (_ for _ in ()).throw(DriverError("broken")))
    remark = before_install.check(content())
    assert remark
    assert remark.said == "Whether it fits into HBM could not be checked. broken"


def test_without_the_compiler_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(environment, "is_installed", lambda: False)
    monkeypatch.setattr(environment, "require_platform", lambda: None)
    remark = before_install.check(content())
    assert remark
    assert "driver plan --install" in remark.said
    assert not remark.warns


@pytest.mark.parametrize("changes", [{"tpu": {"emulated": True}}, {"env": {"JAX_PLATFORMS": "cpu"}}])
def test_a_run_on_cpus_is_not_checked(changes):
    assert before_install.check(content(**changes)) is None
