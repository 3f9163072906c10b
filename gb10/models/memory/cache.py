"""The KV cache of one rank: bytes of a token, of a window, and of the state of a sequence. Pure.

Sizes are those of vLLM 0.33 (v1/kv_cache_interface.py) and SGLang 0.5.23 (model_executor/pool_configurator.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, Literal

from gb10.errors import UsageError
from gb10.models.memory.shapes.config_fields import Fields, Layer
from gb10.models.memory.shapes.layers import conv_sizes, head_sizes, kimi_sizes, mamba_sizes, ratio_of

NUMBER: Final[Mapping[str, float]] = {
    **dict.fromkeys(("bfloat16", "float16", "bf16", "fp16", "half"), 2.0),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla", "fp8_inc", "int8"), 1.0),
    **dict.fromkeys(("int8_per_token_head", "fp8_per_token_head"), 1.0),
    "mxfp8": 1.03125,
    **dict.fromkeys(("nvfp4", "nvfp4_4over6", "fp4_e2m1", "fp4_mx_block16", "nvfp4_ds_mla"), 0.5625),
    "int4_per_token_head": 0.5,
    "float32": 4.0,
}
"""Bytes of a number in the cache. Four bits have a scale of one byte for 16 numbers (nvfp4_kv_cache_full_dim in vLLM's
utils/torch_utils.py), SGLang's mxfp8 one for 32 (model_executor/pool_configurator.py)."""
PER_HEAD: Final = 4
"""Bytes beside the keys, and beside the values, of a head of a token in vLLM's types ``…_per_token_head``: a scale in
FP32 (v1/attention/backends/triton_attn.py, customize_spec)."""
UNSIZED: Final = ("turboquant_", "octave_", "ultraquant_")
"""Types of vLLM 0.33 whose bytes depend on the backend and on the layers that it leaves out."""
SPARSE_LATENTS: Final[Mapping[float, int]] = {1.0: 656, 0.5625: 352}
"""Bytes of a token of a sparse latent by those of a number, in vLLM's fp8_ds_mla and nvfp4_ds_mla: 512 in FP8, 4 scales
of 4 bytes, 64 numbers of two bytes for the positions; or 256 in FP4, 32 scales, 64 bytes in FP8
(model_executor/layers/attention/mla_attention.py, get_kv_cache_spec)."""
SMALL_LATENT: Final = 584
"""The same for DeepSeek-V4: 448 in FP8, 64 of two bytes, 8 scales."""
FOUR_BIT_LATENT: Final = 288
"""The same of a compressed token of DeepSeek-V4.1 in nvfp4_ds_mla: 512 in FP4, 32 scales."""
PAGE_STEP: Final = 576
"""Bytes that a page of DeepSeek-V4 is a multiple of."""


Kind = Literal["full", "window", "chunk", "state"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheLayer:
    """One layer: ``size`` is the bytes of a token, or of a state; ``window`` is the tokens that are kept.

    ``step`` is what a state grows by for each token that may be rejected. ``latent``: one head for keys and values.
    ``checkpoint``: a state may be kept inside a prefill, at a multiple of as many tokens.
    """

    kind: Kind
    size: float
    window: int = 0
    step: float = 0.0
    latent: bool = False
    checkpoint: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PagedLayer:
    """What a layer of DeepSeek-V4 keeps of one kind: a page of ``size`` bytes holds ``block`` tokens; of ``window``
    tokens, 0 for all of them. A ``ring`` is one page of a request, whatever its length. vLLM 0.33.0:
    models/deepseek_v4/attention.py and compressor.py, the same of deepseek_v41, and
    v1/attention/backends/mla/sparse_swa.py."""

    block: int
    window: int
    size: int
    ring: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """Bytes of one rank. ``token``: of each token, in layers that keep all. ``windows``: bytes of a token and tokens
    kept, for layers with a window. ``state``: of a sequence, whatever its length. ``layers``: the same one by one,
    empty where an engine does not keep layers of one size in equal pages (DeepSeek-V4: ``pages``), or where it is
    published."""

    token: float = 0.0
    windows: tuple[tuple[float, int], ...] = ()
    state: float = 0.0
    layers: tuple[CacheLayer, ...] = ()
    pages: tuple[PagedLayer, ...] = ()

    def of_request(
        self, tokens: int, *, ahead: int = 0, copies: int = 1, block: int = 16, sequence_ranks: int = 1
    ) -> int:
        """Bytes of one sequence: whole blocks. ``ahead`` tokens of a window are kept while a chunk is computed;
        ``copies`` of the state are kept for tokens that may be rejected. ``sequence_ranks`` divide its tokens."""
        size = ceil(tokens / sequence_ranks / block) * block * self.token
        kept = sum(each * min(tokens, window + ahead) for each, window in self.windows)
        return ceil(size + kept + copies * self.state)

    @property
    def windowed(self) -> float:
        """Bytes of a token in all layers with a window."""
        return sum(each for each, _ in self.windows)


def number_size(word: str, model_width: int, file_type: str | None) -> float:
    """Bytes of a number for ``--kv-cache-dtype``; ``auto`` is the model file's type. Raises UsageError."""
    if word in ("", "auto"):
        return NUMBER[file_type] if file_type else float(min(model_width, 2))
    if word.startswith(UNSIZED):
        raise UsageError(f"the size of the KV cache type '{word[:40]}' is not computed", hint="take another type")
    if word not in NUMBER:
        raise UsageError(
            f"the size of the KV cache type '{word[:40]}' is not known", hint=f"known: {', '.join(NUMBER)}"
        )
    return NUMBER[word]


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberFormats:
    """How numbers are kept: bytes of one, ``per_head`` bytes beside keys and beside values, and of a number of a state.

    ``heads_over``: ranks that divide the key heads, where it is not all tensor ranks. ``state`` is None for the
    config's type. ``unshared``: a layer that reads another's cache has room of its own all the same, as in SGLang
    0.5.23, whose model_executor/pool_configurator.py counts all layers.
    """

    number: float
    per_head: int = 0
    heads_over: int | None = None
    unshared: bool = False
    state: int | None = None


def number_formats(word: str, model_width: int, file_type: str | None, state_type: str = "auto") -> NumberFormats:
    """How a launch keeps its numbers, by ``--kv-cache-dtype`` and the type of states. Raises UsageError."""
    return NumberFormats(
        number=number_size(word, model_width, file_type),
        per_head=PER_HEAD if word.endswith("_per_token_head") else 0,
        state={"float32": 4, "float16": 2, "bfloat16": 2}.get(state_type),
    )


def cache_of(fields: Fields, layers: Iterable[Layer], tensor: int, kept: NumberFormats) -> Cache:
    """The cache of a rank that holds these layers, with key heads over ``tensor`` ranks."""
    return merge_caches(_layer(fields, one, tensor, kept) for layer in layers for one in _mixers(layer))


def _mixers(layer: Layer) -> tuple[Layer, ...]:
    """A layer, or the two that are side by side in one."""
    both = replace(layer, mixer="full"), replace(layer, mixer="mamba")
    return both if layer.mixer == "parallel" else (layer,)


def merge_caches(found: Iterable[Cache]) -> Cache:
    """The caches of several layers, or of a model and its draft model, as one."""
    parts = [*found]
    windows: dict[int, float] = {}
    for part in parts:
        for each, window in part.windows:
            windows[window] = windows.get(window, 0.0) + each
    alike = all(part.layers or not (part.token or part.windows or part.state) for part in parts)
    return Cache(
        token=sum(part.token for part in parts),
        windows=tuple((each, window) for window, each in windows.items()),
        state=sum(part.state for part in parts),
        layers=tuple(layer for part in parts for layer in part.layers) if alike else (),
        pages=tuple(page for part in parts for page in part.pages if page.size),
    )


def _layer(fields: Fields, layer: Layer, tensor: int, kept: NumberFormats) -> Cache:
    if fields.shares_cache(layer.number) and not kept.unshared:
        return Cache()
    if layer.mixer in ("full", "window"):
        return _grouped(fields, layer, kept.heads_over or tensor, kept)
    if layer.mixer == "latent":
        each = _latent(fields, kept.number)
        return Cache(token=each, layers=(CacheLayer(kind="full", size=each, latent=True),))
    if layer.mixer == "compressed":
        return _compressed(fields, layer, kept.number)
    if layer.mixer in ("delta", "kimi-delta", "mamba", "conv"):
        state, step = _state(fields, layer, tensor, kept.state)
        # Mamba 2 keeps a state at any token; FlashInfer's prefill of delta networks, for heads of 128, at each 64th.
        by_64 = layer.mixer == "delta" and fields.number("linear_key_head_dim") == 128
        checkpoint = 1 if layer.mixer == "mamba" else 64 if by_64 else 0
        return Cache(state=state, layers=(CacheLayer(kind="state", size=state, step=step, checkpoint=checkpoint),))
    return Cache()


def _grouped(fields: Fields, layer: Layer, tensor: int, kept: NumberFormats) -> Cache:
    """Grouped heads: keys and values of the key heads of a rank. Llama 4's chunks end at their own borders."""
    heads = head_sizes(fields, layer)
    of_head = (heads.key + heads.value) * kept.number + 2 * kept.per_head
    each = max(1, ceil(heads.keys / tensor)) * of_head + _blocks(fields, layer, kept.number)
    chunk = fields.number("attention_chunk_size", default=0) if fields.kind == "llama4" else 0
    window = chunk or fields.number("sliding_window", default=0)
    if layer.mixer != "window" or not window:
        return Cache(token=each, layers=(CacheLayer(kind="full", size=each),))
    one = CacheLayer(kind="chunk" if chunk else "window", size=each, window=window)
    return Cache(windows=((each, window),), layers=(one,))


def _blocks(fields: Fields, layer: Layer, number: float) -> float:
    """MiniMax-M3's index of blocks: one head of keys in sparse layers. Qwen4's: a key in two bytes for some tokens."""
    if fields.kind == "qwen4_exp" and layer.mixer == "full":
        return fields.number("indexer_head_dim") * 2 / fields.number("indexer_compress_ratio", largest=4096)
    chosen = fields.text.get("sparse_attention_config")
    if not isinstance(chosen, Mapping) or layer.feed == "dense":
        return 0.0
    return Fields(chosen).number("sparse_index_dim") * max(number, 1.0)


def _latent(fields: Fields, number: float) -> float:
    """A latent is whole on each rank. Sparse attention adds an index in FP8, with a scale of four bytes, for each token
    or for some together (``index_kpool``: GLM-5.3-Flash)."""
    kept = fields.number("kv_lora_rank") + fields.number("qk_rope_head_dim", default=0)
    index = index_size(fields)
    return SPARSE_LATENTS.get(number, kept * number) + index if index else kept * number


def index_size(fields: Fields) -> int:
    """Bytes of a token in the index of a sparse latent; 0 without one."""
    if fields.text.get("index_topk") is None:
        return 0
    return ceil((fields.number("index_head_dim") + 4) / (fields.number("index_kpool", default=1, largest=4096) or 1))


def _compressed(fields: Fields, layer: Layer, number: float) -> Cache:
    """DeepSeek-V4: a window of whole tokens, and one entry for each ``ratio`` tokens; the low ratio has an index.

    V4.1 has an index beside each entry, and entries in four bits by nvfp4_ds_mla (models/deepseek_v41/attention.py).
    """
    ratio = ratio_of(fields, layer)
    window = ((float(SMALL_LATENT), fields.number("sliding_window", default=128)),)
    newer = fields.kind == "deepseek_v41"
    pages = tuple(_newer_pages(fields, ratio, number) if newer else _pages_of(fields, ratio))
    if not ratio:
        return Cache(windows=window, pages=pages)
    index = fields.number("index_head_dim") + 4 if ratio == 4 or newer else 0
    latent = FOUR_BIT_LATENT if newer and number < 1 else SMALL_LATENT
    return Cache(token=(latent + index) / ratio, windows=window, pages=pages)


COMPRESSED_BLOCK: Final = 256
"""Tokens of a block of compressed entries."""


def _pages_of(fields: Fields, ratio: int) -> Iterator[PagedLayer]:
    """A window of whole tokens, and for a compressed layer its entries, the compressor's state in FP32 (a key and a
    score of each token that is not yet compressed, twice for the low ratio), and the same of its index."""
    yield PagedLayer(block=64, window=fields.number("sliding_window", default=128), size=_up(64 * SMALL_LATENT))
    if not ratio:
        return
    halves, block = (2, 4) if ratio == 4 else (1, 8)
    sizes = [(fields.number("head_dim", default=512), SMALL_LATENT)]
    if ratio == 4:
        sizes.append((fields.number("index_head_dim"), fields.number("index_head_dim") + 4))
    for width, entry in sizes:
        yield PagedLayer(block=COMPRESSED_BLOCK, window=0, size=_up(max(COMPRESSED_BLOCK // ratio, 1) * entry))
        yield PagedLayer(block=block, window=halves * ratio, size=_up(block * 2 * halves * width * 4))


RING: Final = 8
"""Rows of a ring of DeepSeek-V4.1: with more than six drafts they are twice as many, which no sum here shows."""


def _newer_pages(fields: Fields, ratio: int, number: float) -> Iterator[PagedLayer]:
    """DeepSeek-V4.1: smaller pages for the window; entries and their index in the layers that others read; and in a
    ring the keys and scores of tokens that are not yet compressed."""
    yield PagedLayer(block=32, window=fields.number("sliding_window", default=128), size=_up(32 * SMALL_LATENT))
    if not ratio:
        return
    for entry in (FOUR_BIT_LATENT if number < 1 else SMALL_LATENT, fields.number("index_head_dim") + 4):
        yield PagedLayer(block=COMPRESSED_BLOCK, window=0, size=_up(max(COMPRESSED_BLOCK // ratio, 1) * entry))
    if ratio > 1:
        yield PagedLayer(block=RING, window=0, size=RING * 2 * fields.number("head_dim", default=512) * 4, ring=True)


def _up(size: int) -> int:
    return ceil(size / PAGE_STEP) * PAGE_STEP


def _state(fields: Fields, layer: Layer, tensor: int, width: int | None) -> tuple[float, float]:
    """The last inputs of the convolution in two bytes, and the state in FP32 unless launch or config name a type.

    And what one more input of the convolution takes: each token that may be rejected keeps one.
    """
    if layer.mixer == "delta":
        heads, keys = fields.number("linear_num_value_heads"), fields.number("linear_num_key_heads")
        key, value = fields.number("linear_key_head_dim"), fields.number("linear_value_head_dim")
        mixed, kernel, state = (
            2 * keys * key + heads * value,
            fields.number("linear_conv_kernel_dim"),
            heads * key * value,
        )
    elif layer.mixer == "kimi-delta":
        _, heads, size, kernel = kimi_sizes(fields)
        mixed, state = 3 * heads * size, heads * size * size
    elif layer.mixer == "conv":
        (mixed, kernel), state = conv_sizes(fields), 0
    else:
        heads, size, groups, each, kernel = mamba_sizes(fields)
        mixed, state = heads * size + 2 * groups * each, heads * size * each
    words = (fields.text.get("mamba_ssm_dtype"), fields.text.get("mamba_ssm_cache_dtype"))
    width = width or (2 if any(word in ("bfloat16", "float16") for word in words) else 4)
    return (mixed * (kernel - 1) * 2 + state * width) / tensor, mixed * 2 / tensor
