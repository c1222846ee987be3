"""What each of MaxText's remat policies keeps of a layer for the backward pass, on the device or on the host.

MaxText 0.2.5: layers/nnx_decoders.py, get_remat_policy; configs/types.py, tensors_on_device and tensors_to_offload.
The input of a layer is always kept: where nothing else is, everything is computed again from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

INPUT = "decoder_layer_input"
QKV = ("query_proj", "key_proj", "value_proj")
MLP_IN = ("mlpwi_0", "mlpwi_1")
CUSTOM = (INPUT, *QKV, "context", "out_proj", *MLP_IN, "mlpwo")
"""The arguments of remat_policy=custom that name a tensor of a Llama's or Mixtral's layer."""
_OTHERS = (
    "mlpwi", "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo", "moe_x_sorted", "moe_routing_maps", "kv_proj", "qkv_proj",
    "attention_out",
)  # fmt: skip
LOCATIONS = (*CUSTOM, *_OTHERS)
"""Every argument that such a layer could be told a place by."""

_DOTS = (*QKV, "out_proj", *MLP_IN)
_ON_DEVICE = {
    "full": (),
    "save_out_proj": ("out_proj",),
    "save_qkv_proj": QKV,
    "save_dot_except_mlp": (*QKV, "out_proj"),
    "save_dot_with_context_except_mlp": (*QKV, "context", "out_proj"),
    "save_dot_except_mlpwi": (*QKV, "out_proj"),
    "minimal": _DOTS,
    "minimal_with_context": (*_DOTS, "context"),
}
_ON_HOST = {"qkv_proj_offloaded": QKV, "minimal_offloaded": _DOTS}
POLICIES = (*_ON_DEVICE, *_ON_HOST)


class _Sizes(Protocol):
    @property
    def emb(self) -> int: ...
    @property
    def query_heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def mlp(self) -> int: ...
    @property
    def experts(self) -> int: ...


@dataclass(frozen=True)
class Kept:
    """Names of a layer's tensors."""

    device: frozenset[str]
    host: frozenset[str] = frozenset()


def kept_names(config: Mapping[str, Any]) -> Kept:
    """What the configuration keeps of each layer. A policy that is not known here keeps the layer's input.

    The product out of the MLP ("mlpwo") is none of it, though policies name it: nothing in the backward pass needs it,
    so JAX keeps no copy, and the compiler's report has none.
    """
    policy = str(config.get("remat_policy", "full"))
    if policy == "custom":
        places = {name: str(config.get(name, "remat")) for name in CUSTOM if name != "mlpwo"}
        host = frozenset(name for name, place in places.items() if place == "offload")
        device = frozenset(name for name, place in places.items() if place == "device")
        return Kept(device if INPUT in host else device | {INPUT}, host)
    return Kept(frozenset({INPUT, *_ON_DEVICE.get(policy, ())}), frozenset(_ON_HOST.get(policy, ())))


def is_known(config: Mapping[str, Any]) -> bool:
    """Whether kept_names() is all that the configuration keeps, and not the least of it."""
    policy = str(config.get("remat_policy", "full"))
    if policy == "custom":
        return all(str(config.get(name, "remat")) == "remat" for name in _OTHERS)
    return policy in POLICIES


def kept_elements(sizes: _Sizes, names: frozenset[str]) -> int:
    """Elements of these tensors for one token of one layer. The MLP of a mixture of experts is not counted: how many
    copies of a token it has depends on its kernel."""
    elements = {
        INPUT: sizes.emb,
        "query_proj": sizes.query_heads * sizes.head_dim,
        "key_proj": sizes.kv_heads * sizes.head_dim,
        "value_proj": sizes.kv_heads * sizes.head_dim,
        "context": sizes.query_heads * sizes.head_dim,
        "out_proj": sizes.emb,
    }
    if sizes.experts == 1:
        elements |= {"mlpwi_0": sizes.mlp, "mlpwi_1": sizes.mlp}
    return sum(elements.get(name, 0) for name in names)


def recomputed_parts(kept: Kept) -> frozenset[str]:
    """The parts of a layer's forward pass that the backward pass does again, and all of each: "qkv", "context", "out",
    "mlp_in". The product out of the MLP is not among them: nothing in the layer's backward pass needs its result."""
    there = kept.device | kept.host
    parts = {"qkv": QKV, "context": ("context",), "out": ("out_proj",), "mlp_in": MLP_IN}
    return frozenset(part for part, names in parts.items() if there.isdisjoint(names))


def policy(name: str) -> dict[str, str | None]:
    """The changes that set a policy by name. What `custom` was told by hand is taken away, because it would be read by
    people and ignored by MaxText."""
    return {"remat_policy": name, **dict.fromkeys(LOCATIONS, None)}


def custom(*, device: tuple[str, ...] = (), host: tuple[str, ...] = ()) -> dict[str, str | None]:
    """The changes that keep exactly these; the layer's input is on the device unless it is among `host`."""
    places = dict.fromkeys(device, "device") | dict.fromkeys(host, "offload")
    return {"remat_policy": "custom", **dict.fromkeys(LOCATIONS, None), **places}


LADDER: tuple[tuple[str, Mapping[str, str | None]], ...] = (
    ("keep every product and the attention's result", policy("minimal_with_context")),
    ("keep every product", policy("minimal")),
    ("keep the attention's products and result", policy("save_dot_with_context_except_mlp")),
    ("keep the attention's products", policy("save_dot_except_mlp")),
    ("keep query, key and value", policy("save_qkv_proj")),
    ("keep the attention's output projection", policy("save_out_proj")),
    ("keep the layers' inputs alone", policy("full")),
    ("offload query, key and value", policy("qkv_proj_offloaded")),
    ("offload every product", policy("minimal_offloaded")),
    ("offload the layers' inputs", custom(host=(INPUT,))),
    ("offload the layers' inputs, keep query, key and value", custom(host=(INPUT,), device=QKV)),
    ("offload the layers' inputs, query, key and value", custom(host=(INPUT, *QKV))),
    ("offload the layers' inputs and the attention's products", custom(host=(INPUT, *QKV, "out_proj"))),
    (
        "offload the layers' inputs and the attention's products, keep its result",
        custom(host=(INPUT, *QKV, "out_proj"), device=("context",)),
    ),
    ("keep the layers' inputs, offload the attention's products", custom(host=(*QKV, "out_proj"))),
)
"""What a search tries, in words and as changes."""
