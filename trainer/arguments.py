"""What MaxText is told: its arguments for a run on a given number of slices, and the environment of its workers.

Pure functions of the run file, so that a cluster and a laptop agree to the letter.
"""

import difflib
import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path

import data_arguments
import emulation
import yaml
from run import Run, RunFileError

COMPUTED = frozenset(
    {
        "base_output_directory",
        "compile_topology",
        "compile_topology_num_slices",
        "compiled_trainstep_file",
        "hardware",
        "jax_cache_dir",
        "num_slices",
        "run_name",
        "skip_jax_distributed_system",
        "steps",
    }
)
"""Arguments that follow from the run file; a value given by hand is refused."""


def maxtext_arguments(run: Run, slices: int) -> dict[str, object]:
    """MaxText's arguments on `slices` slices; on a TPU and in emulation alike but for `emulation.arguments`.

    Raises:
        RunFileError: an argument is one that the trainer computes, or the global batch cannot be kept.
    """
    _refuse_computed(run)
    arguments: dict[str, object] = {**data_arguments.DEFAULTS, **run.maxtext, **_data(run, slices)}
    arguments |= {
        "run_name": run.name,
        "base_output_directory": run.output_directory,
        "steps": run.steps,
        "jax_cache_dir": compile_cache(run, slices),
    }
    if run.elastic.enabled and run.elastic.global_batch == "keep":
        arguments["gradient_accumulation_steps"] = _accumulation(run, slices)
    if run.tpu.emulated:
        arguments |= emulation.arguments(run, slices)
    return arguments


def argv(run: Run, slices: int, base_config: str) -> list[str]:
    """The argument vector of MaxText's own main: program name, base configuration, key=value."""
    pairs = (f"{key}={_text(value)}" for key, value in maxtext_arguments(run, slices).items())
    return ["maxtext.trainers.pre_train.train", base_config, *pairs]


def base_config() -> str:
    """Path of MaxText's own base configuration, which is inside its package."""
    from maxtext.utils.globals import MAXTEXT_CONFIGS_DIR

    return str(Path(MAXTEXT_CONFIGS_DIR) / "base.yml")


def compile_cache(run: Run, slices: int) -> str:
    """One folder for each program that can be compiled: a restart on as many slices finds its executable."""
    if not run.compile_cache_directory:
        return ""
    kind = "cpu" if run.tpu.emulated else run.tpu.type
    return str(
        Path(run.compile_cache_directory) / f"maxtext-{run.versions.maxtext}-{kind}-{run.tpu.topology}-x{slices}"
    )


def worker_environment(run: Run) -> dict[str, str]:
    """Environment variables of every worker process, set before JAX is imported.

    MEGASCALE_NUM_SLICES and its like are absent on purpose: Ray Train sets them for each group of workers, and a
    static value makes libtpu wait for slices that are gone (ray-project/ray#62893).
    """
    if run.tpu.emulated:
        return emulation.worker_environment(run) | run.env
    return {
        "JAX_PLATFORMS": "tpu,cpu",
        "ENABLE_PJRT_COMPATIBILITY": "true",
        "LIBTPU_INIT_ARGS": libtpu_arguments(run),
        "MEGASCALE_PORT": str(run.megascale.port),
    } | run.env


def libtpu_arguments(run: Run) -> str:
    """The value of LIBTPU_INIT_ARGS."""
    flags = dict(run.libtpu_flags)
    if run.slices.max > 1 and run.megascale.interface_prefixes:
        flags.setdefault("megascale_grpc_interface_prefixes", run.megascale.interface_prefixes)
    return " ".join(f"--{name}={_text(value)}" for name, value in flags.items())


def check(run: Run) -> None:
    """All that can be known before the workers start, so that it is not tried as often as failures are allowed.

    Raises:
        RunFileError: an argument is unknown, computed or impossible, or a data file is missing or does not fit.
    """
    check_keys(run)
    for slices in run.slice_counts():
        maxtext_arguments(run, slices)
    try:
        data_arguments.check_files(run.data.model_dump(by_alias=True), run.maxtext)
    except ValueError as error:
        raise RunFileError(str(error)) from error


def check_keys(run: Run) -> None:
    """Refuses MaxText arguments that the installed MaxText does not know; says the nearest one.

    Silent where MaxText is not installed (a head that only submits): the workers then find out.

    Raises:
        RunFileError: naming every unknown key.
    """
    known = known_keys()
    if known is None:
        return
    unknown = [key for key in run.maxtext if key not in known]
    if unknown:
        raise RunFileError("; ".join(_unknown(key, known) for key in unknown))


def known_keys() -> frozenset[str] | None:
    """Every argument of the installed MaxText, read from its files: importing it takes ten seconds and JAX."""
    spec = importlib.util.find_spec("maxtext")
    if spec is None or not spec.submodule_search_locations:
        return None
    configs = Path(next(iter(spec.submodule_search_locations))) / "configs"
    base = yaml.safe_load((configs / "base.yml").read_text())
    types = configs / "types.py"
    fields = re.findall(r"^  (\w+):", types.read_text(), re.MULTILINE) if types.exists() else []
    return frozenset(base) | frozenset(fields)


def _data(run: Run, slices: int) -> Mapping[str, object]:
    data = run.data.model_dump(by_alias=True)
    try:
        return data_arguments.arguments(data, slices=slices, max_slices=run.slices.max, elastic=run.elastic.enabled)
    except ValueError as error:
        raise RunFileError(str(error)) from error


def _refuse_computed(run: Run) -> None:
    given = sorted((COMPUTED | data_arguments.OWNED) & run.maxtext.keys())
    if given:
        raise RunFileError(
            f"job.maxtext sets {', '.join(given)}: the trainer computes these from the other values"
            " (job.steps, job.runName, tpu.*, data.*, storage.*); remove them from job.maxtext"
        )


def _accumulation(run: Run, slices: int) -> int:
    """Gradient accumulation that keeps the global batch of `slices.max` slices on fewer of them."""
    if run.slices.max % slices:
        raise RunFileError(
            f"elastic.globalBatch=keep: {run.slices.max} slices' batch cannot be accumulated on {slices} slices;"
            " every count from elastic.minSlices to tpu.slices must divide tpu.slices"
        )
    batch = run.maxtext.get("per_device_batch_size", 1)
    if run.data.kind != "synthetic" and isinstance(batch, float) and batch < 1:
        raise RunFileError(
            f"job.maxtext.per_device_batch_size={batch} with elastic.globalBatch=keep and real data: MaxText reads a"
            " whole sequence for each chip, so that the batch would change with the slices; make it 1 or more"
        )
    base = run.maxtext.get("gradient_accumulation_steps", 1)
    if not isinstance(base, int) or base < 1:
        raise RunFileError(f"job.maxtext.gradient_accumulation_steps={base}: must be a whole number above 0")
    return base * (run.slices.max // slices)


def _unknown(key: str, known: frozenset[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"job.maxtext.{key}: MaxText has no such argument{hint}"


def _text(value: object) -> str:
    """A value as MaxText and libtpu read it on a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value)
    return "" if value is None else str(value)
