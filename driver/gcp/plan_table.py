"""A plan as a table for people; shared by the commands that carry one out."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from driver.gcp.plan import Action, Plan, Step

_MARKS = {
    Action.REFUSE: ("✗", "red"),
    Action.CREATE: ("+", "green"),
    Action.UPDATE: ("~", "yellow"),
    Action.REPLACE: ("±", "yellow"),
    Action.REMOVE: ("-", "red"),
}


def table(plan: Plan) -> Table:
    """All of its steps, what stays among them."""
    made = Table(box=None, pad_edge=False)
    for heading in ("", "Resource", "Plan"):
        made.add_column(heading, overflow="fold")
    for step in plan.steps:
        made.add_row(Text(*_MARKS.get(step.action, ("=", "dim"))), Text(step.resource.key), Text(_words(step)))
    return made


def removals(plan: Plan) -> str:
    """What takes away something that is there, a line each; empty where nothing does."""
    return "\n".join(f"  {step.resource.key} {_words(step)}" for step in plan.removals)


def _words(step: Step) -> str:
    return f"{step.action.value}: {step.why}" if step.why else step.action.value
