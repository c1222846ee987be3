"""values/tutorial-*.yaml are the upstream tutorial, field by field; each difference is listed with its reason.

tutorial/ holds the tutorial's manifests, the settings of its scripts and the arguments that it submits. The RayJob and
the ConfigMap have no counterpart there: the tutorial submits its run by hand, so what they say is compared with that.
"""

import re
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import PROFILES, Release, template
from tests.chart.tutorial_differences import ABSENT, DIFFERENCES, ELASTIC, LIBTPU, NAMES, NO_RETRIES, Difference
from tests.chart.tutorial_run import flags, handed_over

TUTORIAL = Path(__file__).parent / "tutorial"
RUNS = yaml.safe_load((TUTORIAL / "runs.yaml").read_text())
VARIABLES = {"KSA_NAME": "trainer", "GS_BUCKET": "my-bucket", "NAMESPACE": "default"}
"""What envsubst fills in."""
PARTS = ("ResourceClaimTemplate", "ServiceAccount", "RayCluster", "run")


@pytest.fixture(params=[path for path in PROFILES if path.stem.startswith("tutorial-")], ids=lambda path: path.stem)
def profile(request) -> Path:
    path: Path = request.param
    return path


def test_a_profile_differs_from_the_tutorial_in_what_is_listed_and_in_nothing_else(profile, tmp_path, monkeypatch):
    tutorial, ours = _tutorial(profile.stem), _ours(profile, tmp_path, monkeypatch)
    found = [difference for part in PARTS for difference in _compare(tutorial[part], ours[part], part)]
    listed = [difference[:3] for difference in _listed(profile.stem)]
    assert [difference for difference in found if difference not in listed] == [], "not listed"
    assert [difference for difference in listed if difference not in found] == [], "listed, and no longer there"


def test_every_run_of_the_tutorial_has_a_profile():
    assert {path.stem for path in PROFILES if path.stem.startswith("tutorial-")} == set(RUNS)


def test_every_name_that_is_another_is_one_of_the_tutorials():
    text = (TUTORIAL / "ray-cluster.tpu-multi-slice.yaml").read_text()
    assert [name for name in NAMES if not re.search(rf"name: {name}$", text, re.MULTILINE)] == []


def test_a_difference_is_listed_once_and_with_a_reason():
    for name in RUNS:
        assert [path for path, times in Counter(listed.path for listed in _listed(name)).items() if times > 1] == []
    assert all(len(listed.reason) > 20 for listed in [*DIFFERENCES, *ELASTIC, *NO_RETRIES])


def test_the_comparison_sees_a_changed_a_missing_and_an_added_field():
    theirs = {"a": 1, "list": [{"name": "x", "value": "1"}, {"name": "y"}], "on": True}
    ours = {"list": [{"name": "y"}, {"name": "x", "value": "2"}], "on": 1, "new": {"z": None}}
    assert list(_compare(theirs, ours, "at")) == [
        ("at/a", 1, ABSENT),
        ("at/list/x/value", "1", "2"),
        ("at/on", True, 1),
        ("at/new", ABSENT, {"z": None}),
    ]


def _listed(run: str) -> list[Difference]:
    return [*DIFFERENCES, *(ELASTIC if run == "tutorial-elastic" else NO_RETRIES), *_of_the_run(run)]


def _of_the_run(run: str) -> list[Difference]:
    """Those that hold the run's name."""
    name = RUNS[run]["arguments"]["run_name"]
    entrypoint = RUNS[run]["submission"]["entrypoint"]
    return [
        Difference("run/runConfig/name", "maxtext_jaxtrainer", name, "Two runs on one cluster would share a name."),
        Difference("run/runConfig/storage_path", ABSENT, f"/data/{name}/ray", "Ray's results outlive the head."),
        Difference(
            "run/submission/entrypoint", entrypoint, "python train.py run.yaml", "Arguments travel as data in run.yaml."
        ),
    ]


def _tutorial(run: str) -> dict[str, Any]:
    objects: dict[str, Any] = {}
    for file in ("ray-cluster.tpu-multi-slice.yaml", "service-account.yaml"):
        text = string.Template((TUTORIAL / file).read_text()).substitute(VARIABLES)
        objects |= {document["kind"]: document for document in _renamed(list(yaml.safe_load_all(text)))}
    worker = objects["RayCluster"]["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    (libtpu,) = [variable for variable in worker["env"] if variable["name"] == "LIBTPU_INIT_ARGS"]
    told = flags(libtpu["value"])
    libtpu["value"] = LIBTPU
    return {**objects, "run": {**RUNS[run], "libtpuFlags": told}}


def _renamed(value: Any) -> Any:
    """With our names for the tutorial's."""
    if isinstance(value, dict):
        return {key: _renamed(content) for key, content in value.items()}
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    return NAMES[value][0] if isinstance(value, str) and value in NAMES else value


def _ours(profile: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    release = template(profile, sets=["storage.bucket=my-bucket", "serviceAccount.name=trainer"])
    run = handed_over(release.run_file, folder, monkeypatch)
    run["runConfig"]["worker_runtime_env"]["env_vars"]["LIBTPU_INIT_ARGS"] = LIBTPU
    return {**release.objects, "run": {**run, "submission": _submission(release)}}


def _submission(release: Release) -> dict[str, Any]:
    job = release["RayJob"]["spec"]
    return {"entrypoint": job["entrypoint"], **yaml.safe_load(job["runtimeEnvYAML"])}


def _compare(theirs: Any, ours: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Walks both trees: each place where they differ, with what either has there."""
    left, right = _comparable(theirs), _comparable(ours)
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            yield from _compare(left.get(key, ABSENT), right.get(key, ABSENT), f"{path}/{key}")
    elif left != right or isinstance(left, bool) != isinstance(right, bool):
        yield path, _plain(theirs), _plain(ours)


def _comparable(value: Any) -> Any:
    """Where the order means nothing, a map: things with names, and mount options. Names without their hash."""
    if isinstance(value, list | tuple):
        items = list(value)
        named = bool(items) and all(isinstance(item, dict) and ("name" in item or "key" in item) for item in items)
        return {item.get("name") or item["key"]: item for item in items} if named else dict(enumerate(items))
    if isinstance(value, str) and ",uid=1000" in value:
        return dict.fromkeys(value.split(","), True)
    return _plain(value)


def _plain(value: Any) -> Any:
    return re.sub(r"\bdemo-(netdev-)?[0-9a-f]{6}\b", r"demo-\1HASH", value) if isinstance(value, str) else value
