"""The one mapping that Helm makes of values files, `--set` and the like: Helm itself merges them.

A scratch chart that has no values of its own prints what reaches its templates. Nulls stay in it, since Helm deletes a
null only where a chart's own values have the key: given to our chart, they delete there.

One thing is lost, as in every values file: Helm reads numbers of JSON as 64-bit floating point, and those of `--set` as
64-bit integers. Both are the same up to 2^53; beyond it a number is refused, because it would be another one.
"""

import base64
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driver import chart
from driver.errors import USAGE, DriverError
from driver.values import Values

_CHART = "apiVersion: v2\nname: merging\nversion: 0.0.0\n"
# In base64, so that what the values are cannot be taken for a manifest's own keys.
_TEMPLATE = "merged: {{ .Values | mustToJson | b64enc }}\n"
_EXACT = 2**53


def merged(values: Values) -> dict[str, Any]:
    """What `helm install` would make of the same arguments, before the chart's own values.yaml comes below it.

    Raises a DriverError where a file is missing or no YAML, or an argument is not KEY=VALUE.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "Chart.yaml").write_text(_CHART)
        (scratch / "templates").mkdir()
        (scratch / "templates" / "merged.yaml").write_text(_TEMPLATE)
        command = [chart.find_helm(), "template", "merging", folder, *values.helm_arguments()]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise chart.explain(result.stderr)
    printed = re.search(r"^merged: (\S+)$", result.stdout, re.MULTILINE)
    content: dict[str, Any] = json.loads(base64.b64decode(printed.group(1))) if printed else {}
    for path, number in (*_numbers(content), *_numbers_made_text(values.sets)):
        if abs(number) > _EXACT:
            raise DriverError(
                f"{path} is {number}.",
                rule=f"Helm keeps whole numbers exactly up to {_EXACT}.",
                fix="a smaller number"
                if _wants_number(path)
                else f"a smaller number, or text: --set-string {path}={number}",
                exit_code=USAGE,
            )
    return content


def _numbers_made_text(sets: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Whole numbers of `--set` that are so large that Helm takes them for text, each with its path."""
    for given in sets:
        for path, digits in re.findall(r"(?:^|(?<!\\),)([^=,{]+)=([-+]?\d{19,})(?=,|$)", given):
            if not -(2**63) <= int(digits) < 2**63:
                yield path, int(digits)


def _wants_number(path: str) -> bool:
    """Whether the chart's schema takes nothing but a number there, so that text is no way out."""
    return chart.schema_of(path).get("type") in ("integer", "number")


def _numbers(content: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """The whole numbers, each with its path."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _numbers(value, f"{path}.{key}" if path else str(key))
    elif isinstance(content, list):
        for place, value in enumerate(content):
            yield from _numbers(value, f"{path}[{place}]")
    elif isinstance(content, int) and not isinstance(content, bool):
        yield path, content
