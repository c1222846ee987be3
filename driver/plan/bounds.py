"""What can be known of a configuration without compiling it: MaxText's parameters, its mesh, a lower bound of the HBM,
and a rough time that only orders the search.

The bound is never above what the compiler needs: it counts what must be in HBM at the same moment, each array divided
by as many devices as could share it, in the smallest type it can have there. The arrays and the axes that divide them
are MaxText 0.2.5's: layers/attentions.py, layers/linears.py, layers/moe.py, layers/embeddings.py,
layers/nnx_decoders.py, and logical_axis_rules in configs/base.yml.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from driver.plan.remat import is_known, kept_elements, kept_names, recomputed_parts
from driver.plan.verdict import Case

GIB = 2.0**30
_BLOCKS = {"llama2", "mistral", "mixtral"}
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_SMALLEST = 1  # an 8-bit type
_REPLICATING = ("diloco", "data")
AXES = (
    "diloco", "data", "fsdp", "fsdp_transpose", "context", "context_usp_ulysses", "context_autoregressive",
    "tensor", "tensor_sequence", "pipeline", "expert", "autoregressive",
)  # fmt: skip
"""MaxText's ici_*_parallelism and dcn_*_parallelism, without `sequence`, which its mesh has no axis for."""


class UnusableError(ValueError):
    """MaxText or the compiler would refuse this. The message says what was found and the rule."""


@dataclass(frozen=True)
class Model:
    """The sizes that MaxText computes a decoder's parameters from, by its own names without `base_`."""

    emb: int
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    gates: int
    """Projections into the MLP: two for a gated one."""
    experts: int = 1
    experts_per_token: int = 1
    tied: bool = False

    @property
    def attention_parameters(self) -> int:
        return self.emb * self.head_dim * 2 * (self.query_heads + self.kv_heads)

    @property
    def mlp_parameters(self) -> int:
        """Of one expert, or of the dense layer."""
        return self.emb * self.mlp * (self.gates + 1)

    @property
    def embedding_parameters(self) -> int:
        return self.emb * self.vocab * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        router = self.emb * self.experts if self.experts > 1 else 0
        layer = self.attention_parameters + self.experts * self.mlp_parameters + router + 2 * self.emb
        return self.layers * layer + self.embedding_parameters + self.emb


def settings(arguments: Mapping[str, Any], configs: Path) -> dict[str, Any]:
    """MaxText's configuration as it resolves it: its base.yml, the model's file, the arguments.

    configs: the folder `maxtext/configs` of the compiler's environment; nothing of MaxText is imported.
    """
    base = _read(configs / "base.yml")
    # The tuned variants of a model have its sizes (pyconfig.py).
    name = str(arguments.get("model_name", base.get("model_name", "default"))).replace("-Instruct", "")
    known = {**base, **_read(configs / "models" / f"{name}.yml")}
    return known | {key: _as_read(value, known.get(key)) for key, value in arguments.items()}


def _as_read(value: Any, default: Any) -> Any:
    """A text as MaxText reads it, where its own value is a number or true or false: quotes in a values file, or
    --set-string. What it would refuse stays a text."""
    if not isinstance(value, str) or not isinstance(default, bool | int | float):
        return value
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(value.strip().lower(), value)
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


def model(config: Mapping[str, Any]) -> Model | None:
    """The decoder's sizes, or None for one whose parameters are not counted here, or are laid over other axes than
    MaxText's own: nothing is then bounded."""
    if config.get("decoder_block") not in _BLOCKS or config.get("global_parameter_scale", 1) != 1:
        return None
    if config.get("custom_mesh_and_rule"):
        return None
    experts = int(config.get("num_experts", 1))
    return Model(
        emb=int(config["base_emb_dim"]),
        layers=int(config["base_num_decoder_layers"]),
        query_heads=int(config["base_num_query_heads"]),
        kv_heads=int(config["base_num_kv_heads"]),
        head_dim=int(config["head_dim"]),
        mlp=int(config["base_moe_mlp_dim"] if experts > 1 else config["base_mlp_dim"]),
        vocab=int(config["vocab_size"]),
        gates=len(config["mlp_activations"]),
        experts=experts,
        experts_per_token=int(config.get("num_experts_per_tok", 1)),
        tied=bool(config.get("logits_via_embedding", False)),
    )


@dataclass(frozen=True)
class Mesh:
    """Devices along each axis, within a slice and between slices."""

    ici: Mapping[str, int]
    dcn: Mapping[str, int]

    def size(self, *axes: str) -> int:
        return math.prod(self.ici[axis] * self.dcn[axis] for axis in axes)

    @property
    def weight_shards(self) -> int:
        """The most devices that share one weight: every axis but those that only replicate."""
        return self.size(*(axis for axis in AXES if axis not in _REPLICATING))


def mesh(config: Mapping[str, Any], devices_per_slice: int, slices: int) -> Mesh:
    """MaxText's mesh, its one -1 of each kind filled in (max_utils.fill_unspecified_mesh_axes).

    Raises UnusableError where the axes do not multiply to the devices of a slice, or to the slices.
    """
    dcn = {axis: int(config.get(f"dcn_{axis}_parallelism", 1)) for axis in AXES}
    if slices == 1:
        # MaxText makes no DCN mesh then, and refuses one that was asked for.
        if abs(math.prod(dcn.values())) > 1:
            raise UnusableError(f"{_said('dcn', dcn)} on one slice: DCN axes need more than one.")
        dcn = dict.fromkeys(AXES, 1)
    ici = {axis: int(config.get(f"ici_{axis}_parallelism", 1)) for axis in AXES}
    return Mesh(_filled("ici", ici, devices_per_slice, "devices of a slice"), _filled("dcn", dcn, slices, "slices"))


@dataclass(frozen=True)
class Batch:
    """per_device: sequences in one device's part of a batch; accumulated: batches whose gradients make a step."""

    per_device: float
    accumulated: int
    sequence: int

    @property
    def tokens(self) -> float:
        """Of one device, in one of the accumulated batches."""
        return self.per_device * self.sequence

    @property
    def step_tokens(self) -> float:
        """Of one device, in a whole step."""
        return self.tokens * self.accumulated


def batch(run: Mapping[str, Any], case: Case, config: Mapping[str, Any]) -> Batch:
    """The batch with what an elastic run that keeps its global batch accumulates on fewer slices."""
    accumulated = int(config.get("gradient_accumulation_steps", 1))
    if run["elastic"]["enabled"] and run["elastic"]["globalBatch"] == "keep":
        accumulated *= int(run["slices"]["max"]) // case.slices
    return Batch(float(config["per_device_batch_size"]), accumulated, int(config["max_target_length"]))


def state_bytes(config: Mapping[str, Any], sizes: Model) -> tuple[float, float]:
    """Bytes of all weights, and of the optimizer's state. A checkpoint is both."""
    weights = _bytes(config.get("weight_dtype", "float32"))
    moments: dict[str, float] = {
        # optimizers.py, get_optimizer: Adam's mu has a type of its own, nu has the weights'.
        "adamw": _bytes(config.get("mu_dtype") or config.get("weight_dtype", "float32")) + weights,
        "adam_pax": 2 * weights,
        "sgd": 0,
    }
    return sizes.parameters * weights, sizes.parameters * moments.get(str(config.get("opt_type", "adamw")), 0)


def resident_bytes(config: Mapping[str, Any], sizes: Model, where: Mesh) -> float:
    """Weights and optimizer's state in one device's HBM for the whole step."""
    weights, optimizer = state_bytes(config, sizes)
    shards = where.weight_shards
    resident = 0.0 if config.get("parameter_memory_host_offload") else weights / shards
    if not config.get("optimizer_memory_host_offload"):
        resident += optimizer / (shards * (where.size("data") if config.get("shard_optimizer_over_data") else 1))
    return resident


def hbm_bound_gib(config: Mapping[str, Any], sizes: Model, where: Mesh, part: Batch) -> float:
    """HBM of one device that no compilation can go below, GiB.

    When the backward pass begins, there are the weights and the optimizer's state (unless the host has them), what
    each layer kept, and the logits; while it runs, the gradients of all layers in place of the logits: they are one
    array for each weight, which the loop over the layers carries, and none can be used before the last is there
    because their norm is clipped.
    """
    shards = where.weight_shards
    resident = resident_bytes(config, sizes, where)
    kept = kept_elements(sizes, kept_names(config).device)
    activations = sizes.layers * kept * part.tokens * _bytes(config.get("dtype", "bfloat16"))
    activations /= where.size("pipeline")
    narrow = 2.0
    gradients = sizes.parameters * narrow / shards if float(config.get("gradient_clipping_threshold", 1.0)) > 0 else 0.0
    logits = part.tokens * sizes.vocab * narrow / max(1, int(config.get("num_vocab_tiling", 1)))
    if not config.get("scan_layers", True):
        return (resident + max(activations + logits, gradients)) / GIB
    return (resident + activations + max(logits, gradients)) / GIB


@dataclass(frozen=True)
class Speeds:
    """Of one device: TFLOP/s, and bytes per second to other devices, to other slices and to the host."""

    tflops: float
    ici: float
    dcn: float
    host: float


def rough_seconds(
    config: Mapping[str, Any], sizes: Model, where: Mesh, part: Batch, speeds: Speeds
) -> tuple[float, float]:
    """A step's time to order a search by, and nothing else: that of the slowest of compute, ICI, DCN and host, as if
    all ran at their peak and beside each other; then their sum, for those that are equal by the first."""
    seconds = (
        _flops(config, sizes, part) / (speeds.tflops * 1e12),
        _ici_bytes(sizes, where, part) / speeds.ici,
        _dcn_bytes(sizes, where, part) / speeds.dcn,
        _host_bytes(config, sizes, where, part) / speeds.host,
    )
    return max(seconds), sum(seconds)


def peak_seconds(config: Mapping[str, Any], sizes: Model, part: Batch, speeds: Speeds) -> float:
    """A step's matrix products and attention at the chip's peak: no step is shorter.

    The peak is that of bfloat16: of quantized products nothing is told. What a policy that is not known here computes
    again is not counted.
    """
    if config.get("quantization"):
        return 0.0
    known = is_known(config)
    return (_flops(config, sizes, part) if known else model_tflop(sizes, part) * 1e12) / (speeds.tflops * 1e12)


def model_tflop(sizes: Model, part: Batch) -> float:
    """TFLOP of one device in a step, as MaxText counts them (maxtext_utils.calculate_tflops_training_per_device): three
    times the forward pass, causal attention as half of the square, nothing for what is computed again."""
    layer = sum(_forward(sizes, part).values())
    return 3 * (sizes.layers * layer + 2 * sizes.emb * sizes.vocab) * part.step_tokens / 1e12


def _forward(sizes: Model, part: Batch) -> dict[str, float]:
    """FLOPs of one layer's forward pass for one token, by the parts that a remat policy can keep."""
    heads = sizes.query_heads * sizes.head_dim
    router = 2 * sizes.emb * sizes.experts if sizes.experts > 1 else 0
    return {
        "qkv": 2 * sizes.emb * sizes.head_dim * (sizes.query_heads + 2 * sizes.kv_heads),
        "context": 2 * heads * part.sequence,
        "out": 2 * sizes.emb * heads,
        "mlp_in": 2 * sizes.emb * sizes.mlp * sizes.gates * sizes.experts_per_token + router,
        "mlp_out": 2 * sizes.emb * sizes.mlp * sizes.experts_per_token,
    }


def _flops(config: Mapping[str, Any], sizes: Model, part: Batch) -> float:
    again = recomputed_parts(kept_names(config))
    layer = sum(flops for name, flops in _forward(sizes, part).items() if name in again)
    return model_tflop(sizes, part) * 1e12 + sizes.layers * layer * part.step_tokens


def _ici_bytes(sizes: Model, where: Mesh, part: Batch) -> float:
    """Weights gathered in both passes and gradients scattered, in bfloat16; what tensor parallelism sums."""
    shards = where.weight_shards
    tensor = where.size("tensor", "tensor_sequence")
    fsdp = where.ici["fsdp"] * where.ici["fsdp_transpose"] * where.ici["context"]
    gathered = 3 * 2 * sizes.parameters / (shards / fsdp) * (fsdp - 1) / fsdp * part.accumulated
    # Six sums over a layer's activations (two forward, two again, two backward), each out and back.
    summed = 6 * 2 * (tensor - 1) / tensor * part.step_tokens * tensor * sizes.emb * 2 * sizes.layers
    replicated = where.ici["data"]
    reduced = 2 * 2 * sizes.parameters / shards * (replicated - 1) / replicated
    moved = 0.0
    if where.ici["expert"] > 1:
        moved = 6 * part.step_tokens * sizes.experts_per_token * sizes.emb * 2 * sizes.layers
    return gathered + summed + reduced + moved


def _dcn_bytes(sizes: Model, where: Mesh, part: Batch) -> float:
    shards = where.weight_shards
    data, fsdp = where.dcn["data"], where.dcn["fsdp"]
    reduced = 2 * 2 * sizes.parameters / shards * (data - 1) / data
    gathered = 3 * 2 * sizes.parameters / shards * (fsdp - 1) * part.accumulated
    return reduced + gathered


def _host_bytes(config: Mapping[str, Any], sizes: Model, where: Mesh, part: Batch) -> float:
    """What goes to the host, beside which as much comes back."""
    offloaded = kept_elements(sizes, kept_names(config).host) * sizes.layers * part.step_tokens
    moved = offloaded * _bytes(config.get("dtype", "bfloat16"))
    weights, optimizer = state_bytes(config, sizes)
    if config.get("optimizer_memory_host_offload"):
        moved += optimizer / where.weight_shards
    if config.get("parameter_memory_host_offload"):
        moved += weights / where.weight_shards
    return moved


@cache
def _read(file: Path) -> dict[str, Any]:
    """Empty for a file that is not there: `model_name: default` has none, and of another MaxText itself complains."""
    return dict(yaml.safe_load(file.read_text())) if file.is_file() else {}


def _bytes(dtype: Any) -> float:
    return _BYTES.get(str(dtype), _SMALLEST)


def _filled(kind: str, axes: dict[str, int], product: int, what: str) -> dict[str, int]:
    open_axes = [axis for axis, size in axes.items() if size == -1]
    given = math.prod(size for size in axes.values() if size != -1)
    if len(open_axes) > 1:
        names = " and ".join(f"{kind}_{axis}_parallelism" for axis in open_axes)
        raise UnusableError(f"{names} are -1: MaxText fills in one axis of each kind.")
    if open_axes and given > 0 and product % given == 0:
        return {**axes, open_axes[0]: product // given}
    if open_axes or given != product:
        raise UnusableError(f"{_said(kind, axes)} multiply to {given}, and there are {product} {what}.")
    return axes


def _said(kind: str, axes: Mapping[str, int]) -> str:
    named = [f"{kind}_{axis}_parallelism={size}" for axis, size in axes.items() if size not in (1, -1)]
    return ", ".join(named) or f"the {kind} axes"
