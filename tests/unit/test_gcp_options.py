"""Which site file and which endpoint a command works with."""

import click
import pytest

from driver import cli, gcp_options
from driver.errors import USAGE


@pytest.fixture
def seen(add_command):
    """What a command was told, filled when it runs."""
    told: dict[str, str] = {}

    @click.command("sow")
    @gcp_options.site_options
    def sow():
        told.update(site=str(gcp_options.site_path()), endpoint=gcp_options.api_endpoint())

    add_command("sow", sow)
    return told


def test_the_site_file_is_site_yaml_and_the_apis_are_googles_own(seen):
    assert cli.run(["sow"]) == 0
    assert seen == {"site": "site.yaml", "endpoint": ""}


@pytest.mark.parametrize("arguments", [["-c", "a.yaml", "sow"], ["sow", "--config", "a.yaml"]])
def test_the_site_file_may_be_named_before_or_after_the_command(seen, arguments):
    assert cli.run(arguments) == 0
    assert seen["site"] == "a.yaml"


def test_what_stands_after_the_command_wins(seen):
    cli.run(["-c", "before.yaml", "sow", "-c", "after.yaml"])
    assert seen["site"] == "after.yaml"


@pytest.mark.parametrize("arguments", [["-c", "typed.yaml", "sow"], ["sow", "-c", "typed.yaml"]])
def test_what_is_typed_wins_over_the_environment(seen, monkeypatch, arguments):
    monkeypatch.setenv(gcp_options.SITE_VARIABLE, "environment.yaml")
    cli.run(arguments)
    assert seen["site"] == "typed.yaml"


def test_the_environment_names_both(seen, monkeypatch):
    monkeypatch.setenv(gcp_options.SITE_VARIABLE, "environment.yaml")
    monkeypatch.setenv(gcp_options.ENDPOINT_VARIABLE, "https://{service}-psc.p.googleapis.com")
    cli.run(["sow"])
    assert seen == {"site": "environment.yaml", "endpoint": "https://{service}-psc.p.googleapis.com"}


@pytest.mark.parametrize(
    "url",
    ["localhost:1234", "ftp://there", "https://", "http://elsewhere", "http://[::1", "http://127.0.0.1:99999"],
)
def test_an_endpoint_that_is_no_url_is_refused(seen, capsys, url):
    assert cli.run(["sow", "--api-endpoint", url]) == USAGE
    assert f"The API endpoint is {url!r}.\nIt is https and a host" in capsys.readouterr().err


def test_an_option_before_a_command_that_would_ignore_it_is_refused(add_command, capsys):
    add_command("sing", click.Command("sing"))
    assert cli.run(["-c", "a.yaml", "sing"]) == USAGE
    assert "--config stands before 'sing', which has no use for it." in capsys.readouterr().err


def test_the_environment_troubles_no_command_that_ignores_it(add_command, monkeypatch):
    add_command("sing", click.Command("sing", callback=lambda: None))
    monkeypatch.setenv(gcp_options.ENDPOINT_VARIABLE, "nonsense")
    assert cli.run(["sing"]) == 0


def test_a_site_file_that_is_not_there_is_a_usage_error(add_command, capsys, tmp_path):
    add_command("sow", gcp_options.site_options(click.Command("sow", callback=gcp_options.site)))
    assert cli.run(["sow", "-c", str(tmp_path / "none.yaml")]) == USAGE
    assert "There is no site file" in capsys.readouterr().err
