"""bootstrap and teardown where something is wrong with the cloud or with this machine: one message, or the way out."""

import os
import signal
import subprocess
import sys

import pytest

from driver.errors import DriverError
from driver.gcp import cloud, kubeconfig, values_file
from driver.gcp.kinds.firewall import Firewall
from driver.gcp.kinds.network import Network
from tests.gcp.asking import cloud as a_cloud
from tests.gcp.asking import make
from tests.gcp.commands import Desk
from tests.gcp.faults import Delay
from tests.gcp.google import Google
from tests.gcp.looking import look
from tests.gcp.sites import site

CLUSTER = "projects/demo-project/locations/us-east5-b/clusters/multislice"
MADE = "# Made by `driver bootstrap`\n"


def test_with_a_broken_cluster_its_node_pools_and_namespace_are_made_again(desk: Desk, google: Google):
    desk.run("bootstrap")
    whole = google.state()
    google.resources[CLUSTER] |= {"status": "ERROR", "statusMessage": "no more capacity"}
    done = desk.run("bootstrap", "--yes")
    assert done.wait() == 0, done.said
    assert google.state() == whole


def test_a_project_with_all_apis_off_is_bootstrapped(desk: Desk, google: Google):
    for name in [one for one in google.resources if "/services/" in one]:
        del google.resources[name]
    script = desk.run("bootstrap", "--print-gcloud")
    assert script.wait() == 0, script.said
    assert "PROJECT_NUMBER=$(gcloud projects describe demo-project" in script.said
    subprocess.run(["bash", "-n"], input=script.said, text=True, check=True)
    done = desk.run("bootstrap")
    assert done.wait() == 0, done.said


def test_a_broken_cluster_that_answers_nobody_is_torn_down(desk: Desk, google: Google):
    before = google.state()
    desk.run("bootstrap")
    google.resources[CLUSTER]["status"] = "ERROR"
    google.kubernetes.close(CLUSTER)
    done = desk.run("teardown", "--yes", "--delete-bucket")
    assert done.wait() == 0, done.said
    assert google.state() == before


def test_teardown_of_a_cluster_that_cannot_be_reached_says_so_and_deletes_nothing(desk: Desk, google: Google):
    desk.run("bootstrap")
    google.kubernetes.close(CLUSTER)
    before = google.state()
    refused = desk.run("teardown", "--yes")
    assert refused.wait() == 1
    assert "the cluster's Kubernetes API cannot be reached" in refused.said
    assert google.state() == before


def test_teardown_shows_the_node_pools_of_others_in_our_cluster(desk: Desk, google: Google):
    desk.run("bootstrap")
    pool = google.resources[f"{CLUSTER}/nodePools/v6e-16-1"]
    pool["config"] |= {"labels": {}, "resourceLabels": {}}
    shown = desk.run("teardown", "--dry-run")
    assert shown.wait() == 0
    assert "! node pool v6e-16-1 was not made by us" in shown.said


def test_where_nobody_answers_the_question_nothing_is_changed(desk: Desk):
    desk.run("bootstrap")
    unanswered = desk.run("teardown")
    assert unanswered.wait() == 1
    assert "Nothing was deleted." in unanswered.said
    assert "--yes" in unanswered.said


@pytest.mark.parametrize("command", ["bootstrap", "teardown", "preflight"])
def test_ctrl_c_while_it_looks_ends_it_at_once(desk: Desk, google: Google, command):
    google.faults.add(lambda method, path: method == "GET" and path.endswith("/zones/us-east5-b"), Delay(3600))
    google.faults.add(lambda method, path: path.endswith("/clusters/multislice"), Delay(3600))
    program = [sys.executable, "-c", "from driver.cli import main; main()", command]
    running = subprocess.Popen(
        program, cwd=desk.folder, env={**os.environ, **desk.environment}, stderr=subprocess.PIPE, text=True
    )
    google.await_call("GET", "/zones/us-east5-b" if command == "preflight" else "/clusters/multislice")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 1
    assert "Interrupted." in said


@pytest.mark.parametrize("content", ["- a", "a: [", "image: mine", "image: {uri: [1]}", "a: 1\na: 2"])
def test_a_values_file_that_cannot_be_written_again_is_refused_before(tmp_path, content):
    path = tmp_path / "site.values.yaml"
    path.write_text(f"{MADE}{content}\n")
    with pytest.raises(DriverError, match="not a values file any more"):
        values_file.check(path)


def test_a_values_file_in_a_folder_that_is_not_there_is_refused_before(tmp_path):
    with pytest.raises(DriverError, match="cannot be written: No such file"):
        values_file.check(tmp_path / "gone" / "site.values.yaml")


def test_a_values_file_that_is_a_link_stays_one(tmp_path):
    path, real = tmp_path / "site.values.yaml", tmp_path / "real.yaml"
    path.symlink_to(real)
    values_file.write(site(), path)
    assert path.is_symlink()
    assert real.read_text().startswith(MADE.strip())


@pytest.mark.parametrize("check", [values_file.check, lambda path: kubeconfig.check()], ids=["values", "kubeconfig"])
def test_a_pipe_or_device_is_never_replaced(tmp_path, monkeypatch, check):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(DriverError, match="not a regular file"):
        check(path)


@pytest.mark.parametrize("above", ["key.json", "/proc/gone"])
def test_a_kubeconfig_that_cannot_be_written_is_refused_before(tmp_path, monkeypatch, key_file, above):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / above / "config"))
    with pytest.raises(DriverError, match="cannot be written"):
        kubeconfig.check()


@pytest.mark.parametrize("content", ["not json", None])
def test_credentials_that_cannot_be_read_are_told_in_one_line(tmp_path, monkeypatch, content):
    path = tmp_path / "key.json"
    path.write_text(content) if content else path.mkdir()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    with pytest.raises(DriverError) as caught:
        cloud.connect("demo-project")
    assert caught.value.found.startswith("There are no Google Cloud credentials: ")
    assert "Error(" not in caught.value.found


def test_a_firewall_rule_with_another_priority_is_changed_back(google: Google):
    make(google, site())
    google.resources["projects/demo-project/global/firewalls/multislice-net-1-internal"]["priority"] = 65535
    rule = Firewall(
        site(), "multislice-net-1-internal", network=Network(site(), "multislice-net-1"), range="10.50.0.0/16"
    )
    (difference,) = look(rule, a_cloud(google)).differences
    assert (difference.field, difference.in_place) == ("priority", True)
