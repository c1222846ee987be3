"""The configurations that a search looks through: shardings, batches at a fixed global batch, remat policies and
offloads for the given chips; and the combinations that MaxText refuses.

What changes the training itself is never among them: not the types of weights and moments, not the sequence, not the
global batch. MaxText 0.2.5: configs/types.py (set_derived_and_validate_values), layers/attentions.py
(_validate_kv_head_sharding), layers/moe.py.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from driver.plan import bounds, remat, torus
from driver.plan.bounds import AXES, Batch, Mesh, Model, Speeds, UnusableError
from driver.plan.verdict import Case, Value, Work, devices_per_slice

_TENSOR = (1, 2, 4, 8)
_CONTEXT = (1, 2, 4, 8)
_OFFLOADS: tuple[tuple[str, Mapping[str, Value]], ...] = (
    ("", {"optimizer_memory_host_offload": False, "parameter_memory_host_offload": False}),
    ("optimizer on the host", {"optimizer_memory_host_offload": True, "parameter_memory_host_offload": False}),
    (
        "optimizer and weights on the host",
        {"optimizer_memory_host_offload": True, "parameter_memory_host_offload": True},
    ),
)
_WITHIN_A_LAYER = ("tensor", "tensor_sequence", "context", "expert", "pipeline")
_BATCH_AXES = ("data", "pipeline", "fsdp", "fsdp_transpose", "expert")
_VARIED = {"ici": ("data", "fsdp", "tensor", "context", "expert"), "dcn": ("data", "fsdp")}
"""Axes that a search gives other sizes."""


@dataclass(frozen=True)
class Candidate:
    """One configuration with what is known of it before it is compiled.

    group: what it shares with those that differ in the remat policy only.
    load: what it shares with those whose activations are as large, where they keep the same: they differ in what shards
    and offloads the state.
    rough: to order by, see bounds.rough_seconds.
    peak: seconds that no step is shorter than, see bounds.peak_seconds.
    """

    case: Case
    says: str
    group: tuple[tuple[str, Value], ...]
    load: tuple[float, ...]
    kept: remat.Kept
    bound_gib: float
    rough: tuple[float, float]
    peak: float = 0.0


@dataclass(frozen=True)
class Site:
    """What stays the same for all configurations of a run: its content, MaxText's configurations, the speeds, and the
    versions of the packages that compile."""

    run: Mapping[str, Any]
    configs: Path
    speeds: Speeds
    compiled_by: Mapping[str, str] = field(default_factory=dict)

    def config(self, case: Case) -> Mapping[str, Any]:
        return self._config(case)

    @cached_property
    def _config(self) -> Callable[[Case], Mapping[str, Any]]:
        """Of the last few cases: each is asked for many times in a row, and has MaxText's thousand settings."""
        return lru_cache(maxsize=16)(lambda case: bounds.settings(case.arguments(self.run), self.configs))

    def mesh(self, case: Case) -> Mesh:
        return bounds.mesh(self.config(case), devices_per_slice(self.run), case.slices)

    def batch(self, case: Case) -> Batch:
        return bounds.batch(self.run, case, self.config(case))

    def work(self, case: Case) -> Work:
        """What a step of the case does; FLOPs and checkpoint for a model whose parameters are counted."""
        config = self.config(case)
        sizes, part = bounds.model(config), self.batch(case)
        if sizes is None:
            return Work(part.step_tokens)
        return Work(part.step_tokens, bounds.model_tflop(sizes, part), sum(bounds.state_bytes(config, sizes)))

    def bound_gib(self, case: Case) -> float:
        """0 for a model whose parameters are not counted."""
        config = self.config(case)
        sizes = bounds.model(config)
        return 0.0 if sizes is None else bounds.hbm_bound_gib(config, sizes, self.mesh(case), self.batch(case))

    def resident_gib(self, case: Case) -> float:
        """Of weights and optimizer's state; 0 for a model whose parameters are not counted."""
        config = self.config(case)
        sizes = bounds.model(config)
        return 0.0 if sizes is None else bounds.resident_bytes(config, sizes, self.mesh(case)) / bounds.GIB

    def load(self, case: Case) -> tuple[float, ...]:
        """What decides about the size of activations, beside what is kept of them: a batch, how often it is
        accumulated, and the axes that divide it within a layer. Of a model whose parameters are not counted, which
        keeps its axes, also what is offloaded of the state: its size is not known."""
        config, part = self.config(case), self.batch(case)
        if bounds.model(config) is None:
            away = (float(bool(config.get(f"{what}_memory_host_offload"))) for what in ("optimizer", "parameter"))
            return part.per_device, float(part.accumulated > 1), *away
        where = self.mesh(case)
        return part.per_device, float(part.accumulated > 1), *(float(where.size(axis)) for axis in _WITHIN_A_LAYER)

    def rough(self, case: Case) -> tuple[float, float]:
        """(0, 0) for a model whose parameters are not counted: such cases keep their order."""
        config = self.config(case)
        sizes = bounds.model(config)
        if sizes is None:
            return 0.0, 0.0
        return bounds.rough_seconds(config, sizes, self.mesh(case), self.batch(case), self.speeds)

    def peak(self, case: Case) -> float:
        """0 for a model whose parameters are not counted."""
        config = self.config(case)
        sizes = bounds.model(config)
        return 0.0 if sizes is None else bounds.peak_seconds(config, sizes, self.batch(case), self.speeds)


def check(site: Site, case: Case) -> None:
    """Refuses what MaxText would refuse, or would change without a word, before anything is compiled.

    Raises UnusableError.
    """
    config = site.config(case)
    if config.get("custom_mesh_and_rule"):
        return  # the mesh has other axes, and other ones shard the batch
    where = site.mesh(case)
    part = site.batch(case)
    devices = devices_per_slice(site.run) * case.slices
    _check_batch(where, part, devices, int(config.get("num_vocab_tiling", 1)))
    heads = int(config.get("base_num_kv_heads", 1))
    split = where.size("tensor", "tensor_sequence", "autoregressive")
    if config.get("attention_type", "global") != "mla" and heads % split:
        raise UnusableError(
            f"base_num_kv_heads={heads} on {split} devices of tensor parallelism: each has a whole number of heads."
        )
    experts = int(config.get("num_experts", 1))
    if experts > 1 and experts % where.size("expert"):
        raise UnusableError(f"num_experts={experts} on {where.size('expert')} devices of expert parallelism.")
    if config.get("parameter_memory_host_offload") and int(config.get("param_scan_axis", 1)) != 0:
        raise UnusableError("parameter_memory_host_offload: MaxText wants param_scan_axis=0 with it.")
    if config.get("shard_optimizer_over_data") and where.size("fsdp", "fsdp_transpose") > 1:
        raise UnusableError("shard_optimizer_over_data with FSDP: MaxText takes one of the two.")


def check_new(site: Site, case: Case) -> None:
    """As check(), of what is made here: nor is a mesh made that JAX is not known to take.

    Raises UnusableError.
    """
    check(site, case)
    config = site.config(case)
    if config.get("custom_mesh_and_rule") or config.get("allow_split_physical_axes"):
        return
    where = site.mesh(case)
    # The run's own mesh is JAX's to judge, and has been.
    if torus.takes(site.run, tuple(where.ici.values())) or where.ici == site.mesh(Case(case.slices)).ici:
        return
    said = ", ".join(f"ici_{axis}_parallelism={size}" for axis, size in where.ici.items() if size > 1)
    raise UnusableError(
        f"{said} on {site.run['tpu']['topology']}: each takes whole axes of the slice, or several of them."
    )


def as_it_is(site: Site, slices: int) -> Candidate:
    """The run without a change. Its arguments are numbers where MaxText wants some."""
    case = Case(slices)
    kept = remat.kept_names(site.config(case))
    measures = site.load(case), kept, site.bound_gib(case), site.rough(case), site.peak(case)
    return Candidate(case, "the run as it is", (), *measures)


def candidates(site: Site, slices: int) -> Iterator[Candidate]:
    """Every configuration that MaxText would take, the roughly fastest first; of a model whose parameters are not
    counted the largest batches first, and of these the remat policies that keep nearly what the run's keeps."""
    found = list(_enumerated(site, slices))
    found.sort(key=lambda candidate: candidate.rough)
    yield from found


def needed(site: Site, changes: Mapping[str, Value]) -> dict[str, Value]:
    """The changes without those that say what the run says already, or what is MaxText's default anyway."""
    now, default = site.run["maxtext"], bounds.settings({}, site.configs)
    return {
        key: value
        for key, value in changes.items()
        if (key in now if value is None else value != (now[key] if key in now else default.get(key, _unset(key))))
    }


def _unset(key: str) -> Value:
    """An axis that this MaxText has not is 1."""
    return 1 if key.endswith("_parallelism") else None


def _enumerated(site: Site, slices: int) -> Iterator[Candidate]:
    given = site.config(Case(slices))
    sizes = bounds.model(given)
    seen: set[Case] = set()
    everything = itertools.product(_shardings(site, given, sizes, slices), _batches(given), _OFFLOADS, _policies(given))
    for sharding, split, (offload_says, offload), (policy_says, policy) in everything:
        group = needed(site, {**sharding, **split, **offload})
        changes = needed(site, {**sharding, **split, **offload, **policy})
        case = Case.of(slices, changes)
        if case in seen:
            continue
        seen.add(case)
        try:
            check_new(site, case)
            bound, rough, peak = site.bound_gib(case), site.rough(case), site.peak(case)
        except UnusableError:
            continue
        says = ", ".join(filter(None, (_named(sharding, split), policy_says, offload_says)))
        kept = remat.kept_names(site.config(case))
        yield Candidate(case, says, tuple(sorted(group.items())), site.load(case), kept, bound, rough, peak)


def _policies(given: Mapping[str, Any]) -> list[tuple[str, Mapping[str, str | None]]]:
    """The ladder, and the policy that the run has, which stands for the rung that keeps the same; the nearest to it
    first."""
    kept = remat.kept_names(given)
    rungs = [(says, changes, remat.kept_names(changes)) for says, changes in remat.LADDER]
    if remat.is_known(given):
        rungs = [rung for rung in rungs if rung[2] != kept]
    rungs.insert(0, ("the remat policy as it is", {}, kept))
    rungs.sort(key=lambda rung: len(rung[2].device ^ kept.device) + len(rung[2].host ^ kept.host))
    return [(says, changes) for says, changes, _ in rungs]


def _shardings(site: Site, given: Mapping[str, Any], sizes: Model | None, slices: int) -> Iterator[dict[str, Value]]:
    """Ways to lay the axes over a slice and over the slices. The axis that takes what is left is -1, so that the same
    values hold for every number of slices. A run that uses other axes (stages of a pipeline, say) keeps its own."""
    devices = devices_per_slice(site.run)
    others = (f"{kind}_{axis}_parallelism" for kind, varied in _VARIED.items() for axis in AXES if axis not in varied)
    if sizes is None or given.get("custom_mesh") or any(int(given.get(axis, 1)) != 1 for axis in others):
        yield {}
        return
    tensors = [t for t in _TENSOR if devices % t == 0 and sizes.kv_heads % t == 0 and sizes.vocab % t == 0]
    contexts = [c for c in _CONTEXT if c == 1 or _worth_context(given, c)]
    experts = [e for e in _divisors(sizes.experts) if devices % e == 0]
    for tensor, context, expert in itertools.product(tensors, contexts, experts):
        rest, left = divmod(devices, tensor * context * expert)
        if left:
            continue
        for data in _divisors(rest):
            within = {
                "data": data,
                "fsdp": -1 if rest // data > 1 else 1,
                "tensor": tensor,
                "context": context,
                "expert": expert,
            }
            for between in _between(site, slices):
                axes = _axes(within, between)
                yield {} if _same_mesh(site, axes) else axes


def _same_mesh(site: Site, axes: Mapping[str, Value]) -> bool:
    """Whether the run has this mesh already, on every number of slices, in other words (16 for -1)."""
    counts = range(site.run["slices"]["min"], site.run["slices"]["max"] + 1)
    changes = needed(site, axes)
    try:
        return all(site.mesh(Case.of(count, changes)) == site.mesh(Case(count)) for count in counts)
    except UnusableError:
        return False


def _between(site: Site, slices: int) -> Iterator[dict[str, int]]:
    """Axes between the slices: gradients are summed there (data), or weights are sharded over them too (fsdp)."""
    yield {"data": -1, "fsdp": 1}
    if slices == 1:
        return
    yield {"data": 1, "fsdp": -1}
    if site.run["elastic"]["enabled"]:
        return  # a fixed number would not hold on fewer slices
    for fsdp in _divisors(slices):
        if 1 < fsdp < slices:
            yield {"data": -1, "fsdp": fsdp}


def _axes(within: Mapping[str, int], between: Mapping[str, int]) -> dict[str, Value]:
    axes: dict[str, Value] = {}
    for axis in AXES:
        axes[f"ici_{axis}_parallelism"] = within.get(axis, 1)
        axes[f"dcn_{axis}_parallelism"] = between.get(axis, 1)
    return axes


def _batches(given: Mapping[str, Any]) -> Iterator[dict[str, Value]]:
    """Per-device batches at the same global batch, the largest first: what is not in a batch is accumulated."""
    per_device, accumulated = float(given["per_device_batch_size"]), int(given.get("gradient_accumulation_steps", 1))
    together = per_device * accumulated
    if per_device < 1 or together != int(together):
        yield {}
        return
    for size in reversed(_divisors(int(together))):
        times = int(together) // size
        yield {"per_device_batch_size": size, "gradient_accumulation_steps": times}


def _worth_context(given: Mapping[str, Any], size: int) -> bool:
    """Long sequences only: on short ones the same devices do more for FSDP. Its balanced halves need to divide it."""
    sequence = int(given["max_target_length"])
    return sequence >= 4096 * 2 * size and sequence % (2 * size) == 0


def _check_batch(where: Mesh, part: Batch, devices: int, tiles: int) -> None:
    sequences = part.per_device * devices
    if sequences <= 0:
        # MaxText compiles it without a word, with no sequence in the batch.
        raise UnusableError(f"per_device_batch_size={part.per_device:g}: it is more than 0.")
    shards = where.size(*_BATCH_AXES)
    if sequences != int(sequences) or int(sequences) % shards:
        raise UnusableError(
            f"per_device_batch_size={part.per_device:g} on {devices} devices are {sequences:g} sequences, which do not"
            f" divide over the {shards} shards of the batch (the axes data, fsdp, fsdp_transpose and expert)."
        )
    if tiles > 1 and part.tokens % tiles:
        raise UnusableError(f"num_vocab_tiling={tiles} does not divide the {part.tokens:g} tokens of a device's batch.")


def _named(sharding: Mapping[str, Value], split: Mapping[str, Value]) -> str:
    words = []
    for key, value in sharding.items():
        if value not in (None, 1):
            kind, axis = key.removesuffix("_parallelism").split("_", 1)
            words.append(f"{kind} {axis} {'all' if value == -1 else value}")
    if split:
        words.append(f"batch {split['per_device_batch_size']}")
        times = split["gradient_accumulation_steps"]
        words += [f"accumulated {times} times"] if times != 1 else []
    return " ".join(words) or "the sharding as it is"


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
