"""From a site file and values to a training run: whether the two fit, and what is made, before anything is.

The work is that of driver.gcp.bootstrap and of the install; this brings them together.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from driver.chart import render
from driver.errors import USAGE, DriverError, raise_all
from driver.gcp import values_file
from driver.gcp.findings import Status
from driver.tpu import chips_in
from driver.tpu import find as find_slice
from driver.values import Values

if TYPE_CHECKING:
    from driver.gcp.plan import Plan
    from driver.gcp.preflight import Outcome
    from driver.gcp.site import Site


@dataclass(frozen=True)
class Wanted:
    """What the user asked for. values: the user's own, without the site's file. site_values: that file's path."""

    site: Site
    values: Values
    release: str
    site_values: Path

    def all_values(self, site_values: Path) -> Values:
        """With the site's file in its place: after the first file, the profile, and before what a team sets. Where the
        user names it, it stands where the user put it."""
        files = self.values.files
        if any(file.resolve() == self.site_values.resolve() for file in files):
            return replace(self.values, files=tuple(site_values if file.resolve() == self.site_values.resolve()
                                                    else file for file in files))  # fmt: skip
        return replace(self.values, files=(*files[:1], site_values, *files[1:]))


def plan_run(wanted: Wanted) -> Mapping[str, Any]:
    """run.yaml as the chart makes it for this site, before the site is there.

    Raises a DriverError with what the chart refuses, and where the run does not fit the site's slices.
    """
    with _site_values(wanted) as path:
        rendering = render(wanted.all_values(path), wanted.release)
    run, _ = rendering.run, rendering.job  # which tells when the job is switched off
    _check_fit(run, wanted.site)
    return run


def check(outcomes: Sequence[Outcome]) -> bool:
    """Raises a DriverError with all problems that preflight found; whether everything could be checked."""
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    problems = [one for one in findings if one.status == Status.PROBLEM]
    raise_all([DriverError(one.found, rule=one.rule, fix=one.fix) for one in problems], "things are in the way:")
    return all(one.status != Status.NOT_CHECKED for one in findings)


def question(wanted: Wanted, plan: Plan, run: Mapping[str, Any]) -> str:
    """What is about to be made, how many chips it takes, and what trains on them; lines to be read before a yes."""
    site, tpu, slices = wanted.site, run["tpu"], run["slices"]
    one = find_slice(tpu["type"], tpu["topology"], tpu["chipsPerHost"])
    lines = [f"In project {site.project}, zone {site.zone}:"]
    lines += [f"  {step.resource.key} {step.action.value}" for step in plan.changes] or ["  everything is there"]
    chips = site.tpu.slices * site.slice.chips
    lines.append(
        f"TPUs of the site: {site.tpu.slices} x {site.tpu.type} {site.tpu.topology} = {chips:,} chips on "
        f"{site.tpu.slices * site.slice.hosts:,} {site.slice.machine_type} ({site.tpu.capacity}). They cost money from "
        "when their node pools are there until `driver teardown`, or until an autoscaler takes them away."
    )
    count = f"{slices['min']} to {slices['max']}" if slices["min"] < slices["max"] else str(slices["max"])
    lines.append(
        f"Then release {wanted.release} in namespace {site.namespace} trains run {run['name']}: {run['steps']:,} steps "
        f"on {count} {'slice' if count == '1' else 'slices'}, {slices['max'] * one.chips:,} chips."
    )
    return "\n".join(lines)


def as_data(wanted: Wanted, plan: Plan, run: Mapping[str, Any]) -> dict[str, Any]:
    """The same for `--output json`."""
    site = wanted.site
    return {
        "project": site.project,
        "zone": site.zone,
        "steps": [step.as_data() for step in plan.steps],
        "chips": site.tpu.slices * site.slice.chips,
        "release": wanted.release,
        "namespace": site.namespace,
        "run": run["name"],
        "runSteps": run["steps"],
        "runChips": run["slices"]["max"] * chips_in(run["tpu"]["topology"]),
    }


@contextmanager
def _site_values(wanted: Wanted) -> Iterator[Path]:
    """The site's values as bootstrap will write them, with the image that the file there has."""
    content = values_file.values(wanted.site, hierarchical_namespace=wanted.site.bucket.hierarchical_namespace)
    uri = values_file.image_of(wanted.site_values)
    if uri:
        content["image"] = {"uri": uri}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / wanted.site_values.name
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        yield path


def _check_fit(run: Mapping[str, Any], site: Site) -> None:
    """The site's values come after the profile, so only what a later file or --set changed can differ."""
    tpu, slices = run["tpu"], run["slices"]["max"]
    if tpu["emulated"]:
        raise DriverError("tpu.emulated is true.", rule="A site has TPUs.", fix="driver local", exit_code=USAGE)
    asked = (tpu["type"], tpu["topology"], tpu["chipsPerHost"])
    there = (site.tpu.type, site.tpu.topology, site.slice.chips_per_host)
    if asked != there:
        said = ["{} {} with {} chips per host".format(*shape) for shape in (asked, there)]
        raise DriverError(
            f"The values ask for slices of {said[0]}, and the site has {said[1]}.",
            rule="The site's node pools are made for one kind of slice.",
            fix="take tpu.* out of the values, or change the site file",
            exit_code=USAGE,
        )
    if slices > site.tpu.slices:
        raise DriverError(
            f"The values ask for {slices} slices, and the site has {site.tpu.slices}.",
            fix=f"--set tpu.slices={site.tpu.slices}, or tpu.slices: {slices} in the site file",
            exit_code=USAGE,
        )
