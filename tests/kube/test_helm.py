"""What Helm says, in the driver's words, and Ctrl-C while it is at work."""

import os
import signal
import threading

import pytest

from driver.errors import DriverError
from driver.kube import helm
from driver.kube.release import Releases

OWNED = (
    'Error: UPGRADE FAILED: Unable to continue with install: PodDisruptionBudget "ra-head" in namespace "team" exists '
    "and cannot be imported into the current release: invalid ownership metadata; annotation validation error: "
)


def test_an_object_of_another_release_is_not_to_be_deleted():
    said = f'{OWNED}key "meta.helm.sh/release-name" must equal "demo": current value is "ra"'
    told = helm.explained(said, "installing the release demo")
    assert "PodDisruptionBudget ra-head belongs to the release ra" in told.found
    assert "fullnameOverride" in told.fix
    assert "kubectl delete" not in told.fix


def test_an_object_of_no_release_may_be_deleted():
    said = f'{OWNED}missing key "meta.helm.sh/release-name": must be set to "demo"'
    told = helm.explained(said, "installing the release demo")
    assert "kubectl delete poddisruptionbudget ra-head -n team" in told.fix


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Kubernetes cluster unreachable: the server has asked for the client to provide credentials", "(401)"),
        ("query: failed to query with labels: Unauthorized", "(401)"),
        ('Get "https://nowhere/api": dial tcp: lookup nowhere on 10.0.0.1:53: no such host', "cannot be reached"),
        ('Get "https://1.2.3.4/api": tls: failed to verify certificate: x509: certificate has expired', "not trusted"),
        ("UPGRADE FAILED: release: already exists", "another Helm is changing the release"),
        ("INSTALLATION FAILED: cannot re-use a name that is still in use", "another Helm is changing the release"),
        ('create: failed to create: secrets "sh.helm.release.v1.demo.v1" already exists', "another Helm"),
    ],
)
def test_what_helm_says_is_told_with_what_mends_it(said, told):
    error = helm.explained(f"Error: {said}\n", "reading the release demo")
    assert told in error.found
    assert error.fix


def test_a_cluster_that_is_gone_is_told_by_helm_as_by_us():
    told = helm.explained('Error: Kubernetes cluster unreachable: Get "https://1.2.3.4/version": EOF\n', "reading x")
    assert "cannot be reached" in told.found


@pytest.mark.parametrize(("times", "told"), [(1, "has changed the release"), (2, "is still at work")])
def test_ctrl_c_while_helm_installs_tells_what_stands(connection, monkeypatch, tmp_path, times, told):
    slow = tmp_path / "helm"
    slow.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nsleep 2\necho '{ANSWER}'\n")
    slow.chmod(0o755)
    monkeypatch.setattr("driver.chart.find_helm", lambda: str(slow))

    def interrupt():
        while not (tmp_path / "begun").exists():
            threading.Event().wait(0.02)
        for _ in range(times):
            threading.Event().wait(0.3)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(DriverError, match=f"Interrupted while installing the release demo.*{told}") as error:
        Releases(connection).upgrade("demo", {})
    assert "driver status demo -n team" in error.value.fix
    assert "driver uninstall demo -n team" in error.value.fix


ANSWER = '{"name":"demo","version":1,"manifest":"","info":{"status":"deployed","last_deployed":"2026-11-30T10:00:00Z"}}'
