"""One compilation of MaxText's training step, as its own `train_compile` does it, for the chips of a run.

Runs in a process of its own: libtpu reads its flags once, when it is loaded, and cannot be stopped otherwise.
"""

import math
import os
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import arguments
from run import Run
from trainstep_manifest import OWN_DEVICES, PACKAGES, program

_VARINT = rb"([\x80-\xff]*[\x00-\x7f])"
_TEMPORARIES = re.compile(rb"\x08\x03\x10" + _VARINT + rb"(?:\x18" + _VARINT + rb")?", re.DOTALL)

Tell = Callable[[Mapping[str, Any]], None]


class TopologyError(ValueError):
    """MaxText or libtpu knows the name that was asked for as another slice."""


def versions() -> dict[str, str]:
    """Package name to installed version."""
    return {name: version(name) for name in PACKAGES}


def preload() -> None:
    """Imports all that a compilation needs and that is safe to share with forked processes: no device is looked for and
    libtpu is not loaded. Ten seconds and more."""
    os.environ |= {
        "JAX_PLATFORMS": "cpu",  # the devices of this process; the compiler's are described, not found
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # libtpu allows one process per machine, for it would own the chips
        "TPU_SKIP_MDS_QUERY": "1",  # and asks Google Cloud's metadata server where it is
        "DECOUPLE_GCLOUD": "TRUE",
        "HF_HUB_OFFLINE": "1",
    }
    import maxtext.trainers.pre_train.train_compile  # noqa: F401


def compile_step(request: Mapping[str, Any], tell: Tell) -> None:
    """Compiles what a request of the protocol asks for; returns when the program is complete, and saved if it is to be.

    Args:
        tell: called before the compiler starts, with the facts of the configuration (see `_facts`) and, as `program`,
            the manifest of a step that is saved (trainstep_manifest); and again when it has finished, with the facts
            of the executable (see `_compiled_facts`).

    Raises:
        RunFileError, TopologyError: the request cannot be compiled.
        SystemExit, Exception: what MaxText, JAX and libtpu raise; compile_errors tells them apart.
    """
    run = changed(Run.model_validate(request["run"]), request)
    slices = int(request["slices"])
    arguments.check_keys(run)
    _check_topology(run, str(request["topology"]))
    compiled = program(run, slices)
    _set_environment(run, str(request["dump"]))

    from maxtext.trainers.pre_train import train_compile

    shaped = train_compile.get_shaped_inputs

    def observed(mesh: Any, config: Any) -> Any:
        result = shaped(mesh, config)
        tell({"program": compiled, **_facts(config, result[0][0])})
        return result

    train_compile.get_shaped_inputs = observed
    compiling = train_compile.jit_and_compile

    def measured(*positional: Any, **named: Any) -> Any:
        compiled = compiling(*positional, **named)
        tell(_compiled_facts(compiled))
        return compiled

    train_compile.jit_and_compile = measured
    # MaxText takes the last of two values for one argument.
    train_compile.main([*arguments.argv(run, slices, arguments.base_config()), *_own_arguments(request)])


def changed(run: Run, request: Mapping[str, Any]) -> Run:
    """The run with the request's changes, on chips even where its profile emulates them. A change to null removes the
    argument, as in Helm."""
    maxtext = {k: v for k, v in {**run.maxtext, **request["changes"]}.items() if v is not None}
    tpu = run.tpu.model_copy(update={"emulated": False})
    return run.model_copy(update={"maxtext": maxtext, "tpu": tpu})


def _own_arguments(request: Mapping[str, Any]) -> list[str]:
    """What differs from the run on the cluster: nothing that shapes the program."""
    return [
        f"compile_topology={request['topology']}",
        f"compile_topology_num_slices={request['slices']}",
        f"base_output_directory={request['dump']}",
        *([f"compiled_trainstep_file={request['save']}"] if request["save"] else []),
        "skip_jax_distributed_system=true",
        "jax_cache_dir=",
        "log_config=false",
        "enable_goodput_recording=false",
        "monitor_goodput=false",
        "dump_hlo=false",
    ]


def _check_topology(run: Run, name: str) -> None:
    from maxtext.utils import accelerator_to_spec_map

    known = accelerator_to_spec_map.get_system_characteristics(name)
    topology = str(known.topology_name).partition(":")[2]
    if (topology, known.devices_per_slice) != (run.tpu.topology, run.devices(1)):
        raise TopologyError(
            f"MaxText calls {known.topology_name} with {known.devices_per_slice} devices {name}, which is not the slice"
            f" that the run asks for: {run.tpu.type} {run.tpu.topology} with {run.devices(1)} devices"
        )


def _set_environment(run: Run, dump: str) -> None:
    """The environment of the run's workers, as far as it shapes the program, and where the compiler writes."""
    ours = arguments.worker_environment(run)
    os.environ |= {name: value for name, value in ours.items() if name not in OWN_DEVICES}
    wanted = [f"--xla_dump_to={dump}", "--xla_dump_hlo_module_re=.*train_step.*"]
    os.environ["XLA_FLAGS"] = " ".join(filter(None, [ours.get("XLA_FLAGS", ""), *wanted]))
    _set_jax({name: value for name, value in run.env.items() if name not in OWN_DEVICES})


def _set_jax(env: Mapping[str, str]) -> None:
    """JAX has read its variables when it was imported, before this run was known."""
    import jax

    for name, text in env.items():
        setting = name.lower()
        # A compilation cache of the run is on the cluster, and a program out of it would write no report.
        if not name.startswith("JAX_") or "_CACHE_" in name or setting not in jax.config.values:
            continue
        old = jax.config.values[setting]
        kind = type(old) if isinstance(old, bool | int | float) else str
        value = text.lower() in ("1", "true", "yes", "on") if kind is bool else kind(text)
        jax.config.update(setting, value)


def _facts(config: Any, state: Any) -> dict[str, Any]:
    """What MaxText says of the configuration before it is compiled.

    tflopsPerDevice, tokensPerDevice: of one step; MaxText's own count. checkpointBytes: all of the state, once.
    """
    import jax
    from maxtext.utils import maxtext_utils

    checkpoint = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree_util.tree_leaves(state))
    total, _, _ = maxtext_utils.calculate_tflops_training_per_device(config, log=False)
    tokens = config.global_batch_size_to_train_on * config.max_target_length
    per_device = tokens / config.num_target_devices
    return {"tflopsPerDevice": float(total), "tokensPerDevice": per_device, "checkpointBytes": checkpoint}


def _compiled_facts(compiled: Any) -> dict[str, Any]:
    """What the executable itself says of its memory on one device.

    compiled: JAX's Compiled.memory_analysis() as it is, bytes: argument, output, alias, temp, generated_code, peak, and
    the same of the host's memory. Neither temp nor peak is what the temporaries take: libtpu 0.0.46 counts a part that
    is unused twice in temp, and leaves what is unused at the peak out of peak, which was also seen to include the
    host's memory.
    compiledHbmBytes: what the executable takes of HBM: its arguments, the outputs that are not arguments, its
    temporaries, and its code with its constants. Left out where hbm_temporaries() finds nothing.

    Two programs for v6e-4 were compiled to the end and compared (bytes; those of tests/plan/dumps/plain, and the same
    layers with their inputs offloaded):
                                    plain         offload
        compiledHbmBytes            4443887872    4983494912
          of which generated_code     48381440      78216704
        memory report               4395647776    4905432352    1.1% and 1.6% less
    Without the code, which is not generated yet when the report is written, the two agree to 0.004%. The code of Llama
    3.1 8B for v6e-16 takes 91640832, 0.6% of what its report says.
    """
    stats = compiled.memory_analysis()
    names = [name.removesuffix("_size_in_bytes") for name in dir(stats) if name.endswith("_size_in_bytes")]
    told = {name: getattr(stats, f"{name}_size_in_bytes") for name in names}
    facts = {"compiled": told | {"peak": stats.peak_memory_in_bytes}}
    temporaries = hbm_temporaries(compiled.runtime_executable().serialize(), told["temp"])
    if temporaries is not None:
        outputs = told["output"] - told["alias"]
        facts["compiledHbmBytes"] = told["argument"] + outputs + temporaries + told["generated_code"]
    return facts


def hbm_temporaries(serialized: bytes, temp: int) -> int | None:
    """What the temporaries take of HBM, by the plan of memory within a serialized executable of libtpu 0.0.46.

    The plan is an unpublished protocol buffer, whose entry for temporaries was found to be {1: 3, 2: bytes, 3: bytes of
    them that are unused}. memory_analysis()'s temp is the sum of the two, by which the entry is recognized; None where
    none or several have that sum.
    """
    sizes = [(_number(found[1]), _number(found[2] or b"\0")) for found in _TEMPORARIES.finditer(serialized)]
    fitting = {size for size, unused in sizes if size + unused == temp}
    return fitting.pop() if len(fitting) == 1 else None


def _number(varint: bytes) -> int:
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(varint))
