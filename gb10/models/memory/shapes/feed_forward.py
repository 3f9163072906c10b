"""Tensors behind the mixer: dense layers, routed and shared experts. Pure."""

from collections.abc import Iterator
from typing import Final

from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.memory.shapes.layer_plan import Layer
from gb10.models.memory.shapes.tensor import Tensor, linear, plain

BLOCK_SPARSE: Final = ("mixtral", "minimax_m2", "minimax_m3", "minimax_m3_vl")
"""Families that keep their experts under ``block_sparse_moe``."""
TWO_MATRICES: Final = ("nemotron_h",)
"""Families whose feed-forward has no gate."""
PLAIN_NAMES: Final = ("gate_proj", "up_proj", "down_proj")
BLOCK_NAMES: Final = ("w1", "w3", "w2")
"""Names of an expert's matrices in the families of BLOCK_SPARSE."""


def feed_forward(fields: Fields, layer: Layer, at: str) -> Iterator[Tensor]:
    """The tensors of a layer's feed-forward; ``at`` is the layer."""
    if layer.feed in ("dense", "both"):
        size = fields.number("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size")
        yield from _matrices(fields, f"{at}.{_below(fields, 'mlp')}", fields.hidden, size)
    if layer.feed in ("experts", "both"):
        yield from _experts(fields, at)


def expert_size(fields: Fields) -> int:
    """The inner width of a routed expert."""
    return fields.number("moe_intermediate_size", "intermediate_size")


def latent_size(fields: Fields) -> int:
    """Columns that routed experts read, where they are fewer than the hidden state's; else 0."""
    return fields.number("moe_latent_size", "routed_expert_hidden_size", default=0)


def shared_size(fields: Fields) -> int:
    """The inner width of all shared experts of a layer; 0 without any."""
    names = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")
    given = fields.number(*names, "share_expert_dim", default=expert_size(fields) if fields.kind == "llama4" else 0)
    return given or fields.number("n_shared_experts", "num_shared_experts", default=0, largest=64) * expert_size(fields)


def _experts(fields: Fields, at: str) -> Iterator[Tensor]:
    place = _below(fields, "block_sparse_moe" if fields.kind in BLOCK_SPARSE else "mlp")
    count, size, inner = fields.experts, expert_size(fields), latent_size(fields)
    width = inner or fields.hidden
    experts = f"{at}.experts" if fields.kind.startswith("gemma") else f"{at}.{place}.experts"
    names = BLOCK_NAMES if fields.kind in BLOCK_SPARSE else PLAIN_NAMES
    yield from _matrices(fields, f"{experts}.*", width, size, copies=count, names=names)
    yield plain(f"{at}.router" if fields.kind.startswith("gemma") else f"{at}.{place}.gate", count, fields.hidden)
    if fields.kind == "gpt_oss":
        yield plain(f"{experts}.*.bias", 2 * size + fields.hidden, copies=count)
    if inner:
        yield linear(f"{at}.{place}.fc1_latent_proj", fields.hidden, inner)
        yield linear(f"{at}.{place}.fc2_latent_proj", inner, fields.hidden)
    shared = shared_size(fields)
    if shared:
        one = "shared_expert" if fields.kind.startswith("qwen") else "shared_experts"
        yield from _matrices(fields, f"{at}.{place}.{one}", fields.hidden, shared)
    if shared and fields.kind.startswith("qwen"):
        yield linear(f"{at}.{place}.shared_expert_gate", fields.hidden, 1)


def _matrices(
    fields: Fields, at: str, hidden: int, size: int, *, copies: int = 1, names: tuple[str, str, str] = PLAIN_NAMES
) -> Iterator[Tensor]:
    gate, up, down = names
    if fields.kind not in TWO_MATRICES:
        yield linear(f"{at}.{gate}", hidden, size, copies=copies)
    yield linear(f"{at}.{up}", hidden, size, copies=copies)
    yield linear(f"{at}.{down}", size, hidden, copies=copies)


def _below(fields: Fields, name: str) -> str:
    """The name of a layer's feed-forward in the model file."""
    return {"nemotron_h": "mixer", "deepseek_v4": "ffn"}.get(fields.kind, name)
