"""A run on emulated slices, from the chart to its end: the same losses as MaxText alone, whatever happens to slices.

Real Ray, JaxTrainer, MaxText, Orbax and data; CPU devices for chips. float32 sums in another order differ in the
seventh digit: TOLERANCE is relative, per step.
"""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.local import driver_runs
from tests.local.plain_runs import Losses

pytestmark = pytest.mark.local

TOLERANCE = 1e-5
STEPS = 300
ELASTIC: dict[str, object] = {"elastic.enabled": True, "elastic.resizeIntervalSeconds": 5}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands in for the bucket."""
    return tmp_path_factory.mktemp("bucket")


@pytest.fixture(scope="module")
def text(out: Path) -> Path:
    """Values of a data set in the bucket: sources of the standard library."""
    sources = [str(Path(os.__file__).parent / name) for name in ("email", "json", "asyncio", "unittest")]
    driver_runs.driver("data", "prepare", *sources, "--out", str(out / "text"), "--sequence-length", "128")
    return out / "text" / "data.values.yaml"


@pytest.fixture(scope="module")
def undisturbed(out: Path, text: Path, trainer_python: Path) -> Losses:
    """The losses of MaxText alone, on all the steps that a test trains."""
    run = driver_runs.run_file(driver_runs.options("plain", STEPS, out, data=text))
    return driver_runs.plain(run, trainer_python, out / "plain")


def assert_same(losses: dict[int, float], reference: Losses, steps: int) -> None:
    assert list(losses) == list(range(steps))
    assert losses == pytest.approx({step: reference.train[step] for step in range(steps)}, rel=TOLERANCE)


def test_two_slices_train_as_maxtext_alone_and_a_longer_run_resumes(out, text, undisturbed):
    evaluated = {"data.evalEverySteps": 10, "data.evalSteps": 2}
    first = driver_runs.local(*driver_runs.options("fixed", 30, out, evaluated, data=text))
    assert first.code == 0, first.said
    assert first.facts["lastCheckpoint"] == 29
    assert first.facts["lossLast"] < first.facts["lossFirst"] - 1
    assert [e["step"] for e in first.facts["evalLosses"]] == [0, 10, 20]
    assert first.facts["evalLosses"][-1]["loss"] < first.facts["evalLosses"][0]["loss"] - 1
    assert Path(first.facts["picture"]).stat().st_size > 0

    longer = driver_runs.local(*driver_runs.options("fixed", 50, out, data=text))
    assert longer.code == 0, longer.said
    assert longer.facts["sessions"][0]["start_step"] == 30
    assert longer.facts["stepsTrained"] == 20
    assert_same(longer.losses, undisturbed, 50)


def test_a_slice_that_vanishes_and_comes_back_changes_no_loss(out, text, undisturbed):
    disturbed = driver_runs.local(
        *driver_runs.options("killed", STEPS, out, ELASTIC, data=text), "--preempt=1@20", "--give-back=1@25"
    )
    assert disturbed.code == 0, disturbed.said
    assert [session["slices"] for session in disturbed.facts["sessions"]] == [2, 1, 2]
    assert disturbed.facts["lastCheckpoint"] == STEPS - 1
    assert_same(disturbed.losses, undisturbed, STEPS)


@pytest.mark.full
@pytest.mark.parametrize("number", [0, 1])
def test_a_slice_that_is_preempted_costs_no_failure(out, text, undisturbed, number):
    """Slice 0 holds JAX's coordinator and the process that reports."""
    disturbed = driver_runs.local(
        *driver_runs.options(f"preempted-{number}", STEPS, out, ELASTIC | {"job.maxFailures": 0}, data=text),
        *(f"--preempt={number}@20:TERM", f"--give-back={number}@25"),
    )
    assert disturbed.code == 0, disturbed.said
    assert [session["slices"] for session in disturbed.facts["sessions"]] == [2, 1, 2]
    assert_same(disturbed.losses, undisturbed, STEPS)


@pytest.mark.full
def test_slices_of_two_hosts_train_as_maxtext_alone(out, trainer_python):
    options = driver_runs.options("hosts", 15, out, {"job.maxtext.per_device_batch_size": 1})
    ended = driver_runs.local(*options, "--hosts=2")
    assert ended.code == 0, ended.said
    run = driver_runs.run_file([*options, "--set=tpu.topology=2x4", "--set=tpu.chipsPerHost=4"])
    assert run.hosts(2) == 4
    assert_same(ended.losses, driver_runs.plain(run, trainer_python, out / "plain-hosts"), 15)


@pytest.mark.full
def test_a_complete_run_is_not_trained_again(out):
    options = driver_runs.options("complete", 10, out)
    assert driver_runs.local(*options).facts["stepsTrained"] == 10
    again = driver_runs.local(*options)
    assert (again.code, again.facts["stepsTrained"]) == (0, 0)


@pytest.mark.full
def test_a_run_that_fails_more_often_than_allowed_fails_with_the_workers_words(out):
    nan = {"job.maxtext.learning_rate": "1e30", "job.maxtext.abort_on_nan_loss": True, "job.maxFailures": 1}
    ended = driver_runs.local(*driver_runs.options("nan", 40, out, nan))
    assert ended.code == 1
    assert ended.facts["restarts"] == 1
    assert "MaxText ended the process with status 1: Aborting training due to NaN loss" in ended.facts["cause"]


@pytest.mark.full
def test_a_checkpoint_that_cannot_be_saved_fails_the_run(out):
    driver = driver_runs.start(
        *driver_runs.options("unsaved", 400, out, {"job.maxFailures": 0, "job.stallTimeoutSeconds": 120})
    )
    folder = out / "unsaved" / "checkpoints"
    driver_runs.await_checkpoint(driver, folder.parent, 10)
    folder.rename(folder.with_name("moved"))
    folder.write_text("in the way")
    ended = driver_runs.wait(driver)
    assert ended.code == 1
    # One host may find the fault while the others wait for it to finish the save, until the watchdog ends them.
    assert re.search("checkpoint|Save Finalize", ended.facts["cause"], re.IGNORECASE)


@pytest.mark.full
def test_a_hang_is_ended_by_the_watchdog(out):
    """Before JAX's own heartbeats do, which take 100 s and see processes that stand still only."""
    driver = driver_runs.start(
        *driver_runs.options("hung", 4000, out, {"job.maxFailures": 0, "job.stallTimeoutSeconds": 60})
    )
    driver_runs.await_checkpoint(driver, out / "hung", 10)
    os.kill(_worker(driver.pid, "slice-1"), signal.SIGSTOP)
    ended = driver_runs.wait(driver)
    assert ended.code == 1
    assert "no progress for 60 s" in ended.facts["cause"]


def _worker(driver: int, slice_name: str) -> int:
    """The process that trains on a slice's host, among the driver's descendants."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text, environ = status.read_text(), status.with_name("environ").read_bytes()
        except OSError:
            continue
        trains = re.match(r"Name:\s+ray::RayTrain", text)
        if trains and f"TPU_NAME={slice_name}".encode() in environ and _descends(status.parent, driver):
            return int(status.parent.name)
    raise AssertionError(f"no worker of {slice_name}")


def _descends(process: Path, ancestor: int) -> bool:
    while process.name not in ("0", "1"):
        if int(process.name) == ancestor:
            return True
        process = process.with_name(process.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1])
    return False
