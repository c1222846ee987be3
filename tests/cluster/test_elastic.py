"""Elastic runs: a slice's node is lost during training and comes back, and a slice that is there only later."""

import pytest

from tests.cluster import cluster
from tests.cluster.release import Release

ELASTIC = (
    "elastic.enabled=true",
    "job.steps=160",
    "job.maxtext.checkpoint_period=10",
    "job.maxtext.max_target_length=64",
)
PERIOD = 10

pytestmark = pytest.mark.own_nodes


def test_a_run_starts_on_the_slices_that_are_there_grows_and_goes_on_when_one_is_lost(
    demo: Release, lost: cluster.LostNode
):
    lost.cordon()  # the second node pool is not there yet
    demo.install(*ELASTIC)
    demo.await_session(slices=1, seconds=600)
    lost.give_back()
    demo.await_session(slices=2, seconds=400)
    running = demo.identities()
    demo.install(*ELASTIC)  # the cluster has grown since the first one
    demo.settle()
    assert demo.identities() == running
    demo.await_step(demo.sessions()[-1]["start_step"] + PERIOD, seconds=300)
    before = len(demo.sessions())
    lost.cordon_and_delete_pods(demo.namespace)
    demo.await_session(slices=1, seconds=300, after=before)
    demo.await_success(600)
    assert demo.checkpoints()[-1] == 159
    assert max(demo.steps_lost()) <= PERIOD


@pytest.mark.full
@pytest.mark.parametrize("vm_is_gone", [False, True], ids=["pods told to go", "VM gone with its kubelet"])
def test_a_run_goes_on_without_a_lost_slice_and_grows_back(demo: Release, lost: cluster.LostNode, vm_is_gone: bool):
    demo.install(*ELASTIC)
    demo.await_session(slices=2, seconds=600)
    demo.await_step(demo.sessions()[-1]["start_step"] + PERIOD, seconds=300)
    before = len(demo.sessions())
    if vm_is_gone:
        lost.vanish()
    else:
        lost.cordon_and_delete_pods(demo.namespace)
    demo.await_session(slices=1, seconds=400, after=before)
    lost.give_back()
    demo.await_session(slices=2, seconds=500, after=before)
    demo.await_success(900)
    assert demo.checkpoints()[-1] == 159
    assert max(demo.steps_lost()) <= PERIOD
