"""One configuration to be compiled: a run, a number of slices, and what is tried beside what the run says."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from driver import resources, tpu
from driver.errors import USAGE, DriverError

Until = Literal["memory", "executable"]
"""As far as the memory report, seconds; or all the way, minutes."""

_SHAPES_NOTHING = frozenset({"checkpoint_period", "max_num_checkpoints_to_keep", "hf_access_token"})
"""MaxText arguments that profiles and teams set and that do not change a program's memory or time."""

_ENVIRONMENT = ("JAX_", "XLA_", "LIBTPU_", "TPU_")
"""Beginnings of the names of the variables that do, as in trainer/trainstep_manifest.py. Others may be secrets, and are
neither hashed nor kept."""

_DATA = ("kind", "packing")

COMPILER_FILES = (
    *("arguments.py", "data_arguments.py", "emulation.py", "run.py"),
    *("compile_errors.py", "compile_server.py", "compile_step.py", "trainstep_manifest.py"),
    "requirements-plan.txt",
)
"""The trainer's files that decide what the compiler is told, with which packages, and how its words are taken."""


@dataclass(frozen=True)
class Configuration:
    """What is compiled.

    run: the content of run.yaml.
    slices: how many of them; each between the run's slices.min and slices.max for an elastic run.
    changes: MaxText arguments that replace the run's; None removes one.
    """

    run: Mapping[str, Any]
    slices: int
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def maxtext(self) -> dict[str, Any]:
        """The run's MaxText arguments with the changes; without those that the trainer computes."""
        told = {**self.run["maxtext"], **self.changes}
        return {key: value for key, value in told.items() if value is not None}

    @cached_property
    def slice(self) -> tpu.Slice:
        """Raises a DriverError for a slice that is not in the chart's table."""
        shape = self.run["tpu"]
        try:
            return tpu.find(shape["type"], shape["topology"], shape["chipsPerHost"])
        except ValueError as error:
            raise DriverError(str(error), exit_code=USAGE) from error

    @property
    def topology(self) -> str:
        """The slice's name for MaxText's compile_topology: v6e-16."""
        facts = tpu.table()[self.slice.type]
        return f"{facts['compilerPrefix']}-{self.slice.chips * facts['coresPerChip']}"

    def shape(self) -> dict[str, Any]:
        """All of the configuration that decides about the compiled program's memory and time.

        Not in it: names, folders, time limits, ports, and the number of steps, which is constants of the learning
        rate's schedule.
        """
        run = self.run
        keeps = run["elastic"]["enabled"] and run["elastic"]["globalBatch"] == "keep"
        return {
            "topology": self.topology,
            "slices": self.slices,
            "maxtext": {key: value for key, value in self.maxtext.items() if key not in _SHAPES_NOTHING},
            "libtpuFlags": dict(run["libtpuFlags"]),
            "env": {name: value for name, value in run["env"].items() if name.startswith(_ENVIRONMENT)},
            "data": {key: run["data"][key] for key in _DATA},
            # Fewer slices accumulate the batch of all of them.
            "accumulated": run["slices"]["max"] / self.slices if keeps else 1.0,
        }

    def key(self, versions: Mapping[str, str]) -> str:
        """The same for two configurations only if the same versions compile the same program for them: 32 letters."""
        whole = {"shape": self.shape(), "versions": dict(versions), "trainer": _trainer_digest()}
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]

    def request(self, name: str, until: Until, dump: Path, save: Path | None = None) -> dict[str, Any]:
        """The line for trainer/compile_server.py, which documents it."""
        return {
            "id": name,
            "run": self.run,
            "slices": self.slices,
            "topology": self.topology,
            "changes": dict(self.changes),
            "until": until,
            "dump": str(dump),
            "save": None if save is None else str(save),
        }


def _trainer_digest() -> str:
    folder = resources.trainer_dir()
    return hashlib.sha256(b"\0".join((folder / name).read_bytes() for name in COMPILER_FILES)).hexdigest()
