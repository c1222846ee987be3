"""The filter expressions of list calls, as far as `a = b`, `a != b`, `a eq b`, `a : b` joined by AND go.

A list has a value when one of its own is that.
"""

from __future__ import annotations

import re
from typing import Any

from tests.gcp.errors import invalid


def matching(items: list[dict[str, Any]], expression: str) -> list[dict[str, Any]]:
    """Those that the filter lets through. An expression that is not understood is refused."""
    terms = [_term(text) for text in re.split(r"\s+AND\s+|\)\s*\(", expression.strip()) if text]
    return [item for item in items if all(_holds(item, *term) for term in terms)]


def _term(text: str) -> tuple[list[str], str, str]:
    match = re.fullmatch(r"\(?\s*([\w.\"-]+)\s*(!=|=|:|\beq\b|\bne\b)\s*\"?'?([^\"']*?)'?\"?\s*\)?", text)
    if not match:
        raise invalid(f"Invalid value for field 'filter': '{text}'. Invalid list filter expression.")
    path = [part.strip('"') for part in match[1].split(".")]
    return path, match[2], match[3]


def _holds(item: dict[str, Any], path: list[str], operator: str, wanted: str) -> bool:
    value: Any = item
    for key in path:
        value = value.get(key, "") if isinstance(value, dict) else ""
    if isinstance(value, list):
        return any(_compare(str(one), operator, wanted) for one in value)
    return _compare(str(value).lower() if isinstance(value, bool) else str(value), operator, wanted)


def _compare(text: str, operator: str, wanted: str) -> bool:
    match operator:
        case "=" | "eq":
            return re.fullmatch(wanted, text) is not None if operator == "eq" else text == wanted
        case "!=" | "ne":
            return text != wanted
        case _:
            return bool(text) if wanted == "*" else wanted in text
