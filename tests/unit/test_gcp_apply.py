"""A plan is carried out in an order, at the same time where it may be, and again where it failed in passing."""

import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from google.api_core import exceptions as google
from requests.exceptions import ConnectionError as CutError

from driver.errors import DriverError
from driver.gcp import apply
from driver.gcp.plan import Action, Step
from driver.gcp.resource import Found, Permissions, Resource
from driver.gcp.waiting import Waiting, WaitStoppedError

SITE: Any = SimpleNamespace(id="demo_us-east5-a", tpu=SimpleNamespace(capacity="on-demand"))
NO_CLOUD: Any = None  # the things of these tests do not ask for one
PATIENCE_SECONDS = 10


class Thing(Resource):
    """A resource in memory. answers: what each call of create does, an error to raise or None."""

    kind = "thing"
    permissions = Permissions()

    def __init__(self, name, *, answers=(), made_anyway=False, on_create=lambda waiting: None):
        super().__init__(SITE, name)
        self.found = None
        self.answers = list(answers)
        self.made_anyway = made_anyway
        self.on_create = on_create
        self.created = 0

    def wanted(self):
        return {}

    def describe(self, cloud):
        return self.found

    def create(self, cloud, waiting):
        self.created += 1
        self.on_create(waiting)
        answer = self.answers.pop(0) if self.answers else None
        if answer is None or self.made_anyway:
            self.found = Found(ours=True)
        if answer is not None:
            raise answer

    def delete(self, cloud, waiting):
        self.found = None

    def gcloud(self):
        return []


class Quiet:
    """A follower that keeps what it was told."""

    def __init__(self):
        self.ends = []

    def began(self, step): ...

    def told(self, step, text): ...

    def ended(self, step, error):
        self.ends.append((step.resource.name, error))


def carry_out(*things, before=None):
    steps = [Step(thing, Action.CREATE) for thing in things]
    by_name = {step.resource.name: step for step in steps}
    needs = {name: [by_name[one] for one in others] for name, others in (before or {}).items()}
    follower = Quiet()
    failures = apply.carry_out(steps, lambda step: needs.get(step.resource.name, []), NO_CLOUD, follower)
    return failures, follower


def test_what_does_not_depend_on_another_is_made_at_the_same_time():
    meet = threading.Barrier(2)
    one, two = (Thing(name, on_create=lambda _: meet.wait(PATIENCE_SECONDS)) for name in ("one", "two"))
    failures, _ = carry_out(one, two)
    assert not failures


def test_what_depends_on_another_is_made_after_it():
    network = Thing("network")
    subnet = Thing("subnet", on_create=lambda _: pytest.fail("too early") if network.found is None else None)
    failures, _ = carry_out(subnet, network, before={"subnet": ["network"]})
    assert not failures
    assert subnet.created == 1


def test_a_failure_holds_up_what_depends_on_it_and_nothing_else():
    network, subnet, bucket = Thing("network", answers=[google.Forbidden("no")]), Thing("subnet"), Thing("bucket")
    failures, _ = carry_out(network, subnet, bucket, before={"subnet": ["network"]})
    assert [failure.step.resource.name for failure in failures] == ["network"]
    assert (subnet.created, bucket.created) == (0, 1)


@pytest.mark.parametrize("error", [google.ServiceUnavailable("503"), google.TooManyRequests("429"), CutError("cut")])
def test_what_failed_in_passing_is_tried_again(error, monkeypatch):
    monkeypatch.setattr("driver.gcp.retrying.FIRST_PAUSE_SECONDS", 0.01)
    thing = Thing("thing", answers=[error])
    failures, _ = carry_out(thing)
    assert not failures
    assert thing.created == 2


def test_a_call_whose_answer_was_lost_is_not_made_twice(monkeypatch):
    monkeypatch.setattr("driver.gcp.retrying.FIRST_PAUSE_SECONDS", 0.01)
    thing = Thing("thing", answers=[CutError("cut")], made_anyway=True)
    failures, _ = carry_out(thing)
    assert not failures
    assert thing.created == 1


def test_a_name_that_someone_else_has_is_not_tried_for_ever(monkeypatch):
    monkeypatch.setattr("driver.gcp.retrying.FIRST_PAUSE_SECONDS", 0.001)
    thing = Thing("thing", answers=[google.Conflict("taken")] * 100)
    failures, _ = carry_out(thing)
    assert isinstance(failures[0].error, DriverError)
    assert thing.created < 10


def test_what_someone_else_made_meanwhile_is_left_alone(monkeypatch):
    thing = Thing("thing")
    thing.found = Found(ours=False)
    with pytest.raises(DriverError, match="made by someone else"):
        apply.make(thing, NO_CLOUD, Waiting())
    apply.remove(thing, NO_CLOUD, Waiting())
    assert thing.found is not None


def test_ctrl_c_ends_the_waiting_and_tells_what_goes_on():
    began = threading.Event()
    ended = threading.Event()

    def wait_for_ever(waiting):
        began.set()
        try:
            waiting.pause(PATIENCE_SECONDS)
        except WaitStoppedError:
            ended.set()
            raise

    thing = Thing("thing", on_create=wait_for_ever)

    class Interrupting(Quiet):
        def began(self, step):
            threading.Thread(target=lambda: began.wait(PATIENCE_SECONDS) and _interrupt()).start()

    with pytest.raises(apply.NotFinishedError) as stopped:
        apply.carry_out([Step(thing, Action.CREATE)], lambda _: [], NO_CLOUD, Interrupting())
    assert [step.resource.name for step in stopped.value.going_on] == ["thing"]
    assert ended.wait(PATIENCE_SECONDS)


def _interrupt():
    os.kill(os.getpid(), signal.SIGINT)
