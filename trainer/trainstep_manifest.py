"""What a saved training step was compiled from: the manifest beside it, and how a run differs from it.

Pure. `driver plan --save-executable` writes by the same functions (compile_step) that the workers compare with
(saved_trainstep), so that a step is loaded for exactly the program that it is.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import arguments
from run import Run

SCHEMA_VERSION = 1

PACKAGES = ("maxtext", "jax", "jaxlib", "libtpu", "flax")
"""What decides about the compiled program, beside the run."""

DESCRIPTION = frozenset({"run_name", "base_output_directory", "jax_cache_dir"})
"""Arguments of a run that say where it writes and not what is compiled."""

OWN_DEVICES = ("JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES", "JAX_CPU_COLLECTIVES_IMPLEMENTATION")
"""Variables of a run's environment that a compiler does not take: its devices are described, not found."""

_ENVIRONMENT = ("JAX_", "XLA_", "LIBTPU_", "TPU_")
"""Beginnings of the names of the variables that the compiler may read; driver/plan/request.py has the same."""

_SECTIONS = {"tpu": "tpu.", "arguments": "", "libtpuFlags": "libtpu's ", "env": "job.env."}
"""Maps of the manifest, and how their entries are called."""

_SHOWN = 3
"""Differences in one line."""

_NOT_SET = "not set"


def file_name(run: Run, slices: int) -> str:
    """v6e-4x4-x2.trainstep; its manifest has `.json` behind that."""
    return f"{run.tpu.type}-{run.tpu.topology}-x{slices}.trainstep"


def program(run: Run, slices: int) -> dict[str, Any]:
    """All of the run that decides about the program on `slices` slices, as it comes back from JSON.

    arguments: MaxText's, without those of DESCRIPTION. env: the variables that the compiler may read, for others may be
    secrets.

    Raises:
        RunFileError: the run has no arguments for that number of slices.
    """
    told = arguments.maxtext_arguments(run, slices)
    content = {
        "tpu": {"type": run.tpu.type, "topology": run.tpu.topology, "chipsPerHost": run.tpu.chips_per_host},
        "slices": slices,
        "arguments": {key: value for key, value in told.items() if key not in DESCRIPTION},
        "libtpuFlags": run.libtpu_flags,
        "env": {name: value for name, value in run.env.items() if _shapes(name)},
    }
    result: dict[str, Any] = json.loads(json.dumps(content))
    return result


def versions(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Package name to installed version; a package that is not there is "not installed"."""
    return {name: _version(name) for name in names}


def difference(manifest: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Why the step of this manifest is not that of `own`, a program(), with the packages of this environment: in one
    line; empty if it is.

    Raises:
        LookupError, TypeError, AttributeError: it is no manifest.
    """
    if manifest["schemaVersion"] != SCHEMA_VERSION:
        return f"its manifest has schemaVersion {manifest['schemaVersion']}, and this trainer reads {SCHEMA_VERSION}"
    found = list(_differences("", manifest["versions"], versions({*manifest["versions"], *PACKAGES})))
    found += _differences("", {"slices": manifest["slices"]}, {"slices": own["slices"]})
    for section, before in _SECTIONS.items():
        found += _differences(before, manifest[section], own[section])
    more = f" (and {len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def _differences(before: str, there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*there, *here}):
        # As texts: to Python True and 1 are equal, to MaxText they are not.
        saved, own = (json.dumps(each[name], sort_keys=True) if name in each else _NOT_SET for each in (there, here))
        if saved != own:
            yield f"{before}{name} is {saved} there and {own} here"


def _shapes(name: str) -> bool:
    return name.startswith(_ENVIRONMENT) and "_CACHE_" not in name and name not in OWN_DEVICES


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
