"""Cases through the session and the cache. The session is a stand-in that answers what was submitted, one after the
other; configurations, keys, cache, the memory report and its parser are real."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver import tpu
from driver.errors import DriverError
from driver.plan.cache import Cache, program_text
from driver.plan.compiling import CachedCompiler, DumpPredictor
from driver.plan.request import Configuration
from driver.plan.session import Answer, Failure, Job
from driver.plan.verdict import Case
from tests.run_files import content

GIB = 2**30
DUMPS = Path(__file__).with_name("dumps")
PROGRAM = (
    "HloModule m\n\nENTRY %main (p: f32[8]) -> f32[8] {\n"
    '  %f = f32[8]{0} fusion(%p), kind=kLoop, calls=%c, backend_config={"estimated_cycles":"1750000"}\n}\n'
)
REPORT = "module_0000.jit_train_step.after_optimizations-memory-usage-report.txt"
FACTS = {"tokensPerDevice": 16384.0, "tflopsPerDevice": 900.0, "checkpointBytes": 96e9}


class Session:
    """A change `fail=KIND` makes a configuration fail so."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[Job] = []
        self.submitted: list[Configuration] = []

    def submit(self, configuration: Configuration, until: Any = "memory", save: Path | None = None) -> Job:
        self.submitted.append(configuration)
        name = str(len(self.submitted))
        job = Job(name, configuration, until, self._folder / name, save)
        self._waiting.append(job)
        return job

    def answers(self) -> Iterator[Answer]:
        while self._waiting:
            job = self._waiting.pop(0)
            yield Answer(job, "started", 0.0)
            kind = job.configuration.changes.get("fail")
            if kind:
                yield Answer(job, "failed", 1.0, failure=Failure(kind, "because"))
                continue
            shutil.copytree(DUMPS / job.configuration.changes.get("dump", "plain"), job.dump)
            report = job.dump / REPORT
            if job.configuration.changes.get("cut"):
                report.write_text("Memory Space")
            yield Answer(job, "memory", 1.0, report, FACTS)
            if job.until == "executable":
                (job.dump / "m.after_codegen.txt").write_text(PROGRAM)
                yield Answer(job, "done", 9.0, report, FACTS)


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path / "dumps")


@pytest.fixture
def compiler(session, tmp_path):
    versions = {"maxtext": "0.2.5", "libtpu": "0.0.46"}
    return CachedCompiler(content(), session, Cache(tmp_path / "cache"), versions, servers=2)


def test_memory_is_the_reports_total_split_by_kind(compiler):
    (answer,) = compiler.memory([Case(2)])
    assert answer.memory.total == pytest.approx(4395647776 / GIB)
    assert list(answer.memory.kinds) == ["weights", "optimizer state", "activations and temporaries", "the rest"]
    assert answer.memory.kinds["optimizer state"] == pytest.approx(530662912 / GIB)
    assert sum(answer.memory.kinds.values()) == pytest.approx(answer.memory.total)


def test_the_largest_tensors_are_named(compiler):
    (answer,) = compiler.memory([Case(2)])
    assert answer.memory.largest[1].name.startswith("3 x bf16[4,4096,8192] MlpBlock")
    assert answer.memory.largest[1].gib == 0.75


def test_what_is_offloaded_is_told_apart(compiler):
    (answer,) = compiler.memory([Case.of(2, {"dump": "offload"})])
    assert answer.memory.kinds["optimizer state"] == 0
    assert answer.memory.host_gib == pytest.approx(664880640 / GIB)


def test_maxtexts_count_of_the_work_comes_with_it(compiler):
    (answer,) = compiler.memory([Case(2)])
    assert (answer.work.tokens, answer.work.model_tflop, answer.work.checkpoint_bytes) == (16384, 900, 96e9)


def test_what_was_compiled_once_is_not_compiled_again(compiler, session):
    first = list(compiler.memory([Case(2)]))
    assert list(compiler.memory([Case(2)])) == first
    assert len(session.submitted) == 1


def test_a_case_is_taken_only_when_a_server_is_free_for_it(compiler):
    taken: list[Case] = []

    def cases():
        for size in range(6):
            case = Case.of(2, {"per_device_batch_size": size + 1})
            taken.append(case)
            yield case

    answers = compiler.memory(cases())
    next(answers)
    assert len(taken) == 2
    assert len(list(answers)) == 5


def test_kept_answers_are_given_before_the_next_case_is_taken(compiler):
    list(compiler.memory([Case(2), Case.of(2, {"per_device_batch_size": 2})]))
    taken: list[int] = []

    def cases():
        for place, case in enumerate([Case(2), Case.of(2, {"per_device_batch_size": 2})]):
            taken.append(place)
            yield case

    next(compiler.memory(cases()))
    assert taken == [0]


def test_a_whole_compilation_is_accepted_and_has_a_dump_that_stays(compiler, session, tmp_path):
    (answer,) = compiler.whole([Case(2)])
    assert answer.accepted
    assert program_text(answer.dump) == PROGRAM
    assert list((tmp_path / "dumps").iterdir()) == []


def test_a_step_is_predicted_from_the_kept_program(compiler):
    (answer,) = compiler.whole([Case(2)])
    step = DumpPredictor(tpu.hardware("v6e"), "2x2")(answer.case, answer.dump)
    assert step.seconds == step.parts["compute"] == pytest.approx(1e-3)


@pytest.mark.parametrize("kind", ["memory", "argument", "killed"])
def test_a_failure_is_a_refusal_in_the_compilers_words(compiler, kind):
    (answer,) = compiler.memory([Case.of(2, {"fail": kind})])
    assert (answer.refusal.kind, answer.refusal.said) == (kind, "because")
    assert answer.memory is None


def test_a_program_that_is_gone_is_an_error_so_that_the_memory_is_told(compiler):
    (answer,) = compiler.whole([Case(2)])
    shutil.rmtree(answer.dump)
    with pytest.raises(DriverError, match="cannot be read") as raised:
        DumpPredictor(tpu.hardware("v6e"), "2x2")(answer.case, answer.dump)
    assert raised.value.fix == "the same command compiles it again"


def test_a_report_that_cannot_be_read_is_the_refusal_of_its_case_alone(compiler):
    cases = [Case.of(2, {"cut": True}), Case(2)]
    cut, whole = sorted(compiler.memory(cases), key=lambda answer: cases.index(answer.case))
    assert cut.refusal.kind == "other"
    assert "no block of HBM" in cut.refusal.said
    assert whole.memory


def test_other_packages_beside_the_same_versions_ask_the_compiler_anew(session, tmp_path):
    for packages, compilations in (("a", 1), ("b", 2), ("a", 2)):
        compiler = CachedCompiler(content(), session, Cache(tmp_path / "cache"), {"maxtext": "0.2.5"}, 2, packages)
        list(compiler.memory([Case(2)]))
        assert len(session.submitted) == compilations


def test_without_a_clock_nothing_could_tell_a_time():
    assert DumpPredictor(tpu.hardware("v7x"), "2x2x1").unable == "No source was found for the clock of v7x."
    assert DumpPredictor(tpu.hardware("v6e"), "4x4").unable == ""


def test_a_failure_of_this_machine_is_tried_again_another_time(compiler, session):
    for _ in range(2):
        list(compiler.memory([Case.of(2, {"fail": "killed"})]))
    assert len(session.submitted) == 2
