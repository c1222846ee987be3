"""What can be made to go wrong, and what it leaves behind."""

import subprocess
import sys
import threading

import pytest
import requests
from google.api_core import exceptions

from tests.gcp import faults
from tests.gcp.clients import PROJECT, Clients
from tests.gcp.google import Google

NETWORK = f"projects/{PROJECT}/global/networks/net-1"


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (409, exceptions.Conflict),
        (429, exceptions.TooManyRequests),
        (500, exceptions.InternalServerError),
        (503, exceptions.ServiceUnavailable),
    ],
)
def test_a_call_is_refused_and_not_applied(
    google: Google, clients: Clients, code: int, raised: type[Exception]
) -> None:
    google.faults.add(1, faults.Refuse.with_code(code))
    with pytest.raises(raised):
        clients.make_network()
    assert NETWORK not in google.state()
    assert google.faults.left == 0


def test_an_error_may_hide_that_the_call_was_applied(google: Google, clients: Clients) -> None:
    google.faults.add(1, faults.Answer(faults.PASSING[503]))
    with pytest.raises(exceptions.ServiceUnavailable):
        clients.make_network()
    assert NETWORK in google.state()


def test_a_connection_is_cut_after_the_call_was_applied(google: Google, clients: Clients) -> None:
    google.faults.add(1, faults.Cut())
    with pytest.raises(requests.RequestException):
        clients.make_network()
    assert NETWORK in google.state()


def test_a_late_reply_runs_into_the_callers_timeout(google: Google, clients: Clients) -> None:
    google.faults.add(lambda method, path: method == "GET", faults.Delay(30))
    with pytest.raises(requests.Timeout):
        clients.networks.get(project=PROJECT, network="default", timeout=0.2, retry=None)


def test_the_second_mutating_call_is_counted_from_now_and_reads_are_not(google: Google, clients: Clients) -> None:
    clients.make_network("net-0")
    google.faults.add(2, faults.Refuse.with_code(503))
    clients.networks.get(project=PROJECT, network="net-0")
    clients.make_network("net-1")
    with pytest.raises(exceptions.ServiceUnavailable):
        clients.make_network("net-2")


def test_a_predicate_holds_for_so_many_calls(google: Google, clients: Clients) -> None:
    google.faults.add(lambda method, path: path.endswith("/subnetworks"), faults.Refuse.with_code(503), times=2)
    clients.make_network()
    for _ in range(2):
        with pytest.raises(exceptions.ServiceUnavailable):
            clients.make_subnet()
    clients.make_subnet()


def test_another_person_may_come_first(google: Google, clients: Clients) -> None:
    def come_first() -> None:
        google.resources[NETWORK] = {"name": "net-1", "autoCreateSubnetworks": True}

    google.faults.add(1, faults.Run(come_first, before=True))
    with pytest.raises(exceptions.Conflict, match="already exists"):
        clients.make_network()


CALLER = """
import sys
import requests
requests.post(sys.argv[1], json={"name": "net-1", "autoCreateSubnetworks": False},
              headers={"authorization": "Bearer ya29.stand-in"})
print("survived")
"""


@pytest.mark.parametrize(("before", "applied"), [(True, False), (False, True)])
def test_the_caller_is_killed_before_or_after_its_call(google: Google, before: bool, applied: bool) -> None:
    started = threading.Event()
    caller: list[subprocess.Popen[str]] = []

    def kill() -> None:
        started.wait()
        caller[0].kill()
        caller[0].wait()

    google.faults.add(1, faults.kill(kill, before=before))
    url = f"{google.endpoint}/compute/v1/projects/{PROJECT}/global/networks"
    command = [sys.executable, "-c", CALLER, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        caller.append(process)
        started.set()
        assert process.communicate()[0] == ""
    assert process.returncode == -9
    assert (NETWORK in google.state()) == applied


def test_every_call_is_logged_with_whether_it_changes_anything(google: Google, clients: Clients) -> None:
    clients.make_network()
    assert [(one.method, one.mutating) for one in google.calls] == [("POST", True), ("POST", False)]
    assert [one.path for one in google.mutating_calls] == [f"/compute/v1/projects/{PROJECT}/global/networks"]


def test_the_state_of_two_makings_is_the_same(google: Google, clients: Clients) -> None:
    clients.make_network()
    clients.make_cluster()
    other = Google().start()
    other.add_project(PROJECT)
    again = Clients(other)
    again.make_network()
    again.make_cluster()
    assert other.state() == google.state()
    other.stop()
