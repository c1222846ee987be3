"""The compiler's server: what it does with processes, files and words."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import compile_errors
import compile_step
import pytest
from run import Run

from tests.plan.processes import runs, wait_until_gone
from tests.run_files import content

REPOSITORY = Path(__file__).parents[2]
PROCESS = Path(__file__).with_name("compile_process.py")


class Server:
    """A server process; ask() gives the answers to one request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        environ = os.environ | {"PYTHONPATH": f"{REPOSITORY / 'trainer'}"}
        self.process = subprocess.Popen(
            [sys.executable, str(PROCESS)], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def request(self, act: str, until: str = "memory", **more: Any) -> dict[str, Any]:
        self._count += 1
        request = {
            "id": str(self._count), "run": content(), "slices": 2, "topology": "v6e-16", "changes": {"act": act},
            "until": until, "dump": str(self._folder / f"dump-{self._count}"), "save": None,
        }  # fmt: skip
        return request | more

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def ask(self, act: str, until: str = "memory", **more: Any) -> list[dict[str, Any]]:
        request = self.request(act, until, **more)
        self.send(request)
        answers = [self.read()]
        while not (answers[-1]["event"] in ("done", "failed") or answers[-1]["event"] == until == "memory"):
            answers.append(self.read())
        assert {answer["id"] for answer in answers} == {request["id"]}
        return answers


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.process.kill()
    server.process.wait()
    for pipe in (server.process.stdin, server.process.stdout):
        if pipe:
            pipe.close()


def test_a_report_is_passed_on_when_it_is_complete_and_the_process_has_ended_by_then(server):
    started, memory = server.ask("report_in_two_parts")
    assert (started["event"], memory["event"]) == ("started", "memory")
    assert Path(memory["reportFile"]).read_text() == "first half, second half"
    assert memory["tflopsPerDevice"] == 1.5
    assert server.ask("at_once")[-1]["event"] == "memory"  # it is free for the next one
    assert not runs(memory["pid"])


def test_a_report_is_passed_on_when_what_is_read_beside_it_is_complete(server):
    report = Path(server.ask("live_ranges_after_the_report")[-1]["reportFile"])
    ranges = report.with_name(report.name.replace("memory-usage-report", "live-range"))
    assert ranges.read_text() == "first half, second half"


def test_what_the_process_has_started_ends_with_it(server):
    memory = server.ask("helper_of_its_own")[-1]
    wait_until_gone(int(Path(memory["reportFile"]).read_text()))


def test_until_the_executable_the_report_comes_first_and_the_program_is_saved(server, tmp_path):
    answers = server.ask("whole", "executable", save=str(tmp_path / "program"))
    assert [answer["event"] for answer in answers] == ["started", "memory", "done"]
    assert (tmp_path / "program").read_bytes() == b"program"


@pytest.mark.parametrize("act", ["at_once", "does_not_fit"])
def test_a_compiler_that_ends_right_after_its_report_has_reported(act, server):
    assert server.ask(act)[-1]["event"] == "memory"


def test_a_program_that_does_not_fit_has_its_report_and_then_fails_as_such(server):
    _, memory, failed = server.ask("does_not_fit", "executable")
    assert memory["event"] == "memory"
    assert failed["error"]["kind"] == "memory"
    assert "Used 50.01G of 31.25G" in failed["error"]["said"]
    assert failed["compiledHbmBytes"] == round(50.01 * 2**30)
    assert failed["tflopsPerDevice"] == 1.5


@pytest.mark.parametrize(
    ("act", "kind", "said"),
    [
        ("does_not_fit_without_report", "memory", "exceeds the limit"),
        ("killed_within_its_report", "killed", "SIGKILL"),
        ("unknown_flag", "flag", "Did you mean: xla_tpu_fog"),
        ("no_report", "other", "wrote no"),
    ],
)
def test_a_compilation_without_a_report_fails_with_its_kind(act, kind, said, server):
    error = server.ask(act)[-1]["error"]
    assert error["kind"] == kind
    assert said in error["said"]


def test_what_the_compiler_prints_is_in_its_log_and_not_among_the_answers(server):
    memory = server.ask("prints")[-1]
    log = Path(memory["reportFile"]).with_name("compile.log").read_text()
    assert log == "Starting train_compile.py...\nfrom C++\n"


def test_a_server_whose_client_is_gone_ends_with_its_compilation(server):
    request = server.request("no_report")
    request["changes"]["act"] = "helper_of_its_own"
    server.send(request | {"until": "executable"})
    assert [server.read()["event"] for _ in range(2)] == ["started", "memory"]
    server.process.stdin.close()
    assert server.process.wait(5) == 0


def test_a_folder_with_an_older_report_is_refused(server, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x.memory-usage-report.txt").write_text("old")
    assert "is not empty" in server.ask("at_once", dump=str(tmp_path / "old"))[-1]["error"]["said"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"until": "soon"}, "memory or executable"),
        ({"dump": "/tmp/a b"}, "without white space"),
        ({"dump": "dump"}, "an absolute path"),
        ({"save": "/tmp/x"}, "save needs until=executable"),
        ({"more": 1}, "a request has the keys"),
    ],
)
def test_a_request_that_is_not_one_is_refused(wrong, said, server):
    until = wrong.pop("until", "memory")
    server.send(server.request("at_once", until, **wrong))
    server.read()
    assert said in server.read()["error"]["said"]


SAYINGS = [
    ("argument", "'per_devise_batch_size' not in 'run_name', 'model_name'", "initialize"),
    ("sharding", "Number of devices per slice 16 does not match the product of the ICI parallelism 32", ""),
    ("sharding", "Unspecified value unable to be determined with the given      ICI parallelism values", ""),
    ("sharding", "Found unspecified values (-1) for more than one DCN      parallelism axis. At most one", ""),
    ("sharding", "Failed to find assignment for logical_axis_index 3 of size 3", "create_device_mesh"),
    (
        "sharding",
        "One of pjit arguments with pytree key path [0]['model']['x'] was given the sharding NamedSharding(...) implies"
        " that array axis 0 is partitioned 16 times, but the dimension size is 24 (full shape: (24, 64), per-dimension"
        " tiling factors: (16, 1) should evenly divide the shape).",
        "",
    ),
    (
        "batch",
        "One of pjit arguments with pytree key path [1]['inputs'] was given the sharding NamedSharding(...) implies"
        " that array axis 0 is partitioned 32 times, but the dimension size is 16 (full shape: (16, 4096),"
        " per-dimension tiling factors: (32, 1) should evenly divide the shape).",
        "",
    ),
    ("batch", "Batch dimension should be shardable among the devices in data and fsdp axis", ""),
    ("topology", "Invalid compile topology: v6e-17. Valid topology names: dict_keys(['v6e-1'])", ""),
    ("topology", "INVALID_ARGUMENT: 3x3", "get_topology_desc"),
    ("flag", "Unknown command line flag 'xla_tpu_foo'", ""),
    ("flag", "INVALID_ARGUMENT: No such compile option: 'xla_tpu_foo'", ""),
    ("flag", "Continuation fusion for AllGather is enabled on platform ghostlite, but ...", ""),
    ("flag", "RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem", ""),
    ("memory", "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 50.01G of 31.25G hbm.", ""),
    ("killed", "std::bad_alloc", ""),
    ("other", "INTERNAL: RET_CHECK failure", ""),
    ("sharding", "DCN parallelism requested but only one slice available.", "initialize"),
    (
        "sharding",
        "num_kv_heads (8) for AttentionType.GLOBAL attention layers must be divisible by 16, the combined size of the"
        " mesh axes ['tensor'] that shard KV heads.",
        "",
    ),
    ("batch", "Per device batch size times sequence length should be divisible by the number of vocab tiles.", ""),
    ("argument", "q_block_size=512 should divide q_seq_len=1000.", ""),
    ("memory", "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries", ""),
]


@pytest.mark.parametrize(("kind", "said", "place"), SAYINGS, ids=[f"{kind}-{said[:30]}" for kind, said, _ in SAYINGS])
def test_words_are_told_apart_by_kind(kind, said, place):
    assert compile_errors.of_exception(_raised(ValueError(said), place)) == {"kind": kind, "said": said}


def test_what_maxtexts_own_code_refuses_is_an_argument():
    space: dict[str, Any] = {"__name__": "maxtext.layers.nnx_decoders"}
    exec("def policy(): assert False, 'Remat policy needs to be on list of remat policies'", space)
    with pytest.raises(AssertionError) as raised:
        space["policy"]()
    assert compile_errors.of_exception(raised.value)["kind"] == "argument"
    assert compile_errors.of_exception(_raised(ValueError("the same elsewhere"), ""))["kind"] == "other"


def test_a_sharding_is_told_without_the_axes_of_the_mesh():
    said = (
        "NamedSharding(mesh=Mesh('diloco': 1, 'data': 2, 'fsdp': 16, axis_types=(Auto, Auto, Auto)),"
        " spec=P('fsdp', None, None), memory_kind=device) implies that array axis 0 is partitioned 16 times"
    )
    error = compile_errors.of_exception(ValueError(said))
    assert error == {
        "kind": "sharding", "said": "P('fsdp', None, None) implies that array axis 0 is partitioned 16 times",
    }  # fmt: skip


LOGS = [
    ("flag", "ERROR: Unknown command line flag 'xla_tpu_foo'\n", "Unknown command line flag 'xla_tpu_foo'"),
    (
        "flag",
        "F1130 20:31:25.496015    7840 all_reduce_emitter.cc:179] Check failed: max_vmem_kib > 0 (-24 vs. 0)\n"
        "E1130 20:31:25.847570    7840 process_state.cc:792] RAW: Raising signal 6 with default behavior\n",
        "all_reduce_emitter.cc:179] Check failed: max_vmem_kib > 0 (-24 vs. 0)",
    ),
    (
        "other",
        "I1130 20:31:25.1    7840 a.cc:1] begun\nF1130 20:31:25.496015    7840 b.cc:9] Check failed: a == b\n"
        "E1130 20:31:25.847570    7840 process_state.cc:792] RAW: Raising signal 6 with default behavior\n",
        "libtpu has ended its process: b.cc:9] Check failed: a == b",
    ),
]


@pytest.mark.parametrize(("kind", "log", "said"), LOGS, ids=["flag", "vmem", "check"])
def test_of_a_process_that_libtpu_has_ended_the_line_that_says_why_is_told(kind, log, said):
    assert compile_errors.of_exit(6, log) == {"kind": kind, "said": said}


NOT_FITTING = (
    "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (42.83G) exceeds"
    " available HBM (31.24G). HLO module: jit_train_step."
)
"""libtpu 0.0.46's, of a program whose memory report says 42.83 GiB for all of HBM."""


@pytest.mark.parametrize(
    ("said", "gib"),
    [
        (NOT_FITTING, 42.83),
        ("Ran out of memory in memory space hbm. Used 50.01G of 31.25G hbm. Exceeded hbm capacity by 18.76G.", 50.01),
    ],
)
def test_the_total_that_did_not_fit_is_told(said, gib):
    assert compile_errors.used_hbm_bytes(said) == round(gib * 2**30)


def test_words_without_a_total_tell_none():
    assert compile_errors.used_hbm_bytes("RESOURCE_EXHAUSTED: Allocation of 50 GiB exceeds the limit") is None


def test_the_line_with_the_total_stands_first_however_long_the_rest_is():
    error = compile_errors.of_exception(RuntimeError("a list\n" * 9999 + NOT_FITTING))
    assert error["kind"] == "memory"
    assert error["said"].startswith(NOT_FITTING)


def test_the_temporaries_of_an_executable_are_the_entry_whose_sum_is_jaxs_temp():
    plan = b"\x08\x03\x10\x80\x80\x9c\xb4\x0d\x18\x80\xe9\xc0\x96\x02\x22\x00"  # libtpu's, of dumps/plain
    other = b"\x08\x03\x10\x80\x04\x18\x80\x04"
    assert compile_step.hbm_temporaries(other + plan, 4183241856) == 3599171584
    assert compile_step.hbm_temporaries(other, 4183241856) is None


def test_temporaries_without_anything_unused_are_all_of_jaxs_temp():
    assert compile_step.hbm_temporaries(b"\x08\x03\x10\x80\x04\x22\x00", 512) == 512


def test_the_mistake_behind_maxtexts_exit_status_is_told():
    def initialize() -> None:
        try:
            raise ValueError("'x' not in 'run_name'")
        except ValueError:
            sys.exit(2)

    with pytest.raises(SystemExit) as raised:
        initialize()
    error = compile_errors.of_exception(raised.value)
    assert error == {"kind": "argument", "said": "'x' not in 'run_name'"}


def test_a_full_disk_is_told_as_such():
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/dump")
    assert compile_errors.of_exception(error)["kind"] == "disk"
    assert compile_errors.of_exit(134 << 8, "E dump.cc: No space left on device\nAborted\n")["kind"] == "disk"


def test_an_end_without_known_words_has_the_last_ones():
    error = compile_errors.of_exit(6, "first\nsecond\nF0101 Check failed: a == b\n====\n")
    assert error == {"kind": "other", "said": "SIGABRT: first second F0101 Check failed: a == b"}


def test_changes_replace_what_the_run_says_and_null_removes():
    run = Run.model_validate(content(tpu={"emulated": True}))
    new = compile_step.changed(run, {"changes": {"scan_layers": None, "remat_policy": "full"}})
    assert new.maxtext == {"model_name": "llama3-8b", "per_device_batch_size": 4, "remat_policy": "full"}
    assert new.libtpu_flags == run.libtpu_flags
    assert not new.tpu.emulated


def _raised(error: Exception, place: str) -> Exception:
    """The error as it comes out of a function of this name."""
    space: dict[str, Any] = {"error": error}
    exec(f"def {place or 'f'}(): raise error", space)
    with pytest.raises(type(error)) as raised:
        space[place or "f"]()
    return raised.value
