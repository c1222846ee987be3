"""The order of things in a plan: what is checked, compiled, predicted and proposed. The compiler is scripted."""

from dataclasses import replace

import pytest

from driver.errors import DriverError
from driver.plan import planning
from driver.plan.planning import Wishes
from driver.plan.verdict import Case, Refusal
from tests.plan.scripted import ScriptedCompiler, Second, memory, second, site


def planned(here, compiler, **wishes):
    return planning.plan(here, compiler, second, Wishes(**wishes), lambda said: None)


def test_what_fits_is_compiled_to_the_end_for_its_step_time(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(22), tmp_path)
    plan = planned(site(tmp_path), compiler)
    assert plan.fits
    assert plan.verdicts[0].step.seconds == 1.0
    assert compiler.completed == [Case(2)]


def test_for_memory_alone_nothing_is_compiled_to_the_end(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(22), tmp_path)
    assert planned(site(tmp_path), compiler, quick=True).fits
    assert compiler.completed == []


def test_a_close_call_is_compiled_to_the_end_even_then(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(31.2), tmp_path, rejected=lambda case: True)
    assert not planned(site(tmp_path), compiler, quick=True).fits
    assert compiler.completed[0] == Case(2)


def test_what_does_not_fit_gets_changes_that_were_compiled(tmp_path):
    def script(case: Case):
        return memory(25 if case.changes else 50)

    compiler = ScriptedCompiler(script, tmp_path)
    plan = planned(site(tmp_path, per_device_batch_size=8), compiler)
    assert not plan.fits
    assert plan.fixes
    assert all(fix.fits and fix.says for fix in plan.fixes)
    assert all(fix.step for fix in plan.fixes)
    assert len(compiler.completed) == 3


def test_an_elastic_run_is_judged_on_every_number_of_slices(tmp_path):
    here = site(tmp_path, 2, smallest=1)
    plan = planned(here, ScriptedCompiler(lambda case: memory(20 + case.slices), tmp_path), quick=True)
    assert [verdict.memory.total for verdict in plan.verdicts] == [21, 22]


def test_what_maxtext_refuses_ends_the_plan_with_its_words_and_a_fix(tmp_path):
    compiler = ScriptedCompiler(lambda case: Refusal("argument", "job.maxtext.foo: no such argument"), tmp_path)
    with pytest.raises(DriverError, match=r"job\.maxtext\.foo: no such argument") as raised:
        planned(site(tmp_path), compiler)
    assert raised.value.exit_code == 2
    assert raised.value.fix


def test_memory_is_told_where_the_time_is_not_known(tmp_path):
    class Unknown(Second):
        def __call__(self, case, dump):
            raise DriverError("The speed of PCIe is not known.")

    compiler = ScriptedCompiler(lambda case: memory(22), tmp_path)
    plan = planning.plan(site(tmp_path), compiler, Unknown(), Wishes(), lambda said: None)
    assert plan.fits
    assert plan.verdicts[0].step is None
    assert plan.notes == ("No step time is predicted: The speed of PCIe is not known.",)


class Ending(ScriptedCompiler):
    """Every compilation to the end is ended: by `refusal`, with the memory report where the compiler has ended it."""

    refusal = Refusal("killed", "the compiler was killed (SIGKILL)")

    def whole(self, cases, save=None):
        for answer in super().whole(cases, save):
            known = answer.memory if self.refusal.kind == "memory" else None
            yield replace(answer, memory=known, refusal=self.refusal, dump=None, accepted=False)


@pytest.mark.parametrize("kind", ["killed", "disk", "other"])
def test_where_this_machine_ends_the_whole_compilation_the_memory_is_told_with_a_note(kind, tmp_path):
    compiler = Ending(lambda case: memory(22), tmp_path)
    compiler.refusal = Refusal(kind, "the words")
    plan = planned(site(tmp_path), compiler)
    assert plan.fits
    assert plan.verdicts[0].memory.total == 22
    assert "Not compiled to the end: on 2 slices. " in plan.notes[0]
    assert "the words. What helps: " in plan.notes[0]


def test_where_only_the_whole_compilation_could_tell_it_is_an_error_that_it_was_ended(tmp_path):
    with pytest.raises(DriverError, match="was killed"):
        planned(site(tmp_path), Ending(lambda case: memory(31.2), tmp_path))


def test_an_executable_that_was_asked_for_and_could_not_be_made_is_an_error(tmp_path):
    with pytest.raises(DriverError, match="was killed"):
        planned(site(tmp_path), Ending(lambda case: memory(22), tmp_path), save=tmp_path / "out")


def test_why_the_compiler_rejects_what_its_report_has_room_for_is_told(tmp_path):
    compiler = Ending(lambda case: memory(30.9), tmp_path)
    compiler.refusal = Refusal("memory", "Ran out of memory in\n memory space hbm")
    plan = planned(site(tmp_path), compiler)
    assert not plan.fits
    said = "On 2 slices the compiler rejects the program after its memory report: Ran out of memory in memory space hbm"
    assert plan.notes[0] == said


@pytest.mark.parametrize(
    ("total", "saves", "completed"), [(22, False, []), (31.2, False, [Case(2)]), (22, True, [Case(2)])]
)
def test_where_nothing_could_tell_a_time_only_a_close_call_or_an_executable_is_compiled_to_the_end(
    total, saves, completed, tmp_path
):
    untimed = Second("No source was found for the clock of v7x.")
    compiler = ScriptedCompiler(lambda case: memory(total), tmp_path)
    wishes = Wishes(save=tmp_path / "out" if saves else None)
    planning.plan(site(tmp_path), compiler, untimed, wishes, lambda said: None)
    assert compiler.completed == completed


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_of_nothing_is_refused(size, tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    with pytest.raises(DriverError, match=f"per_device_batch_size={size}: it is more than 0"):
        planned(site(tmp_path, per_device_batch_size=size), compiler)


def test_a_text_for_a_number_is_left_to_maxtext_to_refuse(tmp_path):
    compiler = ScriptedCompiler(lambda case: Refusal("argument", "per_device_batch_size='abc'"), tmp_path)
    with pytest.raises(DriverError, match="MaxText refuses the arguments: per_device_batch_size='abc'"):
        planned(site(tmp_path, per_device_batch_size="abc"), compiler)


def test_a_sharding_that_does_not_multiply_is_refused_without_compiling(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    with pytest.raises(DriverError, match="multiply to 5, and there are 16"):
        planned(site(tmp_path, ici_fsdp_parallelism=5), compiler)
    assert compiler.asked == []


def test_executables_are_asked_for_when_it_fits(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(20), tmp_path)
    planned(site(tmp_path, 2, smallest=1), compiler, save=tmp_path / "out")
    assert compiler.saved == tmp_path / "out"
    assert compiler.completed == [Case(1), Case(2)]


def test_a_search_in_which_nothing_fits_says_what_it_has_tried(tmp_path):
    compiler = ScriptedCompiler(lambda case: memory(60), tmp_path)
    with pytest.raises(DriverError, match="Nothing that the search knows fits") as raised:
        planning.search(site(tmp_path), compiler, second, Wishes(limit=3), lambda tally: None, lambda case, text: None)
    assert "--limit" in raised.value.fix


def test_a_search_ends_where_this_machine_is_at_fault(tmp_path):
    compiler = ScriptedCompiler(lambda case: Refusal("killed", "the compiler was killed (SIGKILL)"), tmp_path)
    with pytest.raises(DriverError, match="was killed") as raised:
        planning.search(site(tmp_path), compiler, second, Wishes(), lambda tally: None, lambda case, text: None)
    assert "--workers 1" in raised.value.fix
    assert len(compiler.asked) == 1


def test_an_interrupted_search_says_what_is_best_so_far_and_how_it_goes_on(tmp_path):
    answered: list[Case] = []

    def script(case: Case):
        answered.append(case)
        if len(answered) == 5:
            raise KeyboardInterrupt
        return memory(20)

    with pytest.raises(DriverError, match="Interrupted with 4 of .* The best so far: ") as raised:
        planning.search(
            site(tmp_path), ScriptedCompiler(script, tmp_path), second, Wishes(), lambda tally: None, lambda c, t: None
        )
    assert "the same command" in raised.value.fix
