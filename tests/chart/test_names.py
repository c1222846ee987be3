"""Names hold a hash of what may not change under them: of all of that, and of nothing else."""

import pytest

from tests.chart.rendering import template

KINDS = ("ResourceClaimTemplate", "ConfigMap", "RayCluster", "RayJob")


def _renamed(sets: list[str], base: list[str] | None = None) -> set[str]:
    before, after = template(sets=base or []), template(sets=[*(base or []), *sets])
    return {kind for kind in KINDS if kind in before.objects and before.name(kind) != after.name(kind)}


RUN = {"ConfigMap", "RayJob"}
"""A new run on the same cluster."""
CLUSTER = {"RayCluster", "RayJob"}
"""A new cluster, and with it a new run of the same content."""


@pytest.mark.parametrize(
    ("change", "renamed"),
    [
        ("job.maxtext.learning_rate=0.1", RUN),
        ("job.steps=200", RUN),
        ("job.attempt=2", RUN),
        ("job.libtpuFlags.xla_x=true", RUN),
        ("job.env.A=b", RUN),
        ("job.runName=other", RUN),
        ("tpu.slices=3", RUN),  # the same pods, more of them
        ("tpu.emulated=true", RUN),
        ("worker.resources.requests.cpu=9", CLUSTER),
        ("head.env.A=b", CLUSTER),
        ("worker.env.A=b", CLUSTER),
        ("storage.bucket=other", CLUSTER),
        ("network.dranet.enabled=false", CLUSTER),
        ("image.pullPolicy=Always", CLUSTER),
        ("worker.terminationGracePeriodSeconds=20", CLUSTER),
        ("job.priorityClassName=high", CLUSTER),
        ("extraLabels.team=a", CLUSTER),
        ("tpu.capacity=spot", CLUSTER),
        ("head.sidecars.tail.image=i", CLUSTER),
        ("worker.envFrom.s=secret", CLUSTER),
        ("computeClass.enabled=true", CLUSTER),
        ("rayVersion=2.61.0", CLUSTER | RUN),
        ("tpu.topology=2x4", CLUSTER | RUN),
        ("image.uri=registry.example/trainer:1", CLUSTER | RUN),
        ("network.dranet.count=1", CLUSTER | {"ResourceClaimTemplate"}),
        ("rayJob.queue=tpu", CLUSTER),  # Kueue moves no cluster that runs to another queue
        ("rayJob.env.A=b", {"RayJob"}),
        ("rayJob.submitterResources.limits.memory=2Gi", {"RayJob"}),
        # What KubeRay or Kubernetes takes in place.
        ("rayJob.activeDeadlineSeconds=60", set()),
        ("rayJob.submitterBackoffLimit=3", set()),
        ("rayJob.labels.a=b", set()),
        ("kuberay.version=1.6.2", set()),
        ("serviceAccount.annotations.a=b", set()),
        # What is not the cluster's.
        ("monitoring.kind=gke", set()),
        ("dashboard.enabled=true", set()),
        ("podDisruptionBudget.enabled=false", set()),
        ("operators.subjects.ann=User", set()),
        ("networkPolicy.enabled=true", set()),
        ("clusterCheck.enabled=false", set()),
    ],
)
def test_what_a_change_gives_a_new_name(change, renamed):
    if "dranet.enabled=false" in change:
        assert template(sets=[change]).name("RayCluster") != template().name("RayCluster")
    else:
        assert _renamed([change]) == renamed


def test_the_order_in_which_capacities_are_tried_changes_no_pod():
    base = ["computeClass.enabled=true", "computeClass.priorities.spot=1"]
    assert _renamed(["computeClass.priorities.on-demand=2"], base) == set()
    assert _renamed(["computeClass.zones[0]=us-east5-b"], base) == set()


def test_a_compute_class_has_a_name_that_no_other_release_has():
    def name(release, namespace):
        options = ["--namespace", namespace]
        return template(name=release, sets=["computeClass.enabled=true"], options=options).name("ComputeClass")

    names = [name("b-c", "a"), name("c", "a-b"), name("c", "a"), name("n" * 34, "m" * 60)]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 63 for name in names)
    assert names[0].startswith("a-b-c-")


def test_the_same_values_give_the_same_names_in_any_order():
    one = template(values={"job": {"maxtext": {"a": 1, "b": 2}, "env": {"C": "c", "D": "d"}}})
    other = template(values={"job": {"env": {"D": "d", "C": "c"}, "maxtext": {"b": 2, "a": 1}}})
    assert one.objects == other.objects


def test_an_elastic_cluster_keeps_its_name_when_its_limits_change():
    base = ["elastic.enabled=true", "tpu.slices=4", "elastic.globalBatch=scale"]
    assert _renamed(["elastic.minSlices=2"], base) == RUN


def test_a_job_with_a_cluster_of_its_own_is_a_new_job_when_either_changes():
    own = ["rayJob.ownCluster=true"]
    assert _renamed(["worker.resources.requests.cpu=9"], own) == {"RayJob"}
    assert _renamed(["job.steps=7"], own) == RUN
    # Kueue admits a job by its labels, and lets none of them change while it runs.
    assert _renamed(["rayJob.queue=tpu"], own) == {"RayJob"}
    assert _renamed([r"rayJob.labels.kueue\.x-k8s\.io/priority-class=high"], own) == {"RayJob"}
    for in_place in ("labels.a=b", "suspend=true", "suspend=false", "ttlSecondsAfterFinished=5", "backoffLimit=0"):
        assert _renamed([f"rayJob.{in_place}"], own) == set()


def test_the_objects_refer_to_each_other_by_name():
    release = template()
    job = release["RayJob"]["spec"]
    assert job["clusterSelector"] == {"ray.io/cluster": release.name("RayCluster")}
    assert job["submitterPodTemplate"]["spec"]["volumes"][0]["configMap"]["name"] == release.name("ConfigMap")
    claims = release.worker["resourceClaims"]
    assert claims == [{"name": "netdev", "resourceClaimTemplateName": release.name("ResourceClaimTemplate")}]
    assert release.worker["serviceAccountName"] == release.name("ServiceAccount")


@pytest.mark.parametrize(("own_cluster", "longest"), [("false", 34), ("true", 28)])
def test_the_longest_name_stays_within_what_the_tpu_webhook_can_hold(own_cluster, longest):
    """It keeps 50 characters of `<cluster>-headless`; a job's own cluster is called `<job>-<5 characters>`."""
    release = template(name="n" * longest, sets=[f"rayJob.ownCluster={own_cluster}"])
    cluster = release.name("RayJob") + "-abcde" if own_cluster == "true" else release.name("RayCluster")
    assert len(f"{cluster}-headless") <= 50
