"""Label and field selectors, as far as the driver and Helm write them: a=b, a==b, a!=b, a."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.kube.server.calls import Object

_TERM = re.compile(r"(?P<name>[^=!]+)(?:(?P<unlike>!?)==?(?P<value>.*))?")


def chosen(one: Object, query: Mapping[str, str]) -> bool:
    """Whether the query's selectors choose the object."""
    return _matches(one, query.get("labelSelector", ""), _label) and _matches(
        one, query.get("fieldSelector", ""), _field
    )


def _matches(one: Object, selector: str, read: Callable[[Object, str], Any]) -> bool:
    for term in filter(None, selector.split(",")):
        match = _TERM.fullmatch(term)
        assert match, f"{term} is in no notation that this server knows"
        found = read(one, match["name"])
        if match["value"] is None:
            if found is None:
                return False
        elif (found == match["value"]) == bool(match["unlike"]):
            return False
    return True


def _label(one: Object, name: str) -> Any:
    return (one["metadata"].get("labels") or {}).get(name)


def _field(one: Object, name: str) -> Any:
    found: Any = one
    for part in name.split("."):
        found = (found or {}).get(part)
    return found
