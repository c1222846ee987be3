"""What `train.py --check` reports: MaxText's own validation of the arguments, before anything is started.

Works on the CPU of the machine at hand, in the trainer's environment, with as many CPU devices as the run has chips.
"""

import contextlib
import os
import sys
from typing import Any

import arguments
import emulation
from pydantic import ValidationError
from run import Run, RunFileError


def report(run: Run) -> dict[str, Any]:
    """`{"arguments": {"<slices>": [...]}, "parameters": n, "hostMemoryGib": x}`.

    `hostMemoryGib` is a prediction for one emulated host.

    Raises:
        RunFileError: MaxText refuses the arguments; in its words.
    """
    slices = run.slices.max
    with contextlib.redirect_stdout(sys.stderr):
        config = _configuration(run, slices)
    return {
        "arguments": {str(n): arguments.argv(run, n, "base.yml") for n in run.slice_counts()},
        "parameters": emulation.parameters(config),
        "hostMemoryGib": round(emulation.host_memory_gib(run, config), 2),
    }


def _configuration(run: Run, slices: int) -> Any:
    os.environ.update(emulation.worker_environment(run) | {"JAX_NUM_CPU_DEVICES": str(run.devices(slices))})
    os.environ.pop("JAX_CPU_COLLECTIVES_IMPLEMENTATION")  # one process
    from maxtext.configs import pyconfig

    argv = arguments.argv(run, slices, arguments.base_config())
    alone = ["skip_jax_distributed_system=true", f"num_slices={slices}", "log_config=false"]
    try:
        return pyconfig.initialize([*argv, *alone])
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, e['loc']))}={e['input']!r}: {e['msg']}" for e in error.errors())
        raise RunFileError(f"MaxText refuses job.maxtext: {told}") from error
    except Exception as error:
        raise RunFileError(f"MaxText refuses the arguments: {' '.join(str(error).split())[:600]}") from error
