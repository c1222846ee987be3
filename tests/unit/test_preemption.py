"""Which preemptions can be rehearsed, and when they happen."""

import signal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from driver.errors import USAGE, DriverError
from driver.local.hosts import State
from driver.local.preemption import Event, Rehearsal, check, parse_give_back, parse_preemption

ELASTIC = {"steps": 100, "elastic": {"enabled": True}, "slices": {"min": 1, "max": 2}}


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("1@20", Event(20, 1, "KILL")),
        ("0@5:TERM", Event(5, 0, "TERM")),
        ("12@300:sigterm", Event(300, 12, "TERM")),
        ("1@20:kill", Event(20, 1, "KILL")),
    ],
)
def test_a_preemption_is_a_slice_a_step_and_a_signal(text, event):
    assert parse_preemption(text) == event


@pytest.mark.parametrize("text", ["1", "1@", "@3", "1@x", "1@3:HUP", "-1@3", "1@3:"])
def test_other_texts_are_no_preemption(text):
    with pytest.raises(ValueError, match=r"is not SLICE@STEP\[:SIGNAL\]"):
        parse_preemption(text)


def test_a_slice_is_given_back_without_a_signal():
    assert parse_give_back("1@40") == Event(40, 1)
    with pytest.raises(ValueError, match="is not SLICE@STEP"):
        parse_give_back("1@40:TERM")


def test_events_happen_in_the_order_of_their_steps():
    given = [parse_give_back("1@40"), parse_preemption("0@60"), parse_preemption("1@20")]
    assert [str(event) for event in check(given, ELASTIC)] == ["1@20:KILL", "1@40", "0@60:KILL"]


@pytest.mark.parametrize(
    ("preempt", "give_back", "problem"),
    [
        (["2@20"], [], "the run has slices 0 to 1"),
        (["1@99"], [], "the run's last step is 99"),
        (["1@20", "1@30"], [], "slice 1 is away at that step"),
        ([], ["1@30"], "slice 1 is there at that step"),
        (["1@20"], ["1@10"], "slice 1 is there at that step"),
        (["0@20", "1@30"], [], "fewer than elastic.minSlices=1 slices would be left"),
    ],
)
def test_events_that_the_run_cannot_have_are_refused(preempt, give_back, problem):
    events = [*map(parse_preemption, preempt), *map(parse_give_back, give_back)]
    with pytest.raises(DriverError, match=problem) as raised:
        check(events, ELASTIC)
    assert raised.value.exit_code == USAGE


def test_a_run_of_a_fixed_size_has_no_preemptions():
    with pytest.raises(DriverError, match=r"elastic\.enabled is false"):
        check([parse_preemption("1@20")], ELASTIC | {"elastic": {"enabled": False}})


def test_no_events_suit_every_run():
    assert check([], {"elastic": {"enabled": False}, "slices": {"min": 2, "max": 2}, "steps": 1}) == []


class Host:
    """A host that dies of SIGTERM only if it is told to obey."""

    def __init__(self, obeys: bool = True) -> None:
        self.name, self.state, self.obeys = "slice-1-host-0", State.READY, obeys
        self.done: list[str] = []

    def ended(self) -> bool:
        return "vanish" in self.done or ("SIGTERM" in self.done and self.obeys)

    def vanish(self) -> None:
        self.done.append("vanish")


class Hosts:
    """Slice 1 has one host; what is done to it is kept in order. A hook runs until `hook_ends`."""

    def __init__(self, host: Host) -> None:
        self.host, self.slices, self.hook_ends = host, {1: [host]}, False
        self.added: list[int] = []

    def add_slice(self, number: int) -> None:
        self.added.append(number)

    def enter(self, host: Host, command: list[str]) -> SimpleNamespace:
        host.done.append(command[0])
        return SimpleNamespace(poll=lambda: 0 if self.hook_ends else None)

    def signal(self, host: Host, number: signal.Signals) -> None:
        host.done.append(number.name)


def rehearsal(hosts: Hosts, *events: Event, grace: float = 25) -> Rehearsal:
    hook = {"preStop": {"exec": {"command": ["drain"]}}}
    pod = {"terminationGracePeriodSeconds": grace, "containers": [{"lifecycle": hook}]}
    return Rehearsal(events, cast(Any, hosts), pod, lambda text: None)


def test_a_killed_slice_vanishes_once_the_step_is_trained():
    hosts = Hosts(Host())
    preemption = rehearsal(hosts, Event(20, 1, "KILL"))
    preemption.advance(19, 0)
    assert hosts.host.state is State.READY
    preemption.advance(22, 0)
    assert (hosts.host.state, hosts.host.done) == (State.GONE, ["vanish"])
    assert not preemption.pending


def test_a_terminated_slice_has_its_hook_before_the_signal():
    hosts = Hosts(Host())
    preemption = rehearsal(hosts, Event(20, 1, "TERM"))
    preemption.advance(20, 0)
    assert (hosts.host.state, hosts.host.done) == (State.LEAVING, ["drain"])
    hosts.hook_ends = True
    preemption.advance(20, 0)
    assert hosts.host.done[:2] == ["drain", "SIGTERM"]
    assert hosts.host.state is State.GONE


def test_what_is_left_after_the_grace_period_is_killed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("driver.local.preemption.time.monotonic", lambda: now[0])
    hosts = Hosts(Host(obeys=False))
    hosts.hook_ends = True
    preemption = rehearsal(hosts, Event(20, 1, "TERM"), grace=25)
    preemption.advance(20, 0)
    now[0] = 24.0
    preemption.advance(20, 0)
    assert hosts.host.done == ["drain", "SIGTERM"]
    now[0] = 26.0
    preemption.advance(20, 0)
    assert hosts.host.done == ["drain", "SIGTERM", "vanish"]


def test_a_slice_is_given_back_only_after_the_workers_have_started_again():
    hosts = Hosts(Host())
    preemption = rehearsal(hosts, Event(20, 1, "KILL"), Event(40, 1))
    preemption.advance(50, 0)
    preemption.advance(55, 0)
    assert not hosts.added
    preemption.advance(16, 1)
    assert not hosts.added
    preemption.advance(40, 1)
    assert hosts.added == [1]
