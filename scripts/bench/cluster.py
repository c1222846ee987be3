"""From `helm install` to the first trained step on the test cluster: how long, and where does the time go?

    scripts/bench/run cluster [--repeat 3] [--name test] [--output json]

Each repetition is a release of the unmodified chart with values/tiny.yaml and the tests' site file, in a namespace of
its own: two slices of two hosts, whose pods share this machine's cores; the image is on the nodes already. The cluster
is that of scripts/cluster-up, used and left where it is up, else started for this and ended. Figures are medians over
the repetitions. A step is told when the next one begins, so the first is late by that.

Where each time comes from: the client's clock for helm itself, and for the job that runs, which KubeRay notices up to
3 s late; the pods' conditions and container statuses, the RayCluster's status.stateTransitionTimes, the submitter Job's
creation and the RayJob's status.rayJobInfo, all in whole seconds; the run's records (docs/progress.md) for the worker
group and the steps. A moment may therefore seem to come a little before the one above it.
"""

import argparse
import json
import sys
import time
from typing import Any

from rich.console import Console

from scripts.bench import command_line, timeline
from tests.cluster import addons, cluster, release
from tests.cluster.machines import MachineError

_STEPS = 5
_RUN = (f"job.steps={_STEPS}", f"job.maxtext.checkpoint_period={_STEPS}", "job.maxtext.max_target_length=64")
_NO_CLUSTER = (cluster.ClusterError, MachineError, TimeoutError)
_BEGUN = ("RUNNING", "SUCCEEDED", "FAILED")
_READY_SECONDS, _TRAINED_SECONDS = 600.0, 900.0


def main() -> int:
    options = _options()
    console = Console(stderr=True)
    was_up = cluster.named(options.name).up
    try:
        place = cluster.start(options.name, console.print)
        try:
            starts = [_start(place, number, console) for number in range(1, options.repeat + 1)]
        finally:
            if not was_up:
                cluster.stop(options.name)
    except (*_NO_CLUSTER, release.NotReachedError, release.FailedError, timeline.TimelineError) as error:
        console.print(f"Error: {error}", markup=False)
        return 1
    _answer(options.output, starts)
    return 0


def _start(place: cluster.Cluster, number: int, console: Console) -> dict[str, Any]:
    """One release, from its install to the end of its run: seconds to each moment, and restarted containers."""
    where = release.Place(addons.Api(place.kubeconfig), place.kubeconfig, place.buckets)
    with where.release(f"bench-start-{number}") as demo:
        installed = time.time()
        demo.install(*_RUN)
        returned = time.time()
        ready = demo.await_object(
            "RayCluster", demo.cluster_name(), lambda each: release.cluster_state(each) == "ready", _READY_SECONDS
        )
        pods = _get(demo, "pods", "--selector=ray.io/cluster")
        name = demo.job_name()
        demo.await_object("RayJob", name, lambda each: release.job_status(each) in _BEGUN, _TRAINED_SECONDS)
        running = time.time()
        job = demo.await_success(_TRAINED_SECONDS)
        start = timeline.Start(
            installed=installed,
            returned=returned,
            running=running,
            pods=pods,
            cluster=ready,
            job=job,
            submitter=_get(demo, "jobs.batch", f"--field-selector=metadata.name={name}")[0],
            submitters=_get(demo, "pods", f"--selector=batch.kubernetes.io/job-name={name}"),
            records=demo.progress(),
        )
    seconds = timeline.seconds_since_install(start)
    console.print(f"{number}: first step after {seconds['firstStep']} s")
    return {"secondsSinceInstall": seconds, "restarts": timeline.restarts(pods)}


def _get(demo: release.Release, kind: str, selector: str) -> list[dict[str, Any]]:
    return list(json.loads(demo.kubectl("get", kind, selector, "--output=json"))["items"])


def _answer(output: str, starts: list[dict[str, Any]]) -> None:
    medians = timeline.medians([start["secondsSinceInstall"] for start in starts])
    rows = [(timeline.MOMENTS[name], *each.values()) for name, each in medians.items()]
    restarts = sum(start["restarts"] for start in starts)
    title = f"Seconds, median of {len(starts)} starts; {restarts} containers restarted"
    table = command_line.table(title, ("", "since helm install", "from the line above"), rows)
    command_line.answer(output, {"medians": medians, "starts": starts}, table)


def _options() -> argparse.Namespace:
    parser = command_line.parser(__doc__)
    parser.add_argument("--repeat", type=command_line.positive, default=3, help="releases, one after the other [3]")
    parser.add_argument("--name", default="test", help="of the cluster, as for scripts/cluster-up [test]")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
