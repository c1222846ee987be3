"""The command line as a whole: how commands are found, and what a mistake looks like."""

import json

import click
import pytest

from driver import cli
from driver.errors import USAGE, DriverError
from driver.output import as_json, output_option


def test_a_module_in_the_commands_folder_is_a_command(add_command, capsys):
    add_command("sow_corn", click.Command("sow-corn", callback=lambda: click.echo("sown"), help="Sows corn."))
    assert cli.run(["sow-corn"]) == 0
    assert capsys.readouterr().out == "sown\n"
    cli.run(["--help"])
    assert "Sows corn." in capsys.readouterr().out


def test_a_misspelt_command_names_the_nearest(add_command, capsys):
    add_command("sow", click.Command("sow"))
    assert cli.run(["sew"]) == USAGE
    assert "There is no command 'sew'. Did you mean 'sow'?" in capsys.readouterr().err


def test_an_error_says_what_was_found_the_rule_and_the_fix(add_command, capsys):
    add_command("sow", click.Command("sow", callback=_fail))
    assert cli.run(["sow"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "Error: job.steps is 0\nsteps is at least 1\nFix: --set job.steps=10\n"
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [["--output", "json", "sow"], ["sow", "--output", "json"]])
def test_an_error_is_json_when_the_output_is(add_command, capsys, arguments):
    add_command("sow", output_option(click.Command("sow", callback=_fail)))
    assert cli.run(arguments) == 1
    assert json.loads(capsys.readouterr().err) == {
        "error": {
            "found": "job.steps is 0",
            "rule": "steps is at least 1",
            "fix": "--set job.steps=10",
            "exitCode": 1,
        }
    }


def test_a_wrong_option_is_json_too(add_command, capsys):
    add_command("sow", click.Command("sow"))
    assert cli.run(["--output", "json", "sow", "--deep"]) == USAGE
    error = json.loads(capsys.readouterr().err)["error"]
    assert "--deep" in error["found"]
    assert error["fix"] == "driver sow --help"


def test_the_output_option_may_stand_before_or_after_the_command(add_command):
    seen = []
    command = output_option(click.Command("sow", callback=lambda: seen.append(as_json())))
    add_command("sow", command)
    for arguments in (["sow"], ["--output", "json", "sow"], ["sow", "--output", "json"]):
        cli.run(arguments)
    assert seen == [False, True, True]


def test_a_number_returned_by_a_command_is_the_exit_code(add_command):
    add_command("sow", click.Command("sow", callback=lambda: 1))
    assert cli.run(["sow"]) == 1


def test_an_interrupt_ends_without_a_stack_trace(add_command, capsys):
    def interrupt() -> None:
        raise KeyboardInterrupt

    add_command("sow", click.Command("sow", callback=interrupt))
    assert cli.run(["sow"]) == 1
    assert "Interrupted." in capsys.readouterr().err


def _fail() -> None:
    raise DriverError("job.steps is 0", rule="steps is at least 1", fix="--set job.steps=10")
