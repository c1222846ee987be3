"""The kubeconfig entry, beside what others wrote."""

import stat
import threading
from typing import Any

import pytest
import yaml

from driver.errors import DriverError
from driver.gcp import kubeconfig
from tests.gcp.sites import site

DETAILS = {"endpoint": "203.0.113.7", "ca": "Q0E="}
NAME = "gke_demo-project_us-east5-b_multislice"
OTHERS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "extensions": [{"name": "theirs", "extension": {"a": 1}}],
    "clusters": [{"name": "other", "cluster": {"server": "https://198.51.100.1", "proxy-url": "http://proxy:3128"}}],
    "contexts": [{"name": "other", "context": {"cluster": "other", "user": "me", "namespace": "team"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
    "current-context": "other",
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kube" / "config"


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(content))


def test_the_entry_is_gclouds(path):
    kubeconfig.add(site(), DETAILS, path)
    assert yaml.safe_load(path.read_text()) == {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [
            {"name": NAME, "cluster": {"certificate-authority-data": "Q0E=", "server": "https://203.0.113.7"}}
        ],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "users": [
            {
                "name": NAME,
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "gke-gcloud-auth-plugin",
                        "installHint": "Install gke-gcloud-auth-plugin for use with kubectl by following "
                        "https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl"
                        "#install_plugin",
                        "provideClusterInfo": True,
                    }
                },
            }
        ],
        "current-context": NAME,
    }


def test_the_kubernetes_client_reads_it(path):
    from kubernetes import config

    kubeconfig.add(site(), DETAILS, path)
    contexts, current = config.list_kube_config_contexts(str(path))
    assert current["name"] == NAME
    assert len(contexts) == 1


def test_what_others_wrote_stays(path):
    write(path, OTHERS)
    kubeconfig.add(site(), DETAILS, path)
    after = yaml.safe_load(path.read_text())
    for section in ("clusters", "contexts", "users"):
        assert after[section][0] == OTHERS[section][0]
        assert len(after[section]) == 2
    assert after["extensions"] == OTHERS["extensions"]
    assert after["preferences"] == OTHERS["preferences"]
    assert after["current-context"] == NAME


def test_added_again_it_is_renewed_in_its_place_and_keeps_the_users_namespace(path):
    kubeconfig.add(site(), DETAILS, path)
    content = yaml.safe_load(path.read_text())
    content["contexts"][0]["context"]["namespace"] = "mine"
    write(path, content)
    kubeconfig.add(site(), {**DETAILS, "endpoint": "203.0.113.8"}, path)
    after = yaml.safe_load(path.read_text())
    assert [one["cluster"]["server"] for one in after["clusters"]] == ["https://203.0.113.8"]
    assert after["contexts"][0]["context"]["namespace"] == "mine"


def test_removed_it_leaves_the_file_as_others_had_it(path):
    write(path, OTHERS)
    kubeconfig.add(site(), DETAILS, path)
    assert kubeconfig.remove(site(), path)
    assert yaml.safe_load(path.read_text()) == {**OTHERS, "current-context": ""}
    assert not kubeconfig.remove(site(), path)


def test_removing_leaves_another_current_context(path):
    kubeconfig.add(site(), DETAILS, path)
    content = yaml.safe_load(path.read_text())
    write(path, {**content, "current-context": "other"})
    kubeconfig.remove(site(), path)
    assert yaml.safe_load(path.read_text())["current-context"] == "other"


def test_removing_from_no_file_makes_none(path):
    assert not kubeconfig.remove(site(), path)
    assert not path.exists()


def test_only_its_owner_reads_it(path):
    kubeconfig.add(site(), DETAILS, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link(path, tmp_path):
    real = tmp_path / "real"
    write(path, OTHERS)
    path.rename(real)
    path.symlink_to(real)
    kubeconfig.add(site(), DETAILS, path)
    assert path.is_symlink()
    assert NAME in real.read_text()


@pytest.mark.parametrize("content", ["{", "- a", "clusters: 5", "clusters: [a]", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_refused_and_left_alone(path, content):
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(DriverError, match="is not a kubeconfig"):
        kubeconfig.add(site(), DETAILS, path)
    assert path.read_text() == content
    assert [one.name for one in path.parent.iterdir()] == ["config"]


def test_empty_sections_as_kubectl_writes_them_are_filled(path):
    write(path, {"apiVersion": "v1", "kind": "Config", "clusters": None, "contexts": None, "users": None})
    kubeconfig.add(site(), DETAILS, path)
    assert len(yaml.safe_load(path.read_text())["users"]) == 1


def test_two_at_once_lose_neither(path):
    names = [f"cluster-{number}" for number in range(8)]
    threads = [
        threading.Thread(target=kubeconfig.add, args=(site(cluster={"name": name}), DETAILS, path)) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(yaml.safe_load(path.read_text())["clusters"]) == 8


def test_a_file_that_would_be_refused_is_refused_before(path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(path))
    kubeconfig.check()
    path.write_text("- a")
    with pytest.raises(DriverError, match="is not a kubeconfig"):
        kubeconfig.check()


def test_a_lock_that_stays_is_said(path, monkeypatch):
    monkeypatch.setattr(kubeconfig, "_LOCK_SECONDS", 0)
    path.parent.mkdir()
    (path.parent / "config.lock").touch()
    with pytest.raises(DriverError, match="is locked") as caught:
        kubeconfig.add(site(), DETAILS, path)
    assert caught.value.fix.startswith("rm ")


def test_the_first_file_of_the_environment_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", f":{tmp_path}/one:{tmp_path}/two")
    kubeconfig.add(site(), DETAILS)
    assert [one.name for one in tmp_path.iterdir()] == ["one"]


def test_without_the_environment_it_is_the_homes(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kubeconfig.find() == tmp_path / ".kube" / "config"


def test_an_endpoint_with_a_name_has_a_public_certificate(path):
    kubeconfig.add(site(), {"endpoint": "gke-1.us-east5.gke.goog", "ca": ""}, path)
    (cluster,) = yaml.safe_load(path.read_text())["clusters"]
    assert cluster["cluster"] == {"server": "https://gke-1.us-east5.gke.goog"}


def test_a_missing_plugin_is_said_with_the_way_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "gcloud components install gke-gcloud-auth-plugin" in kubeconfig.missing_plugin()


def test_with_the_plugin_there_is_nothing_to_say(tmp_path, monkeypatch):
    plugin = tmp_path / "gke-gcloud-auth-plugin"
    plugin.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kubeconfig.missing_plugin() == ""
