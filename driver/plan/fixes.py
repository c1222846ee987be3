"""Single changes that may make a configuration fit, and which of them the compiler says do.

A change is one decision in the user's terms, though it may set two arguments: half of the batch accumulated twice
keeps the global batch. Those that change what is trained, or what a checkpoint looks like, say so.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driver.errors import DriverError
from driver.plan import remat
from driver.plan.bounds import UnusableError
from driver.plan.candidates import Site, check_new, needed
from driver.plan.verdict import Answer, Case, Compiler, Predictor, Value, usable_gib

_ARITHMETIC = "changes the arithmetic of the training"
_CHECKPOINTS = "checkpoints of the run as it is cannot be read with it"
_TILES = 8


@dataclass(frozen=True)
class Fix:
    """One change. warns: what else it changes, empty for nothing but time and memory."""

    says: str
    changes: tuple[tuple[str, Value], ...]
    warns: str = ""

    def case(self, given: Case) -> Case:
        return Case.of(given.slices, {**dict(given.changes), **dict(self.changes)})


@dataclass(frozen=True)
class Tried:
    """A fix with the answers of the compiler, one for each number of slices, and what it is ordered by: the seconds of
    its schedule where they are known, and a rough time."""

    fix: Fix
    answers: tuple[Answer, ...]
    order: tuple[float, tuple[float, float]]


def proposals(site: Site, given: Case) -> list[Fix]:
    """The single changes that are worth a compilation for this configuration."""
    config = site.config(given)
    return [
        Fix(says, tuple(sorted(changes.items())), warns)
        for says, changed, warns in _all(config, given.slices)
        if (changes := needed(site, changed))
    ]


def verified(
    site: Site,
    given: Case,
    counts: Sequence[int],
    compiler: Compiler,
    fits: Callable[[Answer], bool],
    predictor: Predictor,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> list[Tried]:
    """The proposals that fit on every one of these numbers of slices, each compiled, the fastest by its schedule first.

    tell: hears how many compilations are done, and how many there are.
    """
    tried = {
        fix: _rough(site, fix.case(given)) for fix in proposals(site, given) if _possible(site, fix, given, counts)
    }
    owners = {fix.case(given).on(count): fix for fix in tried for count in counts}
    answers: dict[Fix, list[Answer]] = {fix: [] for fix in tried}
    for done, answer in enumerate(compiler.memory(list(owners)), 1):
        answers[owners[answer.case]].append(answer)
        tell(done, len(owners))
    fitting = []
    for fix, got in answers.items():
        if len(got) == len(counts) and all(map(fits, got)):
            in_order = tuple(sorted(got, key=lambda answer: answer.case.slices))
            fitting.append(Tried(fix, in_order, (_seconds(in_order[-1], predictor), tried[fix])))
    # What changes the training comes after what does not, however fast it is.
    return sorted(fitting, key=lambda one: (one.fix.warns == _ARITHMETIC, one.order))


def _all(config: Mapping[str, Any], slices: int) -> Iterator[tuple[str, Mapping[str, Value], str]]:
    yield from _batch(config)
    kept = remat.kept_names(config)
    for says, changes in remat.LADDER:
        after = remat.kept_names({**config, **{key: value or "remat" for key, value in changes.items()}})
        if after.device < kept.device or (after.device == kept.device and after.host < kept.host):
            yield says, changes, ""
    yield from _sharding(config, slices)
    yield "the optimizer's state on the host", {"optimizer_memory_host_offload": True}, ""
    on_host: dict[str, Value] = {"parameter_memory_host_offload": True, "param_scan_axis": 0}
    yield "the weights on the host", on_host, "" if config.get("param_scan_axis", 1) == 0 else _CHECKPOINTS
    tiles = int(config.get("num_vocab_tiling", 1))
    if tiles < _TILES:
        yield f"the loss in {_TILES} parts", {"num_vocab_tiling": _TILES}, ""
    yield "the layers as the weights' first axis", {"param_scan_axis": 0}, _CHECKPOINTS
    if config.get("weight_dtype", "float32") == "float32":
        # mu follows the weights' type where it has none of its own.
        yield "weights and moments in bfloat16", {"weight_dtype": "bfloat16"}, _ARITHMETIC
        if (config.get("mu_dtype") or "float32") == "float32":
            yield "Adam's first moment in bfloat16", {"mu_dtype": "bfloat16"}, _ARITHMETIC
    if config.get("grad_dtype", "float32") == "float32":
        yield "gradients in bfloat16", {"grad_dtype": "bfloat16"}, _ARITHMETIC


def _batch(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Value], str]]:
    per_device, times = float(config["per_device_batch_size"]), int(config.get("gradient_accumulation_steps", 1))
    if per_device != int(per_device):
        return
    for parts in range(2, int(per_device) + 1):
        if int(per_device) % parts == 0:
            size = int(per_device) // parts
            changes: dict[str, Value] = {"per_device_batch_size": size, "gradient_accumulation_steps": times * parts}
            yield f"batches of {size}, accumulated {times * parts} times", changes, ""


def _sharding(config: Mapping[str, Any], slices: int) -> Iterator[tuple[str, Mapping[str, Value], str]]:
    tensor = int(config.get("ici_tensor_parallelism", 1))
    if tensor > 1:
        changes: dict[str, Value] = {"ici_tensor_parallelism": 1, "ici_fsdp_parallelism": -1}
        yield "FSDP in place of tensor parallelism", changes, ""
    elif int(config.get("base_num_kv_heads", 1)) % 4 == 0:
        yield (
            "tensor parallelism over 4 chips",
            {"ici_tensor_parallelism": 4, "ici_fsdp_parallelism": -1, "ici_data_parallelism": 1},
            "",
        )
    if int(config.get("ici_data_parallelism", 1)) != 1:
        yield (
            "FSDP in place of data parallelism within a slice",
            {"ici_data_parallelism": 1, "ici_fsdp_parallelism": -1},
            "",
        )
    if slices > 1 and int(config.get("dcn_fsdp_parallelism", 1)) == 1:
        yield (
            "weights sharded over the slices too",
            {"dcn_data_parallelism": 1, "dcn_fsdp_parallelism": -1},
            "",
        )


def _possible(site: Site, fix: Fix, given: Case, counts: Sequence[int]) -> bool:
    """Whether MaxText takes it on every number of slices, and no bound speaks against it."""
    case = fix.case(given)
    try:
        for count in counts:
            check_new(site, case.on(count))
            if site.bound_gib(case.on(count)) > usable_gib(site.run):
                return False
    except UnusableError:
        return False
    return True


def _seconds(answer: Answer, predictor: Predictor) -> float:
    """Of a step, by its schedule; infinite where it tells none."""
    try:
        return float("inf") if answer.dump is None else predictor(answer.case, answer.dump).seconds
    except DriverError:
        return float("inf")  # the plan says why: it asks again


def _rough(site: Site, case: Case) -> tuple[float, float]:
    try:
        return site.rough(case)
    except UnusableError:
        return float("inf"), float("inf")
