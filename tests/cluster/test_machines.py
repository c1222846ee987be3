"""Machines of namespaces: what is on one is on no other, and ends with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import network
from tests.cluster.machines import Machine, MachineError


@pytest.fixture
def machine():
    made = Machine.start("tested")
    yield made
    made.end()


def test_everything_on_a_machine_ends_with_it(machine: Machine, tmp_path: Path):
    left = machine.spawn(tmp_path / "log", ["sleep", "600"])
    machine.run("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & exec true")
    inside = machine.run("sh", "-c", "ps -e -o comm= | grep -c sleep").strip()
    assert inside == "3"  # process 1 is a sleep too
    machine.end()
    assert left.popen.wait(timeout=10) != 0
    assert not machine.alive


def test_a_mount_on_a_machine_is_seen_nowhere_else(machine: Machine, tmp_path: Path):
    machine.run("mount", "-t", "tmpfs", "inside", str(tmp_path))
    machine.run("touch", f"{tmp_path}/file")
    assert list(tmp_path.iterdir()) == []


def test_a_machine_is_not_taken_for_a_process_that_has_its_number_later(machine: Machine):
    later = Machine("later", os.getpid(), started=1)
    later.end()
    assert not later.alive
    assert machine.alive


def test_a_command_that_fails_says_where_and_why(machine: Machine):
    with pytest.raises(MachineError, match=r"on tested: ls /nowhere: .*No such file"):
        machine.run("ls", "/nowhere")


def test_a_program_that_has_ended_is_reported_with_its_last_words(machine: Machine, tmp_path: Path):
    process = machine.spawn(tmp_path / "kubelet.log", ["sh", "-c", "echo no such flag; exit 3"])
    process.popen.wait(timeout=10)
    with pytest.raises(MachineError, match=r"kubelet has ended \(3\):\nno such flag"):
        process.check()


def test_two_clusters_have_different_addresses_and_links(machine: Machine):
    other = Machine.start("other")
    try:
        first, second = network.claim(machine), network.claim(other)
        assert first != second
        assert first.below != second.below
        links = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
        assert {first.link, second.link} <= {line.split("@")[0] for line in links.splitlines()}
    finally:
        other.end()


def test_nodes_reach_each_other_and_nothing_outside(machine: Machine, tmp_path: Path):
    node = Machine.start("node")
    try:
        addresses = network.claim(machine)
        network.plug_in(node, 0, 1, machine, addresses)
        listening = "import socket; s = socket.create_server(('', 8000)); print('up', flush=True); s.accept()"
        server = machine.spawn(tmp_path / "log", [sys.executable, "-c", listening])
        while "up" not in server.log.read_text():
            server.check()
        calling = f"import socket; socket.create_connection(('{addresses.control_plane}', 8000), 5)"
        node.run(sys.executable, "-c", calling)
        routes = node.run("ip", "route").splitlines()
        assert not [route for route in routes if route.startswith("default")]
    finally:
        node.end()
