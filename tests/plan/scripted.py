"""A run, MaxText's configurations and a compiler for tests of the plan: the compiler's answers are given by a function,
its interface is the real one's."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from driver.errors import DriverError
from driver.plan.bounds import Speeds
from driver.plan.candidates import Site
from driver.plan.search import Search
from driver.plan.verdict import Answer, Case, Memory, Predictor, Refusal, StepTime
from tests import run_files

# The keys of MaxText 0.2.5's own files that are read, with its values.
BASE = """
model_name: default
decoder_block: llama2
global_parameter_scale: 1
weight_dtype: float32
dtype: bfloat16
grad_dtype: float32
mu_dtype: ""
opt_type: adamw
gradient_clipping_threshold: 1.0
base_emb_dim: 2048
base_num_query_heads: 16
base_num_kv_heads: 16
base_mlp_dim: 7168
base_moe_mlp_dim: 7168
base_num_decoder_layers: 16
head_dim: 128
mlp_activations: ["silu", "linear"]
vocab_size: 32_000
logits_via_embedding: false
num_experts: 1
num_experts_per_tok: 1
remat_policy: full
decoder_layer_input: device
query_proj: remat
scan_layers: true
param_scan_axis: 1
num_vocab_tiling: 1
per_device_batch_size: 12.0
gradient_accumulation_steps: 1
max_target_length: 2048
optimizer_memory_host_offload: false
parameter_memory_host_offload: false
shard_optimizer_over_data: false
dcn_data_parallelism: -1
ici_fsdp_parallelism: -1
ici_data_parallelism: 1
dcn_fsdp_parallelism: 1
ici_tensor_parallelism: 1
"""
LLAMA3_8B = """
base_emb_dim: 4096
base_num_query_heads: 32
base_num_kv_heads: 8
base_num_decoder_layers: 32
base_mlp_dim: 14336
head_dim: 128
vocab_size: 128256
decoder_block: llama2
"""
LLAMA3_70B = """
base_emb_dim: 8192
base_num_query_heads: 64
base_num_kv_heads: 8
base_num_decoder_layers: 80
base_mlp_dim: 28672
head_dim: 128
vocab_size: 128256
decoder_block: llama2
"""
MIXTRAL_8X7B = """
base_emb_dim: 4096
base_num_query_heads: 32
base_num_kv_heads: 8
base_mlp_dim: 14336
base_moe_mlp_dim: 14336
base_num_decoder_layers: 32
head_dim: 128
vocab_size: 32000
num_experts: 8
num_experts_per_tok: 2
decoder_block: mixtral
"""
SPEEDS = Speeds(tflops=900, ici=2e11, dcn=1e10, host=3e10)

type Script = Callable[[Case], Memory | Refusal]


def site(folder: Path, slices: int = 2, smallest: int | None = None, **maxtext: object) -> Site:
    """A run of v6e 4x4 slices; elastic where `smallest` is given."""
    models = folder / "configs" / "models"
    models.mkdir(parents=True, exist_ok=True)
    (models.parent / "base.yml").write_text(BASE)
    for name, text in (("llama3-8b", LLAMA3_8B), ("llama3-70b", LLAMA3_70B), ("mixtral-8x7b", MIXTRAL_8X7B)):
        (models / f"{name}.yml").write_text(text)
    run = run_files.content(
        slices={"min": smallest or slices, "max": slices}, elastic={"enabled": smallest is not None}
    )
    arguments = {"model_name": "llama3-8b", "per_device_batch_size": 4, "max_target_length": 4096, **maxtext}
    run["maxtext"] = {key: value for key, value in arguments.items() if value is not None}
    return Site(run, models.parent, SPEEDS)


def memory(total: float) -> Memory:
    return Memory(total, {"weights": total / 4, "optimizer state": total / 2, "activations and temporaries": total / 4})


class ScriptedCompiler:
    """Takes the next case when the last one is answered, as a machine of one core would.

    rejected: what the whole compilation refuses, whatever the script says of its memory: for memory, or as it says.
    """

    def __init__(
        self, script: Script, folder: Path, rejected: Callable[[Case], bool | Refusal] = lambda case: False
    ) -> None:
        self._script, self._folder, self._rejected = script, folder, rejected
        self.asked: list[Case] = []
        self.completed: list[Case] = []
        self.saved: Path | None = None

    def memory(self, cases: Iterable[Case]) -> Iterator[Answer]:
        for case in cases:
            self.asked.append(case)
            yield self._answer(case)

    def whole(self, cases: Iterable[Case], save: Path | None = None) -> Iterator[Answer]:
        self.saved = save
        for case in cases:
            self.completed.append(case)
            refusal = self._rejected(case)
            if refusal:
                out_of_memory = Refusal("memory", "Ran out of memory in memory space hbm")
                yield Answer(case, refusal=refusal if isinstance(refusal, Refusal) else out_of_memory)
            else:
                answer = self._answer(case)
                yield Answer(case, answer.memory, dump=self._folder, accepted=True)

    def doing(self) -> str:
        return ""

    def _answer(self, case: Case) -> Answer:
        said = self._script(case)
        return Answer(case, refusal=said) if isinstance(said, Refusal) else Answer(case, said, dump=self._folder)


class Second:
    """A predictor for which every step takes one second. unable: as verdict.Predictor has it."""

    def __init__(self, unable: str = "") -> None:
        self.unable = unable

    def __call__(self, case: Case, dump: Path) -> StepTime:
        return StepTime(1.0, {"compute": 0.75, "waiting for ICI": 0.25}, 2.0**30, 2.0**28)


second = Second()


class Untold(Second):
    """A predictor that knows no time."""

    def __call__(self, case: Case, dump: Path) -> StepTime:
        raise DriverError("The speed of PCIe is not known.")


class _Timed(Second):
    def __init__(self, compiler: ScriptedCompiler, seconds: Callable[[Case], float]) -> None:
        super().__init__()
        self._compiler, self._seconds = compiler, seconds

    def __call__(self, case: Case, dump: Path) -> StepTime:
        whole = case in self._compiler.completed
        return StepTime(self._seconds(case) * (1 if whole else 0.8), {}, generated=whole)


def timed(compiler: ScriptedCompiler, seconds: Callable[[Case], float]) -> Predictor:
    """Of a whole compilation these seconds, of the schedule 0.8 of them."""
    return _Timed(compiler, seconds)


def batch(case: Case) -> float:
    """A time in which smaller batches take longer, and no two candidates are alike."""
    own = zlib.crc32(repr(case.changes).encode()) % 1000 / 1e4
    return 10 / float(dict(case.changes).get("per_device_batch_size") or 4) + own


def _fits(answer: Answer) -> bool:
    return answer.memory is not None and answer.memory.total <= 31


def searched(
    here: Site,
    compiler: ScriptedCompiler,
    counts: Sequence[int] = (2,),
    limit: int = 60,
    predictor: Predictor = second,
    **more: Any,
) -> Search:
    """A search whose memory is known; up to 31 GiB fit."""
    search = Search(here, counts, compiler, _fits, predictor, limit=limit, **more)
    search.memory()
    return search
