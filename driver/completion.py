"""What a shell completes: a cluster's releases, a kubeconfig's contexts, values files with the profiles.

`eval "$(_DRIVER_COMPLETE=bash_source driver)"` switches it on (docs/running.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from driver.errors import DriverError
from driver.kube import names


class Release(click.ParamType[str]):
    """The name of a release, completed with those of the cluster and namespace that the command line names so far."""

    name = "release"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value and not names.is_release(value):
            self.fail(f"{value!r} cannot be a release's name. {names.RULE}")
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from driver.kube import snapshot
        from driver.kube_options import connection

        try:
            with ctx.scope(cleanup=False):
                return _beginning(incomplete, snapshot.releases(connection()))
        except DriverError:
            return []  # nowhere to say it: the command itself does


class KubeContext(click.ParamType[str]):
    """The name of a context of the kubeconfig."""

    name = "context"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from driver.kube.connection import contexts
        from driver.program_options import kept

        try:
            return _beginning(incomplete, contexts(kept(ctx).get("kubeconfig", "")))
        except DriverError:
            return []


class ValuesFile(click.ParamType[str]):
    """A file, or the name of a profile."""

    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from driver import resources

        here = (path.name for path in Path().glob("*.yaml"))
        found = _beginning(incomplete, sorted({*resources.profiles(), *here}))
        # click's function for bash forgets all else where one of the items stands for any file.
        return found or [CompletionItem(incomplete, type="file")]


def release_argument[F: Callable[..., Any]](*, required: bool) -> Callable[[F], F]:
    """The argument RELEASE; a command where it may be left out gets an empty text, and takes the only one there is."""
    if required:  # click (8.5) takes a default of None for a value
        return click.argument("release", type=Release())
    return click.argument("release", type=Release(), required=False, default="")


def _beginning(with_text: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(with_text)]
