"""Tensors of attention: grouped heads, latent heads, and DeepSeek-V4's compressed keys. Pure.

Rows and columns are those of the model classes of transformers 5.23; indexers are those of vLLM 0.33.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.memory.shapes.layer_plan import Layer
from gb10.models.memory.shapes.tensor import Tensor, linear, plain
from gb10.models.model_config import mapping_in

GATED = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen4_exp")
"""Families whose query projection has a gate of its own size."""
BIASED = ("gpt_oss", "qwen2", "qwen2_moe")


HEAD_GATED = ("step3p5", "step3p7")
"""Families that have a gate of one number for each query head."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Query heads, key heads, and columns of a key and of a value."""

    queries: int
    keys: int
    key: int
    value: int


def head_sizes(fields: Fields, layer: Layer) -> Heads:
    """The heads of a layer; Gemma 4 has others in its layers of full attention, MiMo and Step in those of a window."""
    heads, keys, key = fields.heads, fields.kv_heads, fields.head_size
    if layer.mixer == "full" and fields.kind.startswith("gemma4"):
        keys = fields.number("num_global_key_value_heads", default=keys, largest=4096) or keys
        key = fields.number("global_head_dim", default=key) or key
        return Heads(heads, keys, key, key)
    value = fields.number("v_head_dim", default=key)
    if layer.mixer != "window" or fields.kind not in ("mimo_v2_flash", "step3p5", "step3p7"):
        return Heads(heads, keys, key, value)
    other = Fields(mapping_in(fields.text, "attention_other_setting"))
    heads = fields.number(
        "swa_num_attention_heads",
        "num_sliding_attention_heads",
        default=other.number("num_attention_heads", default=heads, largest=4096),
        largest=4096,
    )
    keys = fields.number(
        "swa_num_key_value_heads",
        default=other.number("num_attention_groups", default=keys, largest=4096),
        largest=4096,
    )
    key = fields.number("swa_head_dim", default=key)
    return Heads(heads, keys, key, fields.number("swa_v_head_dim", default=value))


def cache_heads(fields: Fields, layer: Layer) -> tuple[int, int, int]:
    """Key heads in the cache, and columns of a key and of a value."""
    heads = head_sizes(fields, layer)
    return heads.keys, heads.key, heads.value


def grouped(fields: Fields, layer: Layer, at: str) -> Iterator[Tensor]:
    """Query, key, value and output projections. Gemma 4 can use its keys as values."""
    found, hidden = head_sizes(fields, layer), fields.hidden
    gate = 2 if fields.flag("attn_output_gate", default=fields.kind in GATED) else 1
    yield linear(f"{at}.q_proj", hidden, found.queries * found.key * gate)
    yield linear(f"{at}.k_proj", hidden, found.keys * found.key)
    if not (fields.flag("attention_k_eq_v") and layer.mixer == "full"):
        yield linear(f"{at}.v_proj", hidden, found.keys * found.value)
    yield linear(f"{at}.o_proj", found.queries * found.value, hidden)
    if fields.kind in HEAD_GATED and fields.flag("use_head_wise_attn_gate", default=True):
        yield linear(f"{at}.g_proj", hidden, found.queries)
    if fields.flag("attention_bias", default=fields.kind in BIASED):
        yield plain(f"{at}.qkv_bias", found.queries * found.key + found.keys * (found.key + found.value))
    if "sparse_attention_config" in fields.text and layer.feed != "dense":
        yield from _block_indexer(fields, at)


def _block_indexer(fields: Fields, at: str) -> Iterator[Tensor]:
    """MiniMax-M3's choice of blocks."""
    chosen = Fields(fields.text["sparse_attention_config"])
    size = chosen.number("sparse_index_dim")
    yield linear(f"{at}.index_q_proj", fields.hidden, chosen.number("sparse_num_index_heads") * size)
    yield linear(f"{at}.index_k_proj", fields.hidden, size)


def latent(fields: Fields, at: str) -> Iterator[Tensor]:
    """Multi-head latent attention (DeepSeek-V2 and later), with the indexer of sparse attention."""
    hidden, heads, kept = fields.hidden, fields.heads, fields.number("kv_lora_rank")
    rope, rest = fields.number("qk_rope_head_dim", default=0), fields.number("qk_nope_head_dim")
    value, query = fields.number("v_head_dim"), fields.number("q_lora_rank", default=0)
    if query:
        yield linear(f"{at}.q_a_proj", hidden, query)
    yield linear(f"{at}.q_b_proj" if query else f"{at}.q_proj", query or hidden, heads * (rope + rest))
    yield linear(f"{at}.kv_a_proj_with_mqa", hidden, kept + rope)
    yield linear(f"{at}.kv_b_proj", kept, heads * (rest + value))
    yield linear(f"{at}.o_proj", heads * value, hidden)
    if fields.flag("mla_use_output_gate"):
        yield linear(f"{at}.g_proj", hidden, heads * value)
    if fields.text.get("index_topk") is not None and query:
        size, count = fields.number("index_head_dim"), fields.number("index_n_heads")
        yield linear(f"{at}.indexer.wq_b", query, count * size)
        yield linear(f"{at}.indexer.wk", hidden, size)
        yield linear(f"{at}.indexer.weights_proj", hidden, count)


def compressed(fields: Fields, layer: Layer, at: str) -> Iterator[Tensor]:
    """DeepSeek-V4: one latent head, an output in groups, and a compressor by the layer's ratio."""
    hidden, heads, size = fields.hidden, fields.heads, fields.head_size
    query, groups, out = fields.number("q_lora_rank"), fields.number("o_groups"), fields.number("o_lora_rank")
    yield linear(f"{at}.wq_a", hidden, query)
    yield linear(f"{at}.wq_b", query, heads * size)
    yield linear(f"{at}.wkv", hidden, size)
    yield linear(f"{at}.wo_a", heads * size // groups, groups * out)
    yield linear(f"{at}.wo_b", groups * out, hidden)
    ratio = ratio_of(fields, layer)
    if ratio:
        yield from _compressor(f"{at}.compressor", hidden, size, ratio)
    if ratio == 4:
        small, count = fields.number("index_head_dim"), fields.number("index_n_heads")
        yield from _compressor(f"{at}.indexer.compressor", hidden, small, ratio)
        yield linear(f"{at}.indexer.wq_b", query, count * small)
        yield plain(f"{at}.indexer.weights_proj", count, hidden)


def ratio_of(fields: Fields, layer: Layer) -> int:
    """Tokens that a layer keeps as one; 0: only the window. The low ratio overlaps, so it keeps two halves."""
    ratios = fields.entries("compress_ratios")
    found = ratios[layer.number] if layer.number < len(ratios) else 0
    return found if isinstance(found, int) and 0 < found <= 4096 else 0


def _compressor(at: str, hidden: int, size: int, ratio: int) -> Iterator[Tensor]:
    halves = 2 if ratio == 4 else 1
    yield plain(f"{at}.wkv", halves * size, hidden)
    yield plain(f"{at}.wgate", halves * size, hidden)
    yield plain(f"{at}.ape", ratio, halves * size, width=4)
