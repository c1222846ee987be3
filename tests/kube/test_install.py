"""install, stop and uninstall, with the real Helm (4, and what differs with 3.16) against an API on loopback.

What KubeRay makes of it is shown on the real cluster: tests/cluster/test_release_commands.py.
"""

import json

import pytest

from driver import cli
from tests.chart import rendering
from tests.kube.clusters import SITE, KubeRay, prepare

VALUES = [argument for each in SITE for argument in ("--set", each)]
TINY = ["-f", "tiny", *VALUES]


@pytest.fixture(autouse=True)
def cluster(api, kubeconfig):
    prepare(api)


@pytest.fixture(params=["helm", "helm-3.16"])
def each_helm(request, monkeypatch):
    monkeypatch.setattr("driver.chart.find_helm", lambda: rendering.fetched(request.param))


def install(*arguments):
    return cli.run(["install", "demo", "--detach", *TINY, *arguments])


def only(names):
    assert len(names) == 1, names
    return names[0]


def test_an_install_makes_the_chart_s_objects_and_a_revision(api, each_helm, capsys):
    assert install("--output", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["job"] == only(api.names("rayjobs"))
    assert told["cluster"] == only(api.names("rayclusters"))
    assert (told["revision"], told["namespace"], told["startsARun"]) == (1, "team", True)
    assert "sh.helm.release.v1.demo.v1" in api.names("secrets")


def test_the_same_values_start_no_run_and_others_do(api, each_helm, capsys):
    install()
    first = only(api.names("rayjobs"))
    install("--output", "json")
    assert api.names("rayjobs") == [first]
    install("--set", "job.steps=70", "--output", "json")
    assert only(api.names("rayjobs")) != first


def test_a_rerun_is_another_job_with_the_release_s_values(api, capsys):
    install("--set", "job.steps=70")
    first = only(api.names("rayjobs"))
    assert cli.run(["install", "demo", "--rerun", "--detach"]) == 0
    again = api.get("rayjobs", only(api.names("rayjobs")))
    assert again["metadata"]["name"] != first
    assert again["metadata"]["annotations"]["maxtext-multislice/attempt"] == "2"
    assert again["metadata"]["annotations"]["maxtext-multislice/steps"] == "70"
    install("--set", "job.steps=70")
    assert api.names("rayjobs") == [again["metadata"]["name"]], "the attempt is kept"


def test_a_dry_run_prints_the_manifests_and_changes_nothing(api, each_helm, capsys):
    before = dict(api.objects)
    assert cli.run(["install", "demo", "--dry-run", *TINY]) == 0
    assert "kind: RayCluster" in capsys.readouterr().out
    assert api.objects == before


def test_a_diff_tells_what_would_change_and_what_it_means(api, capsys):
    install()
    capsys.readouterr()
    before = dict(api.objects)
    assert cli.run(["install", "demo", "--diff", "--output", "json", *TINY]) == 0
    assert json.loads(capsys.readouterr().out) == {"changes": [], "startsARun": False, "replacesTheCluster": False}
    assert cli.run(["install", "demo", "--diff", *TINY, "--set", "job.steps=70"]) == 0
    told = capsys.readouterr().out
    assert "RayJob" in told
    assert "is created" in told
    assert "would start as" in told
    summary, _, details = told.partition("---")
    assert " is " in summary
    assert " is created" not in details
    assert api.objects == before


def test_a_values_error_never_reaches_the_cluster(api, capsys):
    assert install("--set", "job.stepz=3") == 2
    assert "Did you mean job.steps?" in capsys.readouterr().err
    assert api.calls == []


def test_a_name_that_cannot_be_is_refused_before_anything(api, capsys):
    assert cli.run(["install", "Demo", *TINY]) == 2
    assert "cannot be a release's name" in capsys.readouterr().err
    assert cli.run(["install", "d" * 50, *TINY]) == 2
    assert "has 50 characters" in capsys.readouterr().err
    assert api.calls == []


def test_an_install_without_values_says_what_they_are(capsys):
    assert cli.run(["install", "demo"]) == 2
    assert "-f SITE.values.yaml" in capsys.readouterr().err


def test_every_problem_of_the_cluster_is_told_before_anything_is_made(api, capsys):
    api.remove("deviceclasses", "netdev.google.com")
    api.remove("nodes", "node-1")
    assert install() == 1
    told = capsys.readouterr().err
    assert "no DeviceClass netdev.google.com" in told
    assert "1 of 1 node pools with v6e 2x2 have a whole slice free" in told
    assert api.names("rayclusters") == []


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade", "uninstalling"])
def test_a_release_that_helm_left_half_way_is_told_with_the_way_out(api, capsys, status, monkeypatch):
    install()
    leave(api, status, monkeypatch)
    capsys.readouterr()
    assert install() == 1
    told = capsys.readouterr().err
    assert f"The release demo is {status} since" in told
    assert ("helm rollback demo" if status == "pending-upgrade" else "driver uninstall demo") in told


def leave(api, status, monkeypatch, revision=1):
    """The last revision as a Helm that failed or was killed leaves it."""
    import base64
    import gzip

    secret = api.get("secrets", f"sh.helm.release.v1.demo.v{revision}")
    packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
    release = json.loads(gzip.decompress(packed))
    release["info"]["status"] = status
    secret["data"]["release"] = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()
    secret["metadata"]["labels"]["status"] = status


def test_a_pending_release_can_be_uninstalled(api, capsys, monkeypatch):
    install()
    leave(api, "pending-install", monkeypatch)
    assert cli.run(["uninstall", "demo"]) == 0
    assert api.names("rayclusters") == []
    assert api.names("secrets") == []


def test_a_stop_takes_the_job_and_keeps_the_cluster(api, each_helm, capsys):
    install()
    cluster = only(api.names("rayclusters"))
    assert cli.run(["stop", "demo"]) == 0
    assert api.names("rayjobs") == []
    assert api.names("rayclusters") == [cluster]
    assert "--rerun" in capsys.readouterr().out


def test_a_stopped_run_is_told_as_stopped_and_starts_by_rerun(api, capsys):
    install()
    cli.run(["stop", "demo"])
    assert install() == 1
    assert "The run of demo is stopped" in capsys.readouterr().err
    cli.run(["stop", "demo"])
    assert "was stopped before" in capsys.readouterr().out
    assert cli.run(["install", "demo", "--rerun", "--detach"]) == 0
    only(api.names("rayjobs"))


def test_a_stop_that_failed_is_made_again(api, capsys, monkeypatch):
    """Helm's last revision is the failed one, with the values of the stop, and the run goes on."""
    install()
    running = api.get("rayjobs", only(api.names("rayjobs")))
    cli.run(["stop", "demo"])
    leave(api, "failed", monkeypatch, revision=2)
    api.put("rayjobs", running)
    capsys.readouterr()
    assert cli.run(["stop", "demo"]) == 0
    assert "is stopped" in capsys.readouterr().out


def test_a_run_that_gets_another_cluster_has_ended_on_the_old_one_before(api):
    install("--set", "rayJob.ownCluster=true")
    old = only(api.names("rayjobs"))
    KubeRay(api).end_when_deleted(old)
    assert install() == 0
    deleted = next(i for i, call in enumerate(api.calls) if call.method == "DELETE" and old in call.target)
    writes = [i for i, call in enumerate(api.calls) if call.method in ("POST", "PATCH") and "/rayjobs" in call.target]
    assert max(writes) > deleted


def test_a_run_with_its_own_cluster_is_suspended(api, capsys):
    install("--set", "rayJob.ownCluster=true")
    name = only(api.names("rayjobs"))
    assert cli.run(["stop", "demo"]) == 0
    assert api.get("rayjobs", name)["spec"]["suspend"] is True


def test_the_old_job_of_an_own_cluster_has_ended_before_the_new_one_is_made(api):
    install("--set", "rayJob.ownCluster=true")
    old = only(api.names("rayjobs"))
    KubeRay(api).end_when_deleted(old)
    assert install("--set", "rayJob.ownCluster=true", "--set", "job.steps=70") == 0
    assert only(api.names("rayjobs")) != old
    deleted = next(i for i, call in enumerate(api.calls) if call.method == "DELETE" and old in call.target)
    writes = [i for i, call in enumerate(api.calls) if call.method in ("POST", "PATCH") and "/rayjobs" in call.target]
    assert [i < deleted for i in writes].count(False) >= 1
    assert max(writes) > deleted


def test_an_uninstall_ends_the_run_before_helm_removes_anything(api, each_helm):
    install()
    name = only(api.names("rayjobs"))
    KubeRay(api).end_when_deleted(name)
    assert cli.run(["uninstall", "demo"]) == 0
    order = [call.target for call in api.calls if call.method == "DELETE"]
    assert f"/rayjobs/{name}" in order[0]
    kinds = ("rayjobs", "rayclusters", "configmaps", "serviceaccounts", "secrets", "resourceclaimtemplates")
    assert {kind: api.names(kind) for kind in kinds} == {kind: [] for kind in kinds}


@pytest.mark.parametrize("command", ["stop", "uninstall"])
def test_a_release_that_is_not_there_names_the_nearest(command, capsys):
    install()
    capsys.readouterr()
    assert cli.run([command, "dmeo"]) == 1
    told = capsys.readouterr().err
    assert "There is no release dmeo in namespace team" in told
    assert "demo for dmeo" in told


def test_a_right_that_helm_lacks_is_named(api, capsys):
    api.faults.denied.add(("list", "secrets"))
    assert install() == 1
    assert "the right to list secrets in namespace team is missing" in capsys.readouterr().err


def test_what_others_made_is_not_taken_over(api, capsys):
    api.add("serviceaccounts", "demo")
    assert install() == 1
    told = capsys.readouterr().err
    assert "The service account demo was made by others than Helm" in told
    assert "--set serviceAccount.create=false,serviceAccount.name=demo" in told


def test_the_environment_does_not_send_helm_to_another_cluster(api, monkeypatch):
    monkeypatch.setenv("HELM_KUBEAPISERVER", "https://127.0.0.1:1")
    monkeypatch.setenv("HELM_NAMESPACE", "elsewhere")
    assert install() == 0
    only(api.names("rayjobs"))


def test_a_named_kubeconfig_is_helm_s_too(api, kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert install("--kubeconfig", str(kubeconfig)) == 0
    only(api.names("rayjobs"))


@pytest.mark.parametrize("flags", [("--dry-run", "--diff"), ("--detach", "--diff"), ("--detach", "--dry-run")])
def test_flags_that_exclude_each_other_are_refused(flags, capsys):
    assert cli.run(["install", "demo", *TINY, *flags]) == 2


def test_runs_tells_the_live_ones_and_the_earlier_ones(api, capsys):
    install()
    first = only(api.names("rayjobs"))
    install("--set", "job.steps=70")
    second = only(api.names("rayjobs"))
    api.get("rayjobs", second)["status"] = {
        "jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete",
        "startTime": "2026-11-30T10:00:00Z", "endTime": "2026-11-30T11:00:00Z",
    }  # fmt: skip
    capsys.readouterr()
    assert cli.run(["runs", "demo", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["runs"]
    assert [(one["job"], one["result"], one["steps"]) for one in found] == [
        (second, "succeeded", 70),
        (first, "replaced", 60),
    ]
    assert found[0]["seconds"] == 3600
    assert found[0]["began"] == 1796032800.0


def test_runs_needs_no_more_than_the_chart_s_role(api, capsys):
    install()
    api.faults.denied |= {("list", "secrets"), ("get", "secrets"), ("list", "configmaps"), ("list", "nodes")}
    capsys.readouterr()
    assert cli.run(["runs"]) == 0
    assert "demo" in capsys.readouterr().out


def test_an_install_without_the_rights_makes_nothing(api, capsys):
    api.faults.denied.add(("patch", "rayjobs"))
    assert install() == 1
    assert "The right to patch rayjobs.ray.io in namespace team is missing" in capsys.readouterr().err
    assert api.names("rayclusters") == []
    assert api.names("secrets") == []


def test_an_install_that_fails_half_way_tells_what_stands_and_how_to_remove_it(api, each_helm, capsys):
    api.faults.refuse(500, "no room", method="POST", part="/rayjobs")
    api.faults.refuse(500, "no room", method="PATCH", part="/rayjobs")
    assert install() == 1
    told = capsys.readouterr().err
    assert "The release demo is failed (revision 1)." in told
    assert f"RayCluster {only(api.names('rayclusters'))} is there and holds its chips" in told
    assert "driver uninstall demo -n team" in told


def test_an_uninstall_removes_the_cluster_that_a_failed_upgrade_put_out_of_the_release(api):
    install()
    old = {kind: only(api.names(kind)) for kind in ("rayclusters", "configmaps")}
    for kind, name in old.items():
        there = api.get(kind, name)
        api.put(kind, there | {"metadata": {**there["metadata"], "name": f"{name}-old"}})
    api.add("configmaps", "somebody-else-s", metadata={"labels": {"app.kubernetes.io/instance": "demo"}})
    assert cli.run(["uninstall", "demo"]) == 0
    assert api.names("rayclusters") == []
    assert api.names("configmaps") == ["somebody-else-s"]


def test_an_uninstall_says_what_it_may_not_look_for(api, capsys):
    install()
    api.faults.denied.add(("list", "configmaps"))
    assert cli.run(["uninstall", "demo"]) == 0
    assert "Not checked: looking for configmaps" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["stop", "uninstall"])
def test_without_the_right_to_end_the_run_nothing_is_changed(api, capsys, command):
    install()
    before = dict(api.objects)
    capsys.readouterr()
    api.faults.denied.add(("delete", "rayjobs"))
    assert cli.run([command, "demo"]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert {"stop": "stopping the run of demo", "uninstall": "uninstalling the release demo"}[command] in told
    assert "the right to delete rayjobs.ray.io in namespace team is missing" in told
    assert api.objects == before


@pytest.mark.parametrize("command", ["stop", "uninstall"])
def test_a_name_that_no_release_can_have_is_refused(api, command, capsys):
    assert cli.run([command, "De_mo"]) == 2
    assert "cannot be a release's name" in capsys.readouterr().err
    assert api.calls == []


@pytest.mark.parametrize("arguments", [("stop",), ("uninstall",), ("install", "--rerun")], ids=lambda one: one[0])
def test_an_uninstalled_release_of_which_helm_keeps_the_history_is_none(api, arguments, capsys, monkeypatch):
    install()
    leave(api, "uninstalled", monkeypatch)
    api.remove_all("rayjobs", "rayclusters")
    capsys.readouterr()
    assert cli.run([arguments[0], "demo", *arguments[1:]]) == 1
    told = capsys.readouterr().err
    assert "There is no release demo" in told
    assert "There are none." in told


def test_values_of_a_rerun_that_lack_the_release_s_are_told_how_to_keep_them(capsys):
    install()
    capsys.readouterr()
    assert cli.run(["install", "demo", "--rerun", "--diff", "--set", "job.steps=5"]) == 2
    told = capsys.readouterr().err
    assert "storage.bucket" in told
    assert "they replace its own" in told
    assert "helm get values demo -n team -o yaml > demo.release-values.yaml" in told
