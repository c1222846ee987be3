"""Which cluster and namespace a command works with."""

import click
import pytest

from driver import cli, commands, kube_options
from driver.errors import USAGE
from tests.kube.server.api import write_kubeconfig


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """What a command was told, filled when it runs."""
    told: dict[str, str] = {}

    @click.command("sow")
    @kube_options.kube_options
    def sow():
        connection = kube_options.connection()
        told.update(namespace=connection.namespace, context=connection.context)

    monkeypatch.setattr(cli.CommandFolder, "list_commands", lambda *_: ["preflight", "sow"])
    find = cli.CommandFolder.get_command
    monkeypatch.setattr(
        cli.CommandFolder, "get_command", lambda self, ctx, name: sow if name == "sow" else find(self, ctx, name)
    )
    assert commands.__path__
    return told


@pytest.mark.parametrize("arguments", [["-n", "other", "sow"], ["sow", "--namespace", "other"]])
def test_the_namespace_may_stand_before_or_after_the_command(seen, kubeconfig, arguments):
    assert cli.run(arguments) == 0
    assert seen == {"namespace": "other", "context": "here"}


def test_what_stands_after_the_command_wins(seen, kubeconfig):
    assert cli.run(["-n", "before", "sow", "-n", "after"]) == 0
    assert seen["namespace"] == "after"


def test_the_kubeconfig_may_be_named(api, seen, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    path = write_kubeconfig(api.kubeconfig(namespace="its-own"), tmp_path / "config")
    assert cli.run(["sow", "--kubeconfig", str(path)]) == 0
    assert seen["namespace"] == "its-own"


@pytest.mark.parametrize("option", ["--namespace", "--context", "--kubeconfig"])
def test_before_a_command_that_has_no_use_for_it_it_is_refused(seen, capsys, option):
    assert cli.run([option, "x", "preflight"]) == USAGE
    assert "stands before 'preflight', which has no use for it" in capsys.readouterr().err
