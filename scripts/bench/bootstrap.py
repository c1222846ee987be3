"""How much sooner is the Google Cloud side there than one step after the other?

    scripts/bench/run bootstrap [--slices 2 4 8] [--scale 100] [--output json]

Google Cloud is the tests' stand-in (tests/gcp), in this process, with each kind's waiting time divided by --scale:
cluster 6 min, node pool 4 min, network and subnet 20 s, firewall rule 10 s, bucket 2 s, all else none; a delete takes
as long as the making. The driver's pauses between two looks at an operation are divided likewise. What its calls cost
in CPU is not, so it weighs --scale times as much here as it would with Google; on a busy machine the ratios are higher.

For each number of slices, all in this run:
- one by one: bootstrap's resources made one after the other, as the tutorial has its reader do, each by the same code;
- bootstrap: driver.gcp.bootstrap.carry_out without preflight, which asks and does not wait, so it has no part in what
  is scaled. Of one by one it should take at most 0.6, and at most 1.1 of the critical path;
- critical path: the sum of the waiting times on the longest chain of resources that need each other. The floor is the
  critical path's part of the sum of all waiting times: a goal below it cannot be met in any order (what calls cost can
  make a measured ratio a little smaller than it);
- bootstrap again: mutating calls (goal 0) and reads, of planning and carrying out;
- teardown, with the bucket kept, and the longest chain of deletes.

Exit code 1 when a goal is missed that is above the floor.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from driver.gcp import apply, bootstrap, teardown, waiting
from driver.gcp.cloud import Cloud
from driver.gcp.kinds.bucket import Bucket
from driver.gcp.kinds.cluster import Cluster
from driver.gcp.kinds.firewall import Firewall
from driver.gcp.kinds.network import Network
from driver.gcp.kinds.node_pool import NodePool
from driver.gcp.kinds.subnet import Subnet
from driver.gcp.plan import Plan
from driver.gcp.prerequisites import needed_by, needed_for
from driver.gcp.resource import Resource
from driver.gcp.site import Site
from driver.gcp.waiting import Waiting
from scripts.bench import command_line
from tests.gcp.google import Google

SECONDS: Mapping[type[Resource], float] = {
    Cluster: 360, NodePool: 240, Network: 20, Subnet: 20, Firewall: 10, Bucket: 2,
}  # fmt: skip
STAND_INS_NAMES: Mapping[type[Resource], str] = {
    Cluster: "cluster", NodePool: "node pool", Network: "network", Subnet: "subnet", Firewall: "firewall",
    Bucket: "bucket",
}  # fmt: skip
_OF_ONE_BY_ONE, _OF_CRITICAL_PATH = 0.6, 1.1
_PROJECT = "demo-project"


def main() -> int:
    options = _options()
    waiting.POLL_SECONDS /= options.scale
    progress = Console(stderr=True)
    measured = []
    with tempfile.TemporaryDirectory(prefix="bench-bootstrap-") as folder:
        os.environ["KUBECONFIG"] = str(Path(folder) / "kubeconfig")
        # Once without waiting, so that imports and the clients' first use are in no figure.
        _measure(_site(1), 1e6, Path(folder))
        for slices in options.slices:
            with progress.status(f"{slices} slices"):
                measured.append(_measure(_site(slices), options.scale, Path(folder)))
            progress.print(measured[-1])
    _answer(options, measured)
    return 1 if any(_missed(one) for one in measured) else 0


def _measure(site: Site, scale: float, folder: Path) -> dict[str, Any]:
    with _google(scale) as google:
        steps = bootstrap.make_plan(site, _cloud(google)).changes
        resources = [step.resource for step in steps]
        one_by_one = _time(lambda: _make_in_turn(resources, _cloud(google)))
    with _google(scale) as google:
        cloud = _cloud(google)
        plan = bootstrap.make_plan(site, cloud)
        made = _time(lambda: _carry_out(plan, site, cloud, folder))
        before = len(google.calls)
        _carry_out(bootstrap.make_plan(site, cloud), site, cloud, folder)
        again = google.calls[before:]
        removal = teardown.make_plan(site, cloud, delete_bucket=False)
        torn_down = _time(lambda: teardown.carry_out(removal, site, cloud, _quiet(), remove_releases=False))
    chain, total, removed = chain_of_making(resources), sum(map(_seconds, resources)), chain_of_removing(removal)
    return {
        "slices": site.tpu.slices,
        "oneByOneSeconds": round(one_by_one, 2),
        "bootstrapSeconds": round(made, 2),
        "criticalPathSeconds": round(chain / scale, 2),
        "ofOneByOne": round(made / one_by_one, 3),
        "floorOfOneByOne": round(chain / total, 3),
        "ofCriticalPath": round(made * scale / chain, 3),
        "againMutatingCalls": sum(call.mutating for call in again),
        "againReads": sum(not call.mutating for call in again),
        "teardownSeconds": round(torn_down, 2),
        "teardownCriticalPathSeconds": round(removed / scale, 2),
        "teardownOfCriticalPath": round(torn_down * scale / removed, 3),
    }


def _make_in_turn(resources: Sequence[Resource], cloud: Cloud) -> None:
    for resource in resources:
        apply.make(resource, cloud, Waiting())


def _carry_out(plan: Plan, site: Site, cloud: Cloud, folder: Path) -> None:
    bootstrap.carry_out(plan, site, folder / "site.values.yaml", cloud, _quiet(), lambda _: None, skip_preflight=True)


def longest_chain(resources: Sequence[Resource], before: Callable[[Resource], Iterable[Resource]]) -> float:
    """Seconds, unscaled, of the longest chain of what has to wait for each other. before: what a resource waits for."""

    @cache
    def end(resource: Resource) -> float:
        return max(map(end, before(resource)), default=0.0) + _seconds(resource)

    return max(map(end, resources))


def chain_of_making(resources: Sequence[Resource]) -> float:
    return longest_chain(resources, lambda resource: needed_for(resource, resources))


def chain_of_removing(removal: teardown.Teardown) -> float:
    """What goes with the cluster is gone when that is."""
    resources = [step.resource for step in removal.steps]
    cluster = next(one for one in resources if isinstance(one, Cluster))
    gone_with = dict.fromkeys(removal.with_cluster, cluster)

    def before(resource: Resource) -> set[Resource]:
        first = {gone_with.get(one, one) for one in needed_by(resource, [*resources, *removal.with_cluster])}
        return first - {resource}

    return longest_chain(resources, before)


def _seconds(resource: Resource) -> float:
    return SECONDS.get(type(resource), 0.0)


def _missed(one: Mapping[str, Any]) -> bool:
    return (
        one["ofOneByOne"] > max(_OF_ONE_BY_ONE, one["floorOfOneByOne"] * _OF_CRITICAL_PATH)
        or one["ofCriticalPath"] > _OF_CRITICAL_PATH
        or one["againMutatingCalls"] > 0
    )


def _answer(options: argparse.Namespace, measured: list[dict[str, Any]]) -> None:
    goals = {"ofOneByOne": _OF_ONE_BY_ONE, "ofCriticalPath": _OF_CRITICAL_PATH, "againMutatingCalls": 0}
    made = command_line.table(
        f"Seconds to make everything, with waiting times divided by {options.scale:g}",
        ("slices", "one by one", "bootstrap", "critical path", "of one by one", "floor", "of critical path"),
        [*_rows(measured, "oneByOneSeconds", "bootstrapSeconds", "criticalPathSeconds", "ofOneByOne",
                "floorOfOneByOne", "ofCriticalPath"),
         ("goal", None, None, None, _OF_ONE_BY_ONE, None, _OF_CRITICAL_PATH)],
    )  # fmt: skip
    again = command_line.table(
        "Bootstrap again, in calls; and teardown, in seconds",
        ("slices", "mutating calls", "reads", "teardown", "critical path", "of critical path"),
        [*_rows(measured, "againMutatingCalls", "againReads", "teardownSeconds", "teardownCriticalPathSeconds",
                "teardownOfCriticalPath"),
         ("goal", 0, None, None, None, None)],
    )  # fmt: skip
    facts = {"scale": options.scale, "goals": goals, "measured": measured}
    command_line.answer(options.output, facts, made, again)


def _rows(measured: Sequence[Mapping[str, Any]], *keys: str) -> Iterator[tuple[object, ...]]:
    for one in measured:
        yield one["slices"], *(one[key] for key in keys)


@contextmanager
def _google(scale: float) -> Iterator[Google]:
    google = Google().start()
    google.add_project(_PROJECT)
    for kind, name in STAND_INS_NAMES.items():
        google.delays[name] = google.delays[f"delete {name}"] = SECONDS[kind] / scale
    yield google
    google.stop()
    if google.defects:
        raise google.defects[0]


def _cloud(google: Google) -> Cloud:
    return Cloud(_PROJECT, google.endpoint, google.credentials())


def _site(slices: int) -> Site:
    return Site.model_validate(
        {
            "project": _PROJECT,
            "zone": "us-east5-b",
            "cluster": {"name": "multislice"},
            "tpu": {"type": "v6e", "topology": "4x4", "slices": slices},
            "bucket": {"name": "demo-bucket"},
        }
    )


def _quiet() -> Console:
    return Console(file=StringIO())


def _time(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _options() -> argparse.Namespace:
    parser = command_line.parser(__doc__)
    parser.add_argument("--slices", type=command_line.positive, nargs="+", default=[2, 4, 8])
    parser.add_argument("--scale", type=command_line.positive, default=100, help="what waiting times are divided by")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
