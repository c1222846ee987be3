"""scripts/bench/bootstrap.py: its arithmetic, and that it runs from end to end."""

import json
import sys
from typing import Any

import pytest

from driver.gcp import waiting
from driver.gcp.kinds.firewall import Firewall
from driver.gcp.kinds.network import Network
from driver.gcp.kinds.subnet import Subnet
from driver.gcp.prerequisites import prerequisites
from driver.gcp.resource import Resource
from scripts.bench import bootstrap
from tests.gcp.sites import site


@pytest.fixture
def answer(monkeypatch, capsys):
    """Runs it with these options; gives its exit code and its JSON."""

    def of(*options: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--output", "json", *options])
        monkeypatch.setattr(waiting, "POLL_SECONDS", waiting.POLL_SECONDS)  # it divides them
        monkeypatch.setenv("KUBECONFIG", "")
        code = bootstrap.main()
        return code, json.loads(capsys.readouterr().out)

    return of


@pytest.mark.parametrize("slices", [1, 2, 8])
def test_the_critical_path_is_the_cluster_and_one_node_pool(slices):
    assert bootstrap.chain_of_making(prerequisites(site(tpu={"slices": slices}))) == 360 + 240


def test_a_chain_adds_up_what_waits_for_each_other():
    by_kind = {type(resource): resource for resource in prerequisites(site())}
    network, subnet, firewall = (by_kind[kind] for kind in (Network, Subnet, Firewall))
    before: dict[Resource, list[Resource]] = {network: [], subnet: [network], firewall: [network, subnet]}
    assert bootstrap.longest_chain(list(before), before.__getitem__) == 20 + 20 + 10


def test_it_measures_making_making_again_and_removing(answer):
    code, facts = answer("--slices", "2", "--scale", "1000000")
    (measured,) = facts["measured"]
    assert measured["slices"] == 2
    assert measured["floorOfOneByOne"] == round(600 / 942, 3)
    assert measured["againMutatingCalls"] == 0
    assert measured["againReads"] > 0
    assert measured["teardownCriticalPathSeconds"] == 0
    assert measured["ofCriticalPath"] > facts["goals"]["ofCriticalPath"]  # nothing is waited for here
    assert code == 1
