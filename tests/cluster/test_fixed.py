"""A run of a fixed size on two slices of two hosts, from `helm install` to the last checkpoint."""

from tests.cluster.release import Release, cluster_state


def test_a_run_trains_on_two_slices_of_two_hosts(demo: Release):
    notes = demo.install("job.steps=30", "job.maxtext.checkpoint_period=10")
    demo.await_object("RayCluster", demo.cluster_name(), lambda each: cluster_state(each) == "ready", 300)
    demo.await_success(600)
    assert demo.checkpoints()[-1] == 29
    print(notes)
