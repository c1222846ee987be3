"""Which cluster is meant, and what goes wrong with it in a user's terms."""

import stat

import pytest

from driver.errors import USAGE, DriverError
from driver.kube.connection import ForbiddenError, NotFoundError, UnreachableError, connect, explained
from tests.kube.server.api import write_kubeconfig

PODS = "/api/v1/namespaces/team/pods"


def read_pods(connection):
    with explained("reading the pods", "list", "pods"):
        return connection.request("GET", PODS)


def test_the_current_context_and_its_namespace_are_taken(api, kubeconfig):
    connection = connect()
    assert (connection.context, connection.namespace, connection.kubeconfig) == ("here", "team", None)
    assert read_pods(connection)["items"] == []


def test_without_a_namespace_it_is_default(api, tmp_path):
    path = write_kubeconfig(api.kubeconfig(), tmp_path / "config")
    assert connect(str(path)).namespace == "default"


def test_what_is_given_wins(api, kubeconfig, tmp_path):
    path = write_kubeconfig(api.kubeconfig(namespace="team"), tmp_path / "other")
    connection = connect(str(path), "here", "elsewhere")
    assert (connection.namespace, connection.kubeconfig) == ("elsewhere", path)


def test_of_several_files_the_first_entry_of_a_name_stays(api, tmp_path, monkeypatch):
    first = write_kubeconfig(api.kubeconfig(namespace="first"), tmp_path / "first")
    second = write_kubeconfig(api.kubeconfig(namespace="second"), tmp_path / "second")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{first}:{second}")
    connection = connect()
    assert connection.namespace == "first"
    assert read_pods(connection)["items"] == []


def test_without_a_kubeconfig_it_says_who_writes_one(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(DriverError, match=r"There is no kubeconfig: .*absent is no file[\s\S]*driver bootstrap"):
        connect()


def test_a_kubeconfig_that_is_named_and_is_not_there_is_a_usage_error():
    with pytest.raises(DriverError, match="There is no kubeconfig nowhere") as error:
        connect("nowhere")
    assert error.value.exit_code == USAGE


@pytest.mark.parametrize("text", ["a: [", "- a list", "contexts: [{}]", "contexts: 3"])
def test_what_is_no_kubeconfig_is_refused(tmp_path, text):
    (tmp_path / "config").write_text(text)
    with pytest.raises(DriverError, match="is not a kubeconfig"):
        connect(str(tmp_path / "config"))


def test_an_unknown_context_names_the_nearest(kubeconfig):
    with pytest.raises(DriverError, match=r"no context hree in [\s\S]*It has here.[\s\S]*--context here") as error:
        connect(context="hree")
    assert error.value.exit_code == USAGE


def test_a_kubeconfig_without_a_current_context_names_one(api, tmp_path):
    path = write_kubeconfig(api.kubeconfig() | {"current-context": ""}, tmp_path / "config")
    with pytest.raises(DriverError, match=r"has no current context[\s\S]*--context here"):
        connect(str(path))


def test_a_namespace_that_cannot_be_is_refused(kubeconfig):
    with pytest.raises(DriverError, match="'Team' cannot be a namespace"):
        connect(namespace="Team")


def with_program(api, tmp_path, command):
    content = api.kubeconfig()
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": command, "interactiveMode": "Never"}
    content["users"] = [{"name": "u", "user": {"exec": plugin}}]
    return write_kubeconfig(content, tmp_path / "config")


def test_a_missing_credentials_program_is_named_with_how_to_get_it(api, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = with_program(api, tmp_path, "gke-gcloud-auth-plugin")
    with pytest.raises(DriverError, match=r"gke-gcloud-auth-plugin is not on the PATH[\s\S]*gcloud components install"):
        connect(str(path))


def test_a_credentials_program_that_fails_is_told_in_its_own_words(api, tmp_path, capfd):
    program = tmp_path / "login"
    program.write_text("#!/bin/sh\necho 'the session has expired' >&2\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(DriverError, match="could not be had: .*the session has expired"):
        connect(str(with_program(api, tmp_path, str(program))))
    assert capfd.readouterr().err == ""


def test_credentials_that_the_cluster_does_not_know_are_told_so(api, connection):
    api.token = "another"
    with pytest.raises(DriverError, match="reading the pods: .* does not know the credentials"):
        read_pods(connection)


def test_a_missing_right_is_named_with_who_lacks_it(api, connection):
    api.faults.denied.add(("list", "pods"))
    with pytest.raises(ForbiddenError, match=r"the right to list pods in namespace team is missing") as error:
        read_pods(connection)
    assert "operators.subjects" in error.value.rule
    assert "to alice@example.com by a Role and RoleBinding" in error.value.fix


def test_a_missing_right_to_the_whole_cluster_is_told_so(api, connection):
    api.faults.denied.add(("list", "nodes"))
    with pytest.raises(ForbiddenError, match="list nodes in the whole cluster"), explained("x", "list", "nodes"):
        connection.request("GET", "/api/v1/nodes")


def test_what_is_not_there_is_told_apart(connection):
    with pytest.raises(NotFoundError, match='pods "a" not found'), explained("x", "get", "pods"):
        connection.request("GET", f"{PODS}/a")


def test_a_server_that_cannot_now_is_worth_another_try(api, connection):
    api.faults.refuse(503, "etcdserver: leader changed")
    with pytest.raises(UnreachableError, match="answered 503: etcdserver: leader changed"):
        read_pods(connection)


def test_a_cluster_that_does_not_answer_is_told_so(api, connection):
    connection.api.configuration.retries = 0
    api.stop()
    with pytest.raises(UnreachableError, match="cannot be reached: .*[Cc]onnection refused"):
        read_pods(connection)
