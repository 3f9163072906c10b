"""Tensors of a model's layers: attention, feed-forward, mixers with a state, encoders for pictures. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gb10.models.memory.shapes.config_fields import COMPRESSED, Fields, Layer, mapping_in, other, word_in


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """``name`` has ``*`` for the number of an expert, of which there are ``copies``. A vector has one column.

    ``linear`` is a projection that quantization may change. ``width`` is the bytes of an element otherwise, where
    they are not those of the model's type.
    """

    name: str
    rows: int
    columns: int = 1
    copies: int = 1
    linear: bool = False
    width: int | None = None

    @property
    def elements(self) -> int:
        """Numbers in all copies."""
        return self.rows * self.columns * self.copies


def linear(name: str, columns: int, rows: int, *, copies: int = 1) -> Tensor:
    """A projection from ``columns`` to ``rows``."""
    return Tensor(name=name, rows=rows, columns=columns, copies=copies, linear=True)


def plain(name: str, rows: int, columns: int = 1, *, copies: int = 1, width: int | None = None) -> Tensor:
    """A tensor that keeps its type."""
    return Tensor(name=name, rows=rows, columns=columns, copies=copies, width=width)


GATED = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen4_exp")
"""Families whose query projection has a gate of its own size."""
BIASED = ("gpt_oss", "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl")
OUTPUT_GATED = ("afmoe",)
"""Families that have a gate of the width of the query heads."""


HEAD_GATED = ("step3p5", "step3p7", "laguna")
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
    each = fields.entries("num_attention_heads_per_layer")
    if layer.number < len(each) and isinstance(each[layer.number], int):  # Laguna
        heads = min(max(each[layer.number], 1), 4096)
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


def grouped(fields: Fields, layer: Layer, at: str) -> Iterator[Tensor]:
    """Query, key, value and output projections. Gemma 4 can use its keys as values."""
    found, hidden = head_sizes(fields, layer), fields.hidden
    gate = 2 if fields.flag("attn_output_gate", default=fields.kind in GATED) else 1
    yield linear(f"{at}.q_proj", hidden, found.queries * found.key * gate)
    yield linear(f"{at}.k_proj", hidden, found.keys * found.key)
    if not (fields.flag("attention_k_eq_v") and layer.mixer == "full"):
        yield linear(f"{at}.v_proj", hidden, found.keys * found.value)
    yield linear(f"{at}.o_proj", found.queries * found.value, hidden)
    if fields.kind in OUTPUT_GATED:
        yield linear(f"{at}.gate_proj", hidden, found.queries * found.key)
    if fields.kind in HEAD_GATED and fields.flag("use_head_wise_attn_gate", default=True):
        yield linear(f"{at}.g_proj", hidden, found.queries)
    if fields.flag("attention_bias", default=fields.kind in BIASED):
        yield plain(f"{at}.qkv_bias", found.queries * found.key + found.keys * (found.key + found.value))
    if "sparse_attention_config" in fields.text and layer.feed != "dense":
        # MiniMax-M3 chooses blocks.
        chosen = Fields(mapping_in(fields.text, "sparse_attention_config"))
        size = chosen.number("sparse_index_dim")
        yield linear(f"{at}.index_q_proj", fields.hidden, chosen.number("sparse_num_index_heads") * size)
        yield linear(f"{at}.index_k_proj", fields.hidden, size)
    if fields.kind == "qwen4_exp":
        indexes = fields.number("indexer_n_heads", largest=4096) + fields.number("indexer_kv_heads", largest=4096)
        yield linear(f"{at}.indexer.index_qk_proj", hidden, indexes * fields.number("indexer_head_dim"))


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
    gate = word_in(fields.text, "gated_attention_proj_granularity_type")  # Ling's, one number of each head or of each
    if fields.flag("mla_use_output_gate") or gate:
        yield linear(f"{at}.g_proj", hidden, heads if gate == "head_wise" else heads * value)
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
    if fields.kind == "deepseek_v41":
        yield from _shared_compressor(fields, layer, at, ratio)
        return
    if ratio:
        yield from _compressor(f"{at}.compressor", hidden, size, ratio)
    if ratio == 4:
        small, count = fields.number("index_head_dim"), fields.number("index_n_heads")
        yield from _compressor(f"{at}.indexer.compressor", hidden, small, ratio)
        yield linear(f"{at}.indexer.wq_b", query, count * small)
        yield plain(f"{at}.indexer.weights_proj", count, hidden)


def ratio_of(fields: Fields, layer: Layer) -> int:
    """Tokens that a layer keeps as one; 0: only the window. The low ratio of V4 overlaps, so it keeps two halves.

    In DeepSeek-V4.1 four layers keep tokens, and the others read theirs.
    """
    if fields.kind == "deepseek_v41" and layer.number not in fields.entries("kv_source_layer_ids"):
        return 0
    ratios = fields.entries("compress_ratios")
    found = ratios[layer.number] if layer.number < len(ratios) else 0
    return found if isinstance(found, int) and 0 < found <= 4096 else 0


def _compressor(at: str, hidden: int, size: int, ratio: int) -> Iterator[Tensor]:
    halves = 2 if ratio == 4 else 1
    yield plain(f"{at}.wkv", halves * size, hidden)
    yield plain(f"{at}.wgate", halves * size, hidden)
    yield plain(f"{at}.ape", ratio, halves * size, width=4)


def _shared_compressor(fields: Fields, layer: Layer, at: str, ratio: int) -> Iterator[Tensor]:
    """DeepSeek-V4.1: a compressor where tokens are kept, with a gate where several become one; and the indexer."""
    size, small, count = fields.head_size, fields.number("index_head_dim"), fields.number("index_n_heads")
    if ratio:
        yield plain(f"{at}.compressor.wkv", (2 if ratio > 1 else 1) * size, fields.hidden)
        yield plain(f"{at}.indexer.wk", small, size)
    if layer.number in fields.entries("index_source_layer_ids"):
        yield linear(f"{at}.indexer.wq_b", fields.number("q_lora_rank"), count * small)
        yield plain(f"{at}.indexer.weights_proj", count, fields.hidden)


def ngrams(fields: Fields, layer: Layer, at: str) -> Iterator[Tensor]:
    """The table of n-grams of a layer that has one, and the projections of what is looked up.

    DeepSeek-V4.1 calls it engram: rows in FP8 with a scale of a byte for 32 columns. Qwen4 counts its layers from one;
    both of its quantized files keep the table in FP8 (47.7 GiB: sgl-project/sglang#37995).
    """
    hidden, streams = fields.hidden, fields.number("hc_mult", "hc_count", default=1, largest=64)
    tables = fields.entries("engram_layer_ids")
    if layer.number in tables:
        rows = fields.entries("engram_num_embeddings")
        count = Fields({"rows": rows[tables.index(layer.number)] if len(rows) == len(tables) else None})
        size, looked = fields.number("engram_head_dim"), fields.number("engram_n_heads", largest=4096)
        yield plain(f"{at}.engram.embed", count.number("rows", largest=MOST_ROWS), size + -(-size // 32), width=1)
        inner = size * looked * (fields.number("engram_max_ngram_size", largest=64) - 1)
        yield linear(f"{at}.engram.wkv", inner, (streams + 1) * hidden)
    if layer.number + 1 in fields.entries("ple_layer_ids"):
        inner = fields.number("ple_embed_dim")
        heads = fields.number("heads_per_ngram", largest=4096) * (fields.number("ngram_size", largest=64) - 1)
        rows_of_all = fields.number("ngram_vocab_size_base", largest=MOST_ROWS) * heads
        width = 1 if fields.config.get("quantization_config") else None
        yield plain(f"{at}.ple.ngram_embedding", rows_of_all, inner // max(heads, 1), width=width)
        yield linear(f"{at}.ple.key_proj", inner, streams * hidden)
        yield linear(f"{at}.ple.value_proj", inner, hidden)


def streams_of(fields: Fields, at: str) -> Iterator[Tensor]:
    """What mixes the residual streams around attention and feed-forward, where a model has several."""
    if fields.kind in (*COMPRESSED, "glm5_next"):  # in FP32: (2 + streams) x streams rows for each of two
        streams = fields.number("hc_mult", largest=64)
        yield plain(f"{at}.hc_fn", 2 * (2 + streams) * streams, streams * fields.hidden, width=4)
    if fields.kind == "qwen4_exp":  # down, up, and what goes back into each stream
        streams = fields.number("hc_count", largest=64)
        rows = 2 * fields.number("hc_lowrank") + streams
        yield plain(f"{at}.hc_mix", 2 * rows, streams * fields.hidden)


MOST_TIMES: Final = 64
"""Of a factor of a width."""
MOST_ROWS: Final = 1 << 34
"""Rows of a table of n-grams."""
BLOCK_SPARSE: Final = ("mixtral", "minimax_m2", "minimax_m3", "minimax_m3_vl")
"""Families that keep their experts under ``block_sparse_moe``."""
SHARED_SIZES: Final = (
    *("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"),
    "share_expert_dim",
)
TWO_MATRICES: Final = ("nemotron_h", "apertus", "arcee", "starcoder2")
"""Families whose feed-forward has no gate."""
PLAIN_NAMES: Final = ("gate_proj", "up_proj", "down_proj")
BLOCK_NAMES: Final = ("w1", "w3", "w2")
"""Names of an expert's matrices in the families of BLOCK_SPARSE."""


def feed_forward(fields: Fields, layer: Layer, at: str) -> Iterator[Tensor]:
    """The tensors of a layer's feed-forward; ``at`` is the layer."""
    if layer.feed in ("dense", "both"):
        sizes: tuple[str, ...] = ("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size")
        if fields.kind == "granitemoehybrid":
            sizes = ("shared_intermediate_size",)
        elif fields.kind == "lfm2":
            sizes = ("block_ff_dim", *sizes)
        size = fields.number(*sizes)
        if fields.kind == "lfm2" and fields.flag("block_auto_adjust_ff_dim", default=True):
            # Two thirds, times a factor, in whole blocks (transformers 5.19.0, modeling_lfm2.py).
            block = fields.number("block_multiple_of", default=256) or 1
            factor = fields.text.get("block_ffn_dim_multiplier") or 1.0
            if not isinstance(factor, int | float) or not 0 < factor <= MOST_TIMES:
                raise other("block_ffn_dim_multiplier", factor, f"a number up to {MOST_TIMES}")
            size = -(-int(factor * (2 * size // 3)) // block) * block
        if fields.flag("use_double_wide_mlp") and fields.shares_cache(layer.number):
            size *= 2
        yield from _matrices(fields, f"{at}.{_below(fields, 'mlp')}", fields.hidden, size)
    if layer.feed in ("experts", "both"):
        yield from _experts(fields, at)


def expert_size(fields: Fields) -> int:
    """The inner width of a routed expert."""
    return fields.number("moe_intermediate_size", "intermediate_size")


def latent_size(fields: Fields) -> int:
    """Columns that routed experts read, where they are fewer than the hidden state's; else 0."""
    return fields.number("moe_latent_size", "routed_expert_hidden_size", default=0)


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
    # The inner width of all shared experts of a layer; 0 without any.
    shared = fields.number(*SHARED_SIZES, default=size if fields.kind == "llama4" else 0)
    shared = (
        shared
        or fields.number("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0, largest=64)
        * size
    )
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
    return {"nemotron_h": "mixer", **dict.fromkeys(COMPRESSED, "ffn")}.get(fields.kind, name)


def delta(fields: Fields, at: str) -> Iterator[Tensor]:
    """A gated delta network. Qwen3-Next has two input projections, Qwen3.5 four; the numbers are the same."""
    heads, keys = fields.number("linear_num_value_heads"), fields.number("linear_num_key_heads")
    key, value = fields.number("linear_key_head_dim"), fields.number("linear_value_head_dim")
    mixed = 2 * keys * key + heads * value
    if fields.kind == "qwen3_next":
        yield linear(f"{at}.in_proj_qkvz", fields.hidden, mixed + heads * value)
        yield linear(f"{at}.in_proj_ba", fields.hidden, 2 * heads)
    else:
        yield linear(f"{at}.in_proj_qkv", fields.hidden, mixed)
        yield linear(f"{at}.in_proj_z", fields.hidden, heads * value)
        yield linear(f"{at}.in_proj_a", fields.hidden, heads)
        yield linear(f"{at}.in_proj_b", fields.hidden, heads)
    yield linear(f"{at}.out_proj", heads * value, fields.hidden)
    yield plain(f"{at}.conv1d", mixed, fields.number("linear_conv_kernel_dim"))
    yield plain(f"{at}.A_log", heads)
    yield plain(f"{at}.dt_bias", heads)


def conv_sizes(fields: Fields) -> tuple[int, int]:
    """Columns of LFM2's gated convolution, and the tokens that it sees."""
    return fields.number("conv_dim", default=fields.hidden), fields.number("conv_L_cache", largest=4096)


def short_conv(fields: Fields, at: str) -> Iterator[Tensor]:
    """LFM2: two gates and what they gate, a convolution of each column, and the output."""
    size, seen = conv_sizes(fields)
    yield linear(f"{at}.in_proj", fields.hidden, 3 * size)
    yield plain(f"{at}.conv", size, seen)
    yield linear(f"{at}.out_proj", size, fields.hidden)


def kimi_sizes(fields: Fields) -> tuple[Fields, int, int, int]:
    """The fields of Kimi's delta attention, its heads, their size, and the convolution's kernel.

    GLM-5.3-Flash has them among the others; Ling has as many heads of this size as in its other layers.
    """
    chosen = mapping_in(fields.text, "linear_attn_config")
    own = Fields(chosen or fields.text)
    names: tuple[tuple[str, ...], ...] = (("num_heads",), ("head_dim",), ("short_conv_kernel_size",))
    if not chosen:
        names = (
            ("linear_num_heads", "num_attention_heads"),
            ("linear_head_dim", "head_dim"),
            ("linear_conv_kernel_dim", "short_conv_kernel_size"),
        )
    heads, size, kernel = names
    return own, own.number(*heads, largest=4096), own.number(*size), own.number(*kernel)


def kimi_delta(fields: Fields, at: str) -> Iterator[Tensor]:
    """Kimi's delta attention: three projections with a convolution each, a decay of low rank, and a gate."""
    own, heads, size, kernel = kimi_sizes(fields)
    inner, hidden = heads * size, fields.hidden
    for name in ("q_proj", "k_proj", "v_proj"):
        yield linear(f"{at}.{name}", hidden, inner)
    yield linear(f"{at}.o_proj", inner, hidden)
    yield linear(f"{at}.b_proj", hidden, heads)
    whole = own.flag("no_kda_lora", default=fields.kind == "bailing_hybrid")
    low = () if whole else ("f",) if own.flag("use_full_rank_gate") else ("f", "g")
    for name in ("f", "g"):
        if name in low:
            yield linear(f"{at}.{name}_a_proj", hidden, size)
            yield linear(f"{at}.{name}_b_proj", size, inner)
        else:
            yield linear(f"{at}.{name}_proj", hidden, inner)
    yield plain(f"{at}.conv1d", 3 * inner, kernel, width=4)
    yield plain(f"{at}.dt_bias", inner + heads, width=4)


def mamba_sizes(fields: Fields) -> tuple[int, int, int, int, int]:
    """Of Mamba 2: heads, their size, groups, numbers of a state, and the convolution's kernel."""
    return (
        fields.number("mamba_num_heads", "mamba_n_heads"),
        fields.number("mamba_head_dim", "mamba_d_head"),
        fields.number("n_groups", "mamba_n_groups"),
        fields.number("ssm_state_size", "mamba_d_state"),
        fields.number("conv_kernel", "mamba_d_conv"),
    )


def mamba(fields: Fields, at: str) -> Iterator[Tensor]:
    """Mamba 2: the inner width is heads x head size."""
    heads, size, groups, state, kernel = mamba_sizes(fields)
    inner = heads * size
    yield linear(f"{at}.in_proj", fields.hidden, 2 * inner + 2 * groups * state + heads)
    yield linear(f"{at}.out_proj", inner, fields.hidden)
    yield plain(f"{at}.conv1d", inner + 2 * groups * state, kernel + 1)
    yield plain(f"{at}.A_log_D_dt_bias", 3 * heads)


GATED_ENCODERS = (
    *("gemma4_vision", "glm4v", "glm4v_vision", "glm4v_moe_vision", "glm5_next_vision", "pixtral"),
    *("qwen2_5_vl", "qwen2_5_vl_vision", "deepseek_v41_vision"),
)
"""Encoders with three matrices in a block."""


def vision(fields: Fields) -> Iterator[Tensor]:
    """The encoder's tensors; none without a ``vision_config``."""
    config = fields.part("vision_config")
    if config.get("mm_embed_dim"):
        yield from _without_encoder(fields, Fields(config))
        return
    if not config.get("hidden_size"):
        return
    own, kind = Fields(config), str(config.get("model_type"))
    blocks = own.number("depth", "num_hidden_layers", largest=512)
    hidden = own.number("embed_dim", "hidden_size")  # Qwen2-VL calls the width of its output hidden_size
    inner = own.number("intermediate_size", default=4 * hidden)
    merged = own.number("spatial_merge_size", default=1, largest=64) ** 2 * hidden
    if kind.startswith("glm4v"):  # its intermediate_size is that of the merger
        out = own.number("out_hidden_size")
        yield plain("visual.merger", out + 3 * inner + merged, out)
        inner = out
    elif kind == "deepseek_v41_vision":  # squares of patches become one
        square = own.number("downsample_ratio", largest=64) ** 2 * hidden
        yield plain("visual.aligner", fields.hidden, square + fields.hidden)
    elif own.text.get("out_hidden_size") or own.text.get("embed_dim"):
        yield plain("visual.merger.linear_fc1", merged, merged)
        yield plain("visual.merger.linear_fc2", own.number("out_hidden_size", "hidden_size"), merged)
    else:
        yield plain("visual.projector", fields.hidden, hidden)
    yield plain("visual.blocks.attn", 4 * hidden, hidden, copies=blocks)
    yield plain("visual.blocks.mlp", (3 if kind in GATED_ENCODERS else 2) * inner, hidden, copies=blocks)
    sides = own.text.get("patch_size")
    patch = Fields({"side": sides[0]} if isinstance(sides, list) and sides else {"side": sides}).number(
        "side", default=14, largest=256
    )
    frames = own.number("temporal_patch_size", default=1, largest=16)
    yield plain("visual.patch_embed", hidden, 3 * frames * patch * patch)
    positions = own.number("num_position_embeddings", default=0, largest=1 << 20)
    positions += 2 * own.number("position_embedding_size", default=0, largest=1 << 20)
    yield plain("visual.pos_embed", positions, hidden)


def sound(fields: Fields) -> Iterator[Tensor]:
    """The encoder for sound; none without an ``audio_config`` that has a width.

    Whisper's kind has attention and one feed-forward in a block. Gemma 4's has no width of a feed-forward in its
    config: a conformer with two of four times the width, attention with positions, and a gated convolution (SGLang
    0.5.23, models/gemma4_audio.py).
    """
    own = Fields(mapping_in(fields.text, "audio_config"))
    width = own.number("d_model", "hidden_size", default=0)
    if not width:
        return
    blocks = own.number("encoder_layers", "num_hidden_layers", largest=512)
    inner = own.number("encoder_ffn_dim", "intermediate_size", default=0)
    yield plain("audio_tower.blocks.attn", 4 * width if inner else 5 * width, width, copies=blocks)
    yield plain("audio_tower.blocks.mlp", 2 * inner if inner else 16 * width, width, copies=blocks)
    yield plain("audio_tower.blocks.conv", 0 if inner else 3 * width, width, copies=blocks)
    yield plain("audio_projector", fields.hidden, own.number("output_proj_dims", default=width))


def _without_encoder(fields: Fields, own: Fields) -> Iterator[Tensor]:
    """Gemma 4 unified: patches of pictures and frames of sound are projected, and no encoder is between."""
    size = own.number("mm_embed_dim")
    patch = own.number("patch_size", default=16, largest=256) * own.number("pooling_kernel_size", default=3, largest=64)
    yield plain("visual.patch_dense", size, 3 * patch * patch)
    yield plain("visual.pos_embedding", 2 * own.number("mm_posemb_size", default=1120), size)
    yield plain("embed_vision.projection", own.number("output_proj_dims", default=fields.hidden), size)
    sound = Fields(fields.part("audio_config")).number("audio_embed_dim", default=0)
    yield plain("embed_audio.projection", fields.hidden, sound)
