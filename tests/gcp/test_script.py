"""`driver bootstrap --print-gcloud`: the plan as a script that can be run, and the tutorial's commands are in it."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from driver.gcp import script
from driver.gcp.kinds.bucket_access import BucketAccess
from driver.gcp.kinds.services import Services
from driver.gcp.plan import Action, Plan, Step
from driver.gcp.prerequisites import prerequisites
from driver.gcp.resource import Command
from driver.gcp.site import Site
from tests.gcp.tutorial_commands import COMMANDS, VARIABLES, TutorialCommand, flags, verb

RECORDER = """\
#!/bin/sh
printf '%s\\036' {name} "$@" >> {log}
printf '\\035' >> {log}
"""
"""Writes its arguments, each with an ASCII record separator behind it, and a group separator."""


def a_site(mode: str, namespace: str = VARIABLES["NAMESPACE"]) -> Site:
    version = VARIABLES["CLUSTER_VERSION"]
    return Site.model_validate(
        {
            "project": VARIABLES["PROJECT_ID"],
            "zone": VARIABLES["ZONE"],
            "cluster": {"name": VARIABLES["CLUSTER_NAME"], "mode": mode, "version": version},
            "tpu": {"type": "v6e", "topology": "4x4", "slices": 2},
            "bucket": {"name": VARIABLES["GS_BUCKET"]},
            "namespace": namespace,
            "serviceAccount": VARIABLES["KSA_NAME"],
        }
    )


def rendered(site: Site, action: Action = Action.CREATE, why: str = "") -> str:
    steps = tuple(Step(resource, action, why=why) for resource in prerequisites(site))
    return script.render(site, Plan(steps), int(VARIABLES["PROJECT_NUMBER"]))


def run(text: str, folder: Path) -> list[list[str]]:
    """Runs a script with recorders in the place of gcloud and kubectl. Returns what was called, in order."""
    log = folder / "calls"
    log.touch()
    for name in ("gcloud", "kubectl"):
        recorder = folder / name
        recorder.write_text(RECORDER.format(log=shlex.quote(str(log)), name=name))
        recorder.chmod(0o755)
    file = folder / "script.sh"
    file.write_text(text)
    path = f"{folder}{os.pathsep}{os.defpath}"
    subprocess.run(["bash", str(file)], check=True, cwd=folder, env={"PATH": path}, timeout=60)
    return [group.split("\x1e")[:-1] for group in log.read_text().split("\x1d")[:-1]]


def comments(text: str) -> str:
    lines = (line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    return " ".join(lines)


def cases() -> list[tuple[str, TutorialCommand]]:
    return [(mode, one) for mode in ("standard", "autopilot") for one in COMMANDS if one.mode in ("", mode)]


@pytest.mark.parametrize(("mode", "tutorial"), cases(), ids=[f"{mode}: {one.line[:60]}" for mode, one in cases()])
def test_each_command_of_the_tutorial_is_in_it_with_its_flags_or_the_reason_why_not(mode, tutorial, tmp_path):
    text = rendered(a_site(mode))
    if tutorial.reason:
        assert tutorial.reason in comments(text)
    calls = run(text, tmp_path)
    if not tutorial.start:
        assert not [call for call in calls if verb(call)[:3] == verb(tutorial.words)[:3]]
        return
    ours = [flags(call) for call in calls if verb(call) == tutorial.start]
    assert any(has(one, tutorial.wanted) for one in ours), (tutorial.wanted, ours)


def has(ours: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether the flags are all there. Of node labels, ours may be more."""
    more = set(ours.get("--node-labels", "").split(",")) >= set(wanted.get("--node-labels", "").split(","))
    rest = {name: value for name, value in wanted.items() if name != "--node-labels"}
    return rest.items() <= ours.items() and (more or "--node-labels" not in wanted)


@pytest.mark.parametrize("mode", ["standard", "autopilot"])
def test_nothing_is_called_before_what_it_needs(mode, tmp_path):
    calls = [" ".join(call) for call in run(rendered(a_site(mode, "maxtext")), tmp_path)]

    def place(start: str) -> int:
        return next(place for place, call in enumerate(calls) if call.startswith(start))

    assert place("gcloud services enable") == 0
    assert place("gcloud container clusters create") < place("gcloud container clusters get-credentials")
    assert place("gcloud container clusters get-credentials") < place("kubectl")
    assert place("gcloud storage buckets create") < place("gcloud storage buckets add-iam-policy-binding")
    if mode == "standard":
        assert place("gcloud compute networks create") < place("gcloud compute networks subnets create")
        assert place("gcloud compute networks create") < place("gcloud compute firewall-rules create")
        assert place("gcloud container clusters create") < place("gcloud container node-pools create")
        assert place("gcloud compute networks subnets create") < place("gcloud container node-pools create")


def test_what_exists_is_a_comment_and_no_command(tmp_path):
    text = rendered(a_site("standard"), Action.KEEP)
    assert "# VPC network multislice-net-1 exists." in text
    assert run(text, tmp_path) == []


@pytest.mark.parametrize("kind", [Services, BucketAccess])
def test_what_is_partly_there_is_completed(kind):
    (resource,) = [one for one in prerequisites(a_site("standard")) if isinstance(one, kind)]
    text = script.render(a_site("standard"), Plan((Step(resource, Action.UPDATE, why="less"),)), 1)
    assert re.search(r"^gcloud (services enable|storage buckets add-iam-policy-binding)", text, re.MULTILINE)


def test_the_projects_number_is_in_it():
    assert "projects/123456789012/locations/global/workloadIdentityPools" in rendered(a_site("standard"))
    assert "PROJECT_NUMBER" not in rendered(a_site("standard"))


@pytest.mark.parametrize("action", [action for action in Action if action is not Action.CREATE])
def test_what_google_says_never_becomes_a_command(action, tmp_path):
    text = rendered(a_site("standard"), action, why="bad news\ngcloud projects delete demo-project\r\ngcloud auth list")
    called = [call[1:3] for call in run(text, tmp_path)]
    assert ["projects", "delete"] not in called
    assert ["auth", "list"] not in called


def test_every_argument_arrives_as_it_is(tmp_path):
    strange = ("gcloud", "say", "--text=a b $HOME `id` \"'; rm -rf .", "--list=a,b", "-x", "$(date)")
    assert run(f"{Command(strange, 'Two\nlines.')}\n", tmp_path) == [list(strange)]
