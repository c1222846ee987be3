"""The winner of a search as a values file for teams, which `helm install -f` and `driver install -f` take after the
values that the search was given."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from driver.chart import render
from driver.errors import USAGE, DriverError
from driver.plan import remat
from driver.plan.bounds import AXES
from driver.plan.tables import seconds
from driver.plan.verdict import Case, Verdict
from driver.values import Values

SEARCHED = frozenset(
    {
        *(f"{kind}_{axis}_parallelism" for kind in ("ici", "dcn") for axis in AXES),
        *("per_device_batch_size", "gradient_accumulation_steps", "remat_policy", *remat.LOCATIONS),
        *("optimizer_memory_host_offload", "parameter_memory_host_offload"),
    }
)
"""The arguments in job.maxtext that a search may set."""

_SET = re.compile(r"(?:^|(?<!\\),)\s*job\.maxtext\.(\w+)=")
"""A key in what --set or --set-string gives, which may give several, with commas between them."""


def text(run: Mapping[str, Any], verdict: Verdict) -> str:
    """The file's content: what differs from the given values, below lines that say what it is."""
    return _header(run, verdict) + yaml.safe_dump(content(verdict.case), sort_keys=False, width=120)


def content(case: Case) -> dict[str, Any]:
    """The values. A null takes an argument away, as Helm has it."""
    return {"job": {"maxtext": dict(case.changes)}} if case.changes else {}


def refuse_fixed(values: Values) -> None:
    """Raises a DriverError where --set or --set-string gives what a search may set: no file stands above them."""
    given = [key for text in (*values.sets, *values.texts) for key in _SET.findall(text)]
    fixed = list(dict.fromkeys(key for key in given if key in SEARCHED))
    if fixed:
        raise DriverError(
            f"--search looks for {', '.join(f'job.maxtext.{key}' for key in fixed)}, which --set gives.",
            rule="The team file that it writes goes after the values files, and --set stands above all of them.",
            fix="put it into a values file (-f): the search begins with it there",
            exit_code=USAGE,
        )


def check(values: Values, release: str, run: Mapping[str, Any], case: Case, written: str) -> None:
    """Renders the chart with the given values and the file after them, and compares the run with the winner.

    Raises a DriverError where the chart refuses it, or where the run would be another one.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "team.yaml"
        file.write_text(written)
        rendered = render(replace(values, files=(*values.files, file)), release).run
    wanted = {"maxtext": case.arguments(run), "libtpuFlags": run["libtpuFlags"]}
    for section, expected in wanted.items():
        got = rendered[section]
        wrong = sorted(key for key in expected.keys() | got.keys() if expected.get(key) != got.get(key))
        if wrong:
            raise DriverError(
                f"With the file that the search writes, job.{section} would have another {', '.join(wrong)}.",
                rule="What --set and --set-string give stands above every values file.",
                fix="the same command without --set for these: put them into a values file (-f)",
            )


def _header(run: Mapping[str, Any], verdict: Verdict) -> str:
    tpu = run["tpu"]
    some = run["slices"]["max"]
    lines = [
        f"The fastest by prediction that `driver plan --search` found for {run['name']} on {some} x"
        f" {tpu['type']} {tpu['topology']},",
        f"MaxText {run['versions']['maxtext']}. It goes after the values that were searched: -f THEIRS -f THIS.",
    ]
    if verdict.memory is not None:
        lines.append(f"HBM per device: {verdict.memory.total:.2f} of {verdict.usable_gib:g} GiB.")
    if verdict.step is not None:
        lines.append(f"Predicted: {seconds(verdict.step)} s per step.")
    return "".join(f"# {line}\n" for line in lines)
