"""All that differs where CPU devices stand in for TPU chips: one machine, or pods without TPUs.

Ray still sees `TPU` resources, slice names and topologies, and Ray Train still reserves whole slices; only JAX's
devices are others. Nothing outside this module asks whether a run is emulated, but to call it.
"""

import math
from collections.abc import Sequence
from typing import Any

from run import Run

_PROCESS_GIB = 1.3
"""Resident memory of one worker that imported MaxText and compiled a tiny model (measured 1.0 to 1.3 GB)."""

_BYTES_PER_PARAMETER = 24
"""float32 weights, two Adam moments and gradients, and as much again for the update's temporaries on CPU."""


NO_SAVED_STEP = "a saved step is a program for TPUs, and these slices are emulated"
"""Why `saved_trainstep` loads none."""


def worker_environment(run: Run) -> dict[str, str]:
    """Environment of a worker whose devices are CPU devices and whose network is gloo."""
    return {
        "JAX_PLATFORMS": "cpu",
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
        "JAX_NUM_CPU_DEVICES": str(run.devices_per_host),
        # An empty value: jaxlib 0.11.1's default fails some checkpoints with "YNNPACK ... unsupported parameter".
        "XLA_FLAGS": "--xla_cpu_experimental_ynn_fusion_type=",
        "DECOUPLE_GCLOUD": "TRUE",
        "HF_HUB_OFFLINE": "1",
    }


def arguments(run: Run, slices: int) -> dict[str, object]:
    """Pure data parallelism between chips, whatever the profile shards: the axes a profile sets are for real chips.

    Long runs with FSDP across CPU processes have been seen to hang, each process waiting in another collective; data
    parallelism has one kind of collective and was never seen to (scripts/bench/hangs.py counts).
    """
    sharded = [key for key in run.maxtext if key.startswith(("ici_", "dcn_")) and key.endswith("_parallelism")]
    axes: dict[str, object] = dict.fromkeys(sharded, 1)
    return axes | {
        "ici_fsdp_parallelism": 1,
        "ici_data_parallelism": run.devices(1),
        "dcn_data_parallelism": slices,
    }


def install(slices: int) -> dict[str, object]:
    """Makes a hybrid mesh possible where every CPU device reports slice 0; to be called before MaxText's main.

    jaxlib takes a CPU device's slice from the machine's boot id. Emulated hosts with a boot id of their own for each
    slice (`driver local`) need nothing. Pods share their node's, so JAX's function that lays devices out by slice is
    replaced by one that goes by process, which `ranks` has put in slice order.

    Returns:
        The MaxText arguments that have to be added.
    """
    import jax

    if slices == 1 or len({device.slice_index for device in jax.devices()}) == slices:
        return {}
    from jax.experimental import mesh_utils

    mesh_utils.create_hybrid_device_mesh = _mesh_by_process
    return {"num_slices": slices}


def host_memory_gib(run: Run, config: Any) -> float:
    """Memory that one emulated host needs, GiB, predicted: every device holds the whole model.

    Args:
        config: MaxText's configuration of the run (an object with its resolved values as attributes).
    """
    held = parameters(config)
    tokens = config.max_target_length * max(config.per_device_batch_size, 1)
    # Layer inputs kept for the backward pass, and logits with their gradient; float32 at most.
    activations = 4 * tokens * (8 * config.emb_dim * config.num_decoder_layers + 3 * config.vocab_size)
    device_bytes = _BYTES_PER_PARAMETER * held + activations
    return _PROCESS_GIB + run.devices_per_host * device_bytes / 2**30


def parameters(config: Any) -> int:
    """Parameters of a dense Llama-like decoder; a mixture of experts counts every expert."""
    attention = config.emb_dim * config.head_dim * 2 * (config.num_query_heads + config.num_kv_heads)
    mlp = 3 * config.emb_dim * config.mlp_dim * max(1, config.num_experts)
    return config.num_decoder_layers * (attention + mlp) + 2 * config.vocab_size * config.emb_dim


def _mesh_by_process(mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any], **_: Any) -> Any:
    import numpy as np

    slices = math.prod(dcn_mesh_shape)
    ordered = sorted(devices, key=lambda device: (device.process_index, device.id))
    blocks = np.array(ordered, dtype=object).reshape(slices, *mesh_shape)
    grid = np.empty(tuple(dcn_mesh_shape), dtype=object)
    for index, block in zip(np.ndindex(*dcn_mesh_shape), blocks, strict=True):
        grid[index] = block
    return np.block(grid.tolist())
