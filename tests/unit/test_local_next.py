"""What `driver local` suggests to try next is always accepted."""

import shlex
from typing import Any

import pytest

from driver.commands.local import command, next_command
from driver.local import preemption, training
from driver.values import Values, find_file


def after(*options: str) -> tuple[dict[str, Any], list[str]]:
    """The facts of a success with these options, and its command line."""
    arguments = ["local", "-f", "tiny", *options]
    return facts(run_of(arguments)), arguments


def run_of(arguments: list[str]) -> dict[str, Any]:
    """The run of a command line. Raises where it is refused."""
    given = command.make_context("local", arguments[1:]).params
    events = (*given.pop("preemptions"), *given.pop("give_backs"))
    files, sets, texts = given.pop("files"), given.pop("sets"), given.pop("texts")
    values = Values(tuple(find_file(file) for file in files), sets, texts)
    run = training.plan(training.Request(values, events=events, **given)).run
    preemption.check(events, run)
    return run


def facts(run: dict[str, Any]) -> dict[str, Any]:
    slices = run["slices"]
    return {
        "succeeded": True,
        "run": run["name"],
        "steps": run["steps"],
        "slicesMin": slices["min"],
        "slicesMax": slices["max"],
    }


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--steps", "300"),
        ("--steps=300",),
        ("--steps", "6", "--set", "job.maxtext.checkpoint_period=2"),
        ("--set", "job.runName=mine,elastic.minSlices=2"),
        ("--set-string", "job.runName=mine"),
        ("--slices", "3", "--set", "elastic.globalBatch=scale"),
    ],
)
def test_a_run_of_a_fixed_size_may_next_lose_a_slice(options):
    found, arguments = after(*options)
    run = run_of(shlex.split(next_command(found, arguments))[1:])
    assert (run["elastic"]["enabled"], run["name"], run["steps"]) == (True, f"{found['run']}-elastic", found["steps"])


@pytest.mark.parametrize(
    "options",
    [
        ("--slices", "1"),
        ("--slices", "3"),
        ("--slices", "4"),
        *(("--steps", str(steps)) for steps in range(1, 6)),
        ("--set", "elastic.enabled=true", "--preempt", "1@20", "--give-back=1@40"),
        ("--set", "job.maxtext.checkpoint_period=50", "--steps", "40"),  # losing a slice would cost all steps
    ],
)
def test_elsewhere_it_may_train_on(options):
    found, arguments = after(*options)
    run = run_of(shlex.split(next_command(found, arguments))[1:])
    assert (run["name"], run["steps"], run["slices"]["max"]) == (found["run"], 2 * found["steps"], found["slicesMax"])


def test_data_that_another_number_of_hosts_cannot_take_up_does_not_lose_a_slice():
    data = "data.kind=hf,data.hf.path=json,data.hf.trainFiles=/t/*.jsonl,data.tokenizer.path=/t"
    found, arguments = after("--set", data)
    assert "elastic" not in next_command(found, arguments)
    assert "--steps 120" in next_command(found, arguments)


def test_options_before_the_commands_name_are_kept():
    found, arguments = after()
    assert next_command(found, ["--output", "table", *arguments]).startswith(
        "driver --output table local -f tiny --set"
    )


def test_after_a_failure_there_is_nothing_to_try():
    found, arguments = after()
    assert next_command(found | {"succeeded": False}, arguments) == ""
