"""The `driver` command line: finds the commands, and turns what goes wrong into a message and an exit code.

Exit codes: 0 done, 1 failed, 2 the command line itself is wrong.
"""

import difflib
import importlib
import json
import os
import pkgutil
import sys
import threading
from collections.abc import Sequence

import click

from driver import commands
from driver.errors import FAILED, as_data
from driver.gcp_options import site_options
from driver.kube_options import kube_options
from driver.output import Settings, output_option
from driver.program_options import refuse_unused


class CommandFolder(click.Group):
    """A group whose commands are the modules of `driver/commands/`, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {name!r}.{hint}")
        found, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            refuse_unused(ctx, command)
        return found, command, rest


@click.command(cls=CommandFolder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="maxtext-multislice", prog_name="driver")
@site_options
@kube_options
@output_option
def cli() -> None:
    """Train MaxText models with Ray Train on multislice Cloud TPUs, or on emulated slices on this machine."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script: runs one command line and exits with its code."""
    code = run(arguments)
    if any(thread is not threading.current_thread() and not thread.daemon for thread in threading.enumerate()):
        # After Ctrl-C: Python would wait for the calls that still go on, whose answers nobody wants.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line (default: this process's own) and returns its exit code, with errors already printed."""
    settings = Settings()
    try:
        result = cli.main(arguments, prog_name="driver", standalone_mode=False, obj=settings)
    except click.ClickException as error:
        if settings.output == "json":
            click.echo(json.dumps(as_data(error)), err=True)
        else:
            error.show()
        return error.exit_code
    except click.Abort:
        click.echo("Interrupted.", err=True)
        return FAILED
    return result if type(result) is int else 0
