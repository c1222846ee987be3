"""YAML that people write: read so that nothing of it is lost, and refused in one line."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

_MERGE = "tag:yaml.org,2002:merge"


def load(text: str) -> Any:
    """The one document in the text; None where it is empty.

    Raises a ValueError in one line, with the place where there is one, for what is not YAML, and for a key that stands
    twice: YAML's loader would drop the first without a word.
    """
    try:
        return yaml.load(text, _Loader)  # a SafeLoader
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        raise ValueError(_with_place(error)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # a date or number that does not exist is a ValueError
        raise ValueError(re.sub(r"\s+", " ", str(error))) from None


def _with_place(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    said = error.problem or error.context or "it cannot be read"
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}" if mark else said


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key_node.tag == _MERGE or not isinstance(key, Hashable):
                continue  # the first may come twice, the second is refused below
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key} stands there twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)
