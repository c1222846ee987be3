"""Processes are numbered by slice and host, and a slice that is not whole is an error before it is a hang."""

import random

import pytest
from places import Place, SliceError, check, order


def workers(slices, hosts, topology="2x4"):
    return [Place(f"tpu-group-{s}", h, topology) for s in slices for h in range(hosts)]


def test_slices_count_as_numbers_and_hosts_by_worker_id():
    expected = workers(range(12), 2)
    shuffled = random.Random(0).sample(expected, len(expected))
    assert [shuffled[i] for i in order(shuffled)] == expected


def test_whole_slices_pass():
    check(workers((0, 3), 2), "2x4", 2)


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (workers((0,), 3), r"hosts with TPU_WORKER_ID \[0, 1, 2\]"),
        ([Place("a-0", 0, "2x4"), Place("a-0", 0, "2x4")], r"TPU_WORKER_ID \[0, 0\]"),
        (workers((0,), 2, "4x4"), "has topology 4x4; the run asked for 2x4"),
    ],
    ids=["too many hosts", "one host twice", "another topology"],
)
def test_a_slice_that_is_not_what_was_asked_for_is_named(places, message):
    with pytest.raises(SliceError, match=message):
        check(places, "2x4", 2)
