"""The client of the compiler's servers, with servers that speak the protocol and compile nothing."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from driver.errors import DriverError
from driver.plan import executables
from driver.plan.request import Configuration
from driver.plan.session import Compiler, Failure, usable_servers
from tests.plan.processes import wait_until_gone
from tests.run_files import content

REPOSITORY = Path(__file__).parents[2]

WAITING = """
import sys
from pathlib import Path
from driver.plan.request import Configuration
from driver.plan.session import Compiler
from tests.run_files import content
command = [sys.executable, sys.argv[1]]
with Compiler(Path(sys.executable), Path(sys.argv[2]), servers=1, command=command) as compiler:
    compiler.submit(Configuration(content(), 2, {"act": "hang"}))
    try:
        for answer in compiler.answers():
            print(compiler._servers[0]._process.pid, flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_a_job_is_answered_with_its_report_and_what_maxtext_says_of_it(compiler, configuration):
    session = compiler()
    job = session.submit(configuration())
    started, memory = session.answers()
    assert (started.event, memory.event) == ("started", "memory")
    assert memory.job == job
    assert memory.last
    assert memory.report.parent == job.dump
    assert memory.facts["tflopsPerDevice"] == 2.5


def test_a_job_until_the_executable_goes_on_after_its_report(compiler, configuration, tmp_path):
    session = compiler()
    session.submit(configuration(), "executable", tmp_path / "program")
    answers = list(session.answers())
    assert [(answer.event, answer.last) for answer in answers] == [
        ("started", False), ("memory", False), ("done", True),
    ]  # fmt: skip
    assert (tmp_path / "program").read_bytes() == b"program"


def test_several_servers_work_at_once(compiler, configuration):
    session = compiler(servers=2)
    session.submit(configuration(act="slowly"))
    session.submit(configuration())
    finished = [answer for answer in session.answers() if answer.last]
    assert [answer.job.name for answer in finished] == ["2", "1"]
    assert len({answer.facts["server"] for answer in finished}) == 2


def test_one_server_does_one_job_after_the_other(compiler, configuration):
    session = compiler(servers=1)
    for _ in range(3):
        session.submit(configuration())
    finished = [answer for answer in session.answers() if answer.last]
    assert [answer.job.name for answer in finished] == ["1", "2", "3"]
    assert len({answer.facts["server"] for answer in finished}) == 1


def test_a_job_may_be_submitted_while_answers_are_read(compiler, configuration):
    session = compiler()
    session.submit(configuration())
    finished = []
    for answer in session.answers():
        if answer.last:
            finished.append(answer.job.name)
            if len(finished) == 1:
                session.submit(configuration())
    assert finished == ["1", "2"]


def test_a_failure_comes_with_its_kind_and_words_and_the_next_job_goes_on(compiler, configuration):
    session = compiler()
    session.submit(configuration(act="fail", kind="sharding"))
    session.submit(configuration())
    failed, memory = (answer for answer in session.answers() if answer.last)
    assert failed.failure == Failure("sharding", "because")
    assert memory.event == "memory"


def test_a_server_that_dies_fails_its_job_and_the_next_job_gets_another_server(compiler, configuration):
    session = compiler()
    session.submit(configuration(act="die"))
    session.submit(configuration())
    failed, memory = (answer for answer in session.answers() if answer.last)
    assert failed.failure
    assert failed.failure.kind == "killed"
    assert "SIGABRT" in failed.failure.said
    assert "terminate called" in failed.failure.said
    assert memory.event == "memory"


def test_a_server_that_cannot_start_is_an_error_with_its_last_words(compiler, configuration):
    session = compiler("broken")
    session.submit(configuration())
    with pytest.raises(DriverError, match="could not start .exit status 1.: ModuleNotFoundError: No module") as raised:
        list(session.answers())
    assert "driver plan --install" in raised.value.fix


def test_a_work_folder_with_white_space_is_refused(tmp_path):
    with pytest.raises(DriverError, match="white space") as raised:
        Compiler(Path(sys.executable), tmp_path / "a b")
    assert "TMPDIR" in raised.value.fix


def test_executables_are_saved_for_each_number_of_slices_with_what_they_were_compiled_from(
    compiler, configuration, tmp_path
):
    versions = {"maxtext": "0.2.5", "libtpu": "0.0.46"}
    both = [configuration(1), configuration(2)]
    answers = list(executables.save(compiler(), both, tmp_path / "saved", versions))
    assert [answer.job.configuration.slices for answer in answers if answer.event == "done"] == [1, 2]
    names = ["v6e-4x4-x1.trainstep", "v6e-4x4-x1.trainstep.json", "v6e-4x4-x2.trainstep", "v6e-4x4-x2.trainstep.json"]
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == names
    assert (tmp_path / "saved" / names[2]).read_bytes() == b"program"
    manifest = json.loads((tmp_path / "saved" / names[3]).read_text())
    assert manifest["sha256"] == hashlib.sha256(b"program").hexdigest()
    assert (manifest["slices"], manifest["versions"]) == (2, versions)


def test_of_an_executable_that_failed_nothing_is_left(compiler, configuration, tmp_path):
    failing = configuration(act="fail", kind="memory")
    (answer,) = [each for each in executables.save(compiler(), [failing], tmp_path / "saved", {}) if each.last]
    assert answer.failure
    assert answer.failure.kind == "memory"
    assert list((tmp_path / "saved").iterdir()) == []


def test_a_folder_for_executables_that_cannot_be_written_is_told_before_compiling(compiler, configuration, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DriverError, match="cannot be written: Not a directory"):
        list(executables.save(compiler(), [configuration()], tmp_path / "file" / "saved", {}))


def test_a_step_that_no_worker_would_load_is_not_compiled(compiler, tmp_path):
    evaluated = Configuration(content(data={"evalEverySteps": 5}), 2)
    with pytest.raises(DriverError, match="data.evalEverySteps is 5, and no worker would load a saved step"):
        list(executables.save(compiler(), [evaluated], tmp_path / "saved", {}))
    assert not (tmp_path / "saved").exists()


def test_closing_ends_servers_that_are_at_work(compiler, configuration):
    session = compiler()
    session.submit(configuration(act="hang"))
    next(session.answers())
    process = session._servers[0]._process
    begun = time.monotonic()
    session.close()
    assert process.returncode is not None
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_no_server_outlives_the_driver(ending, tmp_path):
    fake = Path(__file__).with_name("fake_server.py")
    command = [sys.executable, "-c", WAITING, str(fake), str(tmp_path / "work")]
    environ = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'trainer'}"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout
        server = int(driver.stdout.readline())
        driver.send_signal(ending)
        assert driver.wait(20) == (130 if ending == signal.SIGINT else -signal.SIGKILL)
    wait_until_gone(server)


def test_there_is_a_server_for_each_core_that_has_memory(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for gib, servers in ((100.0, 8), (9.0, 2), (1.0, 1)):
        monkeypatch.setattr("driver.plan.session.available_memory_gib", lambda gib=gib: gib)
        assert usable_servers() == servers


def test_what_is_being_compiled_is_told_with_how_far_it_is(compiler, configuration):
    session = compiler()
    assert session.doing() == ""
    session.submit(configuration(act="hang"))
    next(session.answers())
    assert session.doing() == "tracing the model, 0 s"
    (session._work / "dump-1").mkdir()
    (session._work / "dump-1" / "m.before_optimizations.txt").touch()
    assert session.doing().startswith("planning memory")
    (session._work / "dump-1" / "m.memory-usage-report.txt").touch()
    assert session.doing().startswith("generating code")
