"""What is wrong with a site file, in a user's words: the value, the rule, what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from driver.gcp.site_formats import BrokenRuleError

# What pydantic calls them, and what a value should have been.
_TYPES = {
    "string_type": "It is text: put it in quotes.",
    "int_type": "It is a whole number.",
    "bool_type": "It is true or false.",
    "bool_parsing": "It is true or false.",
    "tuple_type": "It is a list, as in [a, b].",
}
_LONGEST_VALUE = 80


def explain(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One message for each of pydantic's errors. model: what the file was read as."""
    known = _keys(model)
    return [line for one in error.errors() for line in _explain(dict(one), known).splitlines()]


def _explain(error: Mapping[str, Any], known: Mapping[str, Sequence[str]]) -> str:
    place, value, context = _dotted(error["loc"]), error["input"], error.get("ctx", {})
    kind = error["type"]
    if kind in ("extra_forbidden", "invalid_key"):
        return _unknown(error["loc"], known)
    if kind == "missing":
        return f"{place} is missing."
    broken = isinstance(context.get("error"), BrokenRuleError)
    if kind == "value_error" and not broken:  # a rule between several values, which says it all
        return str(context["error"])
    if value is None:
        return f"{place} has no value. Give it one, or take the line out where the key has a default."
    match kind:
        case "greater_than_equal":
            return f"{place} is {value}; the minimum is {context['ge']}."
        case "less_than_equal":
            return f"{place} is {value}; the maximum is {context['le']}."
        case "literal_error":
            rule = f"It is {context['expected'].replace("'", '')}."
        case "model_type":
            rule = f"It has keys of its own: {', '.join(known[_dotted(error['loc'], numbers=False)])}."
        case _ if broken:
            rule = str(context["error"])
        case _:
            rule = _TYPES.get(kind, f"{error['msg']}.")
    return f"{place} is {_shown(value)}. {rule}"


def _unknown(location: tuple[int | str, ...], known: Mapping[str, Sequence[str]]) -> str:
    """Names the nearest key beside it, else the same key elsewhere in the file, else all that there are."""
    above, key = location[:-1], str(location[-1])
    beside = known[_dotted(above, numbers=False)]
    near = difflib.get_close_matches(key, beside, n=1, cutoff=0.5)
    elsewhere = [".".join(filter(None, (part, key))) for part, keys in known.items() if key in keys]
    if near or elsewhere:
        hint = f"Did you mean {_dotted([*above, near[0]]) if near else ' or '.join(elsewhere)}?"
    else:
        hint = f"There is {', '.join(beside)}."
    return f"{_dotted([*above, key])} is unknown. {hint}"


def _keys(model: type[BaseModel], above: str = "") -> dict[str, list[str]]:
    """The keys of each part of the file, by the part's own dotted key; "" is the whole."""
    found = {above: sorted(str(info.alias) for info in model.model_fields.values())}
    for info in model.model_fields.values():
        for inner in _models(info.annotation):
            found |= _keys(inner, ".".join(filter(None, (above, info.alias))))
    return found


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Those that a field holds, itself or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _dotted(location: Sequence[int | str], *, numbers: bool = True) -> str:
    """network.existing[0].subnetwork; without numbers network.existing.subnetwork."""
    text = ""
    for part in location:
        if not isinstance(part, int):
            text += f".{part}" if text else part
        elif numbers:
            text += f"[{part}]"
    return text


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()  # as YAML has it
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
