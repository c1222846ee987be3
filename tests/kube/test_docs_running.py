"""docs/running.md says what the commands have."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from driver import cli
from driver.commands import preempt, up
from driver.kube.preemption import Recovery, choose
from tests.kube.stage import job, snapshot

TEXT = (Path(__file__).parents[2] / "docs" / "running.md").read_text()
SHARED = {"--config", "--api-endpoint", "--output", "--namespace", "--context", "--kubeconfig"}


@pytest.mark.parametrize("command", [up.command, preempt.command], ids=lambda one: one.name)
def test_every_option_is_documented_and_none_besides(command):
    section = TEXT.partition(f"## `driver {command.name}`")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`-.*?) \|", section, re.MULTILINE)
    own = {option for one in command.params for option in one.opts if option.startswith("--")} - SHARED
    assert set(re.findall(r"--[\w-]+", " ".join(rows))) == own


def test_every_fact_of_a_recovery_is_documented():
    section = TEXT.partition("## `driver preempt`")[2]
    facts = Recovery(choose(snapshot(job())), 0, 2).as_data()
    assert [key for key in facts if f"`{key}`" not in section] == []
    assert len(facts) >= len(fields(Recovery))


def test_a_slice_and_a_pod_are_two_ways_to_say_what_goes(capsys):
    assert cli.run(["preempt", "demo", "--slice", "1", "--pod", "demo-1-0"]) == 2
    assert "choose one" in capsys.readouterr().err
