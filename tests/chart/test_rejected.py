"""Values that cannot work are refused by Helm itself, with what was found, the rule and the fix.

Each file in rejected/ begins with the message, or its beginning, as a comment; schema-*.yaml are refused by the schema,
in the words of Helm's validator, so theirs is a pattern.
"""

import re
import shutil
from pathlib import Path

import arguments
import data_arguments
import pytest
import yaml

from tests.chart.rendering import CHART, HelmError, helm, notes, template

REJECTED = sorted(Path(__file__).parent.glob("rejected/*.yaml"))
INSTALLING = ["--api-versions", "ray.io/v1", "--api-versions", "resource.k8s.io/v1"]
"""A cluster with KubeRay: what a template rendered for an install sees."""


@pytest.mark.parametrize("file", REJECTED, ids=lambda path: path.stem)
def test_rejected_values_are_refused_with_their_message(file):
    expected = file.read_text().splitlines()[0].removeprefix("# ")
    with pytest.raises(HelmError) as refused:
        template(file)
    message = str(refused.value)
    if file.stem.startswith("schema-"):
        assert re.search(expected, message)
    else:
        assert expected in message
        assert "One problem in the values of demo" in message


def test_all_problems_of_one_rendering_are_in_one_message():
    with pytest.raises(HelmError) as refused:
        template(sets=["tpu.topology=4x5", "job.maxtext.steps=3", "worker.env.TPU_NAME=x", "job.runName=a/b"])
    message = str(refused.value)
    assert "4 problems in the values of demo" in message
    assert re.findall(r"^  (\d)\. .*\[(\w+)\]$", message, re.MULTILINE) == [
        ("1", "tpuShape"),
        ("2", "runName"),
        ("3", "maxtextArguments"),
        ("4", "tpuEnvironment"),
    ]


def test_every_argument_that_the_trainer_computes_is_refused():
    computed = arguments.COMPUTED | data_arguments.OWNED
    with pytest.raises(HelmError) as refused:
        template(values={"job": {"maxtext": {**dict.fromkeys(computed, 1), "hf_access_token": "x"}}})
    assert set(re.findall(r"job\.maxtext\.(\w+) is set\. The trainer computes it", str(refused.value))) == computed
    rules = (CHART / "templates" / "_validate_run.tpl").read_text()
    listed = rules.partition('define "maxtext-multislice.computedArguments" -}}')[2].partition("{{- end -}}")[0]
    assert set(yaml.safe_load(listed)) == computed


def test_a_longer_notice_can_be_allowed_and_on_demand_needs_no_leave():
    grace = "worker.terminationGracePeriodSeconds=60"
    template(sets=[grace])
    template(sets=[grace, "tpu.capacity=spot", "guards.allow.spotGracePeriod=true"])


def test_a_rule_can_be_broken_on_purpose_and_the_run_says_so():
    sets = ["worker.env.MEGASCALE_NUM_SLICES=2", "guards.allow.tpuEnvironment=true", "guards.allow.doesNotFit=false"]
    assert template(sets=sets).run["guardsAllowed"] == ["tpuEnvironment"]
    with pytest.raises(HelmError, match="One problem"):
        template(sets=[*sets, "tpu.slices=0"])


def test_a_rule_that_nothing_can_be_rendered_without_cannot_be_broken():
    with pytest.raises(HelmError, match="guards.allow"):
        template(sets=["tpu.topology=4x5", "guards.allow.tpuShape=true"])


def test_a_null_takes_back_what_is_refused():
    values = {"job": {"maxtext": {"steps": None}}, "worker": {"env": {"TPU_NAME": None}}}
    assert "steps" not in template(values=values).run["maxtext"]


def test_template_and_lint_need_no_values_and_an_install_needs_a_bucket():
    template()
    helm("lint", str(CHART), "--strict")
    with pytest.raises(HelmError, match=r"storage\.bucket is empty.*--set storage\.bucket=NAME"):
        template(options=INSTALLING)
    template(options=INSTALLING, sets=["storage.bucket=b"])
    template(options=INSTALLING, sets=["storage.kind=folder", "storage.folder=/x"])


def test_network_devices_need_their_api_in_the_cluster(tmp_path):
    """Helm's own list of APIs has it without a cluster, so a copy of the chart asks for one that is in none."""
    chart = shutil.copytree(CHART, tmp_path / "chart")
    rules = chart / "templates" / "_validate_cluster.tpl"
    rules.write_text(rules.read_text().replace('"resource.k8s.io/v1"', '"resource.k8s.io/v0"'))
    with pytest.raises(HelmError, match=r"has no resource\.k8s\.io/v1\."):
        template(chart=chart, options=INSTALLING, sets=["storage.bucket=b"])
    template(chart=chart, options=INSTALLING, sets=["storage.bucket=b", "network.dranet.enabled=false"])


def test_notes_name_the_release_s_own_objects():
    text = notes("--set", "storage.bucket=b", "--namespace", "team")
    release = template(sets=["storage.bucket=b"])
    for command in (
        f"kubectl -n team get raycluster {release.name('RayCluster')}",
        f"kubectl -n team logs -f job/{release.name('RayJob')}",
        f"kubectl -n team port-forward svc/{release.name('RayCluster')}-head-svc 8265",
        "helm upgrade demo CHART -n team --reset-then-reuse-values --set job.attempt=2",
        "Output: gs://b/demo",
    ):
        assert command in text


def test_notes_say_what_is_unusual():
    text = notes("--set", "storage.bucket=b,guards.allow.doesNotFit=true,job.enabled=false,rayJob.ownCluster=true")
    assert "guards.allow lets these values break: doesNotFit" in text
    assert "No run is submitted" in text
    assert "get raycluster" not in text
    assert "storage.bucket is empty" in notes()
    assert "That the tag rayproject/ray:2.60.0-py312-tpu exists was not verified." in notes()
    assert "not verified" not in notes("--set", "image.uri=registry.example/trainer:1")


def test_only_the_tutorials_profiles_break_rules():
    for path in (CHART / "files" / "profiles").glob("*.yaml"):
        allowed = yaml.safe_load(path.read_text()).get("guards", {}).get("allow", {})
        assert bool(allowed) == path.stem.startswith("tutorial-")
