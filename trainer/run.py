"""The run file: what the chart decided about one run, parsed and checked once.

`run.yaml` is rendered by the chart and is the only description of a run; docs/run-file.md documents every key.
Everything here is a frozen value. What MaxText is told is computed from it in `arguments`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

Scalar = bool | int | float | str
Argument = Scalar | list[Any] | dict[str, Any] | None


class RunFileError(ValueError):
    """The run file, or what it asks for, cannot work. The message says what was found, the rule and the fix."""


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class Versions(_Section):
    chart: str
    ray: str
    maxtext: str


class Tpu(_Section):
    """The shape of one slice. All slices of a run are alike."""

    type: str
    topology: str
    ray_accelerator_type: str
    accelerator_type: str
    hosts_per_slice: int = Field(ge=1)
    chips_per_host: int = Field(ge=1)
    devices_per_chip: int = Field(ge=1, description="JAX devices that one chip is; 2 on v7x")
    hbm_gib_per_chip: float = Field(alias="hbmGiBPerChip", gt=0)
    peak_tflops_per_chip: float = Field(gt=0, description="bfloat16 TFLOP/s")
    emulated: bool = Field(description="CPU devices stand in for chips; see `emulation`")


class Slices(_Section):
    min: int = Field(ge=1)
    max: int = Field(ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> "Slices":
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class Elastic(_Section):
    enabled: bool
    resize_interval_seconds: float = Field(gt=0)
    global_batch: Literal["keep", "scale"]


class Failures(_Section):
    """How many restarts are allowed; -1 is without limit. Preemptions have a count of their own."""

    max_failures: int = Field(ge=-1)
    max_preemptions: int = Field(ge=-1)


class Timeouts(_Section):
    worker_group_start_seconds: float = Field(gt=0)
    stall_seconds: float = Field(ge=0, description="0 switches the watchdog off")
    previous_job_seconds: float = Field(ge=0)


class Megascale(_Section):
    port: int = Field(gt=0, lt=65536)
    interface_prefixes: str


class Tokenizer(_Section):
    type: str
    path: str


class HuggingFace(_Section):
    path: str
    name: str
    train_files: str
    eval_files: str
    eval_split: str


class Data(_Section):
    kind: Literal["synthetic", "grain", "hf"]
    train_files: str
    eval_files: str
    file_type: str
    tokenizer: Tokenizer
    packing: bool
    tokenized: bool = Field(description="the records hold token ids, not text")
    epochs: int = Field(ge=0, description="passes over the training data; 0: as many as the steps need")
    eval_every_steps: int = Field(ge=0, description="0: no evaluation")
    eval_steps: int = Field(ge=0, description="0: all of the evaluation set")
    shuffle_seed: int
    hf: HuggingFace


class RuntimeInstall(_Section):
    """Packages that Ray installs on each worker when the image lacks them; empty when the image has everything."""

    packages: list[str]
    options: list[str]


class Run(_Section):
    """One run. Lengths of time are seconds, sizes GiB."""

    schema_version: Literal[1]
    name: str = Field(pattern=r"^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$")
    attempt: int = Field(ge=0)
    steps: int = Field(ge=1)
    output_directory: str
    compile_cache_directory: str
    compiled_trainsteps_directory: str
    versions: Versions
    tpu: Tpu
    slices: Slices
    elastic: Elastic
    failures: Failures
    timeouts: Timeouts
    megascale: Megascale
    maxtext: dict[str, Argument]
    libtpu_flags: dict[str, Scalar]
    env: dict[str, str]
    data: Data
    runtime_install: RuntimeInstall
    guards_allowed: list[str]

    @property
    def folder(self) -> Path:
        """Where MaxText and the trainer write: `<outputDirectory>/<name>`."""
        return Path(self.output_directory) / self.name

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def progress(self) -> Path:
        return self.folder / "progress"

    @property
    def checkpointing(self) -> bool:
        """MaxText saves checkpoints unless its argument says otherwise."""
        return self.maxtext.get("enable_checkpointing", True) not in (False, "false")

    def slice_counts(self) -> Iterator[int]:
        """Every number of slices that this run may train on, smallest first."""
        yield from range(self.slices.min, self.slices.max + 1)

    def hosts(self, slices: int) -> int:
        return slices * self.tpu.hosts_per_slice

    def chips(self, slices: int) -> int:
        return self.hosts(slices) * self.tpu.chips_per_host

    def devices(self, slices: int) -> int:
        """JAX's devices."""
        return self.chips(slices) * self.tpu.devices_per_chip

    @property
    def devices_per_host(self) -> int:
        return self.tpu.chips_per_host * self.tpu.devices_per_chip


def load(path: Path) -> Run:
    """Reads and checks a run file.

    Raises:
        RunFileError: it cannot be read, is not YAML, or a key is missing, unknown or out of range.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise RunFileError(f"run file {path}: cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise RunFileError(f"run file {path}: not YAML: {' '.join(str(error).split())}") from error
    try:
        return Run.model_validate(content)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise RunFileError(f"run file {path}: {problems}. It is written by the chart: render it again") from error
