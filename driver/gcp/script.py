"""The plan as a bash script of gcloud commands, for whoever wants to read it, change it or run it by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from driver.gcp.kinds.bucket_access import BucketAccess
from driver.gcp.kinds.services import Services
from driver.gcp.plan import Action, Plan, Step
from driver.gcp.resource import PROJECT_NUMBER, Command
from driver.gcp.site import Site

_HEADER = """\
#!/usr/bin/env bash
# What `driver bootstrap` would do, as commands in an order in which they can run one after the other.
# Site: {site}
# Project: {project}
# It needs gcloud, kubectl and gke-gcloud-auth-plugin. Resources get the labels, or the description, by which
# `driver bootstrap` and `driver teardown` know them as this site's.
#
# Where it differs from the tutorial that it follows (Train with Ray Train, MaxText and multislice TPUs on GKE):
# - Names carry the cluster's name (subnets too), so that several clusters fit into one project.
# - It enables the APIs and makes firewall rules for the networks between the slices; the tutorial has neither.
# - GKE makes the networks between the slices of an Autopilot cluster itself; the tutorial makes them by hand.
# - It grants no roles to people: `driver preflight` prints the grants that are missing.
# - `gsutil mb` is `gcloud storage buckets create` by now, with uniform access and a hierarchical namespace.
# - The Kubernetes service account comes with the chart, so there is no `kubectl create serviceaccount`.
"""

_ADD_WHAT_IS_MISSING = (Services, BucketAccess)
"""Kinds whose commands may be run again, and then add what is missing."""

_ACTION_WORDS = {
    Action.KEEP: "exists.",
    Action.USE: "exists and is used as it is.",
    Action.WAIT: "is being made already ({why}): wait until it is ready.",
    Action.REMOVE: "is removed by `driver bootstrap` ({why}); this script removes nothing.",
    Action.REFUSE: "cannot go on: {why}",
    Action.UPDATE: "exists and differs ({why}). `driver bootstrap` changes it; this script does not.",
    Action.REPLACE: "is broken ({why}). Delete it before this makes it again.",
}


def render(site: Site, plan: Plan, project_number: int | None) -> str:
    """A script that makes what the plan makes, ready for bash. What it does not do is in its comments.

    project_number: None where it is not known yet: the script then asks for it.
    """
    parts = [_HEADER.format(site=site.id, project=site.project) + "set -euo pipefail"]
    if project_number is None:
        ask = Command(("gcloud", "projects", "describe", site.project, "--format=value(projectNumber)"))
        parts.append(f"{PROJECT_NUMBER}=$({ask})")
    parts += ["\n".join(_lines(step, project_number)) for step in plan.steps]
    return "\n\n".join(parts) + "\n"


def _lines(step: Step, project_number: int | None) -> Iterator[str]:
    adds = step.action == Action.UPDATE and isinstance(step.resource, _ADD_WHAT_IS_MISSING)
    words = "" if adds else _ACTION_WORDS.get(step.action)
    if words:
        yield from _comment(f"{step.resource.key} {words.format(why=step.why)}")
    if adds or step.action in (Action.CREATE, Action.REPLACE):
        yield from (_numbered(command, project_number) for command in step.resource.gcloud())


def _comment(text: str) -> Iterable[str]:
    """Every line as a comment: what Google says may have several, and none of them may become a command."""
    return [f"# {line}" for line in text.splitlines()]


def _numbered(command: Command, project_number: int | None) -> str:
    if project_number is None:
        # After the quoting, which leaves these words as they are: a number needs none.
        return str(command).replace(PROJECT_NUMBER, f"${{{PROJECT_NUMBER}}}")
    arguments = tuple(word.replace(PROJECT_NUMBER, str(project_number)) for word in command.arguments)
    return str(Command(arguments, command.comment))
