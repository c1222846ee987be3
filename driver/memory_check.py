"""The memory check that `driver install` and `driver up` make before they change anything, and `--no-plan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from driver import output


def no_plan_option[F: Callable[..., Any]](function: F) -> F:
    """Adds `--no-plan`; the function gets it as no_plan."""
    return click.option("--no-plan", is_flag=True, help="Does not check whether the run fits into the chips' HBM.")(
        function
    )


def refuse_without_install(no_plan: bool, option: str) -> None:
    """`--no-plan` changes nothing where nothing is installed: what only looks is not checked either, because the
    answer that was asked for would wait for a compiler, or not come at all."""
    if no_plan:
        raise click.UsageError(f"--no-plan is for an install; {option} checks no memory.")


def check_memory(run: Mapping[str, Any]) -> None:
    """Tells on stderr what is known of the run's memory. Raises a DriverError for a run that cannot fit."""
    from driver.plan import before_install
    from driver.plan.activity import Activity

    console = output.stderr()
    with console.status("Looking whether it fits into HBM") as status:

        def watch(doing: Callable[[], str]) -> None:
            activity = Activity(console, doing)
            activity.phase("Compiling for memory (--no-plan leaves it out)")
            status.update(activity)

        remark = before_install.check(run, watch)
    if remark is not None:
        console.print(remark.said, style="yellow" if remark.warns else "", markup=False, soft_wrap=True)
