"""The fields of a model's config.json, typed, and the layers that they describe. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gb10.errors import UsageError

Config = Mapping[str, Any]
QUANTIZED: Final = "hf_quant_config.json"
"""ModelOpt's file for quantization that config.json lacks."""
LONGEST: Final = 80
"""Characters of a value that an error quotes."""
MOST_BITS: Final = 64
"""Bits of a number that an error quotes."""


NESTED: Final = ("thinker_config", "text_config", "llm_config", "language_config")
"""Where a config keeps its decoder: Qwen's omni models, most, InternVL and Nemotron VL, DeepSeek's OCR."""


def text_config(config: Config) -> Config:
    """The decoder's fields over those around it. Raises UsageError."""
    for name in NESTED:
        config = {**config, **mapping_in(config, name)}
    return config


def number_in(config: Config, name: str, largest: int, *, least: int = 1) -> int:
    """A whole number of a config from ``least`` to ``largest``; raises UsageError for anything else."""
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= largest:
        raise other(name, value, f"a whole number up to {largest}")
    return value


def word_in(config: Config, name: str) -> str:
    """A word of a config, empty when it is absent or null. Raises UsageError."""
    value = "" if config.get(name) is None else config[name]
    if not isinstance(value, str):
        raise other(name, value, "text")
    return value


def mapping_in(config: Config, name: str) -> Config:
    """An object of a config, empty when it is absent or null. Raises UsageError."""
    value = {} if config.get(name) is None else config[name]
    if not isinstance(value, Mapping):
        raise other(name, value, "an object")
    return value


def list_in(config: Config, name: str) -> tuple[Any, ...]:
    """A list of a config, empty when it is absent or null. Raises UsageError."""
    value = config.get(name) or ()
    if not isinstance(value, list | tuple):
        raise other(name, value, "a list")
    return tuple(value)


def other(name: str, value: object, wanted: str) -> UsageError:
    """The error for a wrong field value; a number with thousands of digits cannot be printed, so its type is."""
    kind = type(value).__name__
    found = ascii(value)[:LONGEST] if isinstance(value, str | float | bool | None) else kind
    if isinstance(value, int) and abs(value) < 1 << MOST_BITS:
        found = str(value)
    return UsageError(f"the config's {name} is {found}, not {wanted}", hint="give the config.json of a decoder")


WIDEST: Final = 1 << 20
"""The largest width, of a hidden state or a projection."""
MOST_LAYERS: Final = 512
MOST_EXPERTS: Final = 1 << 14
ALIASES: Final = {"step3p5": "step3p7", "mimo_v2": "mimo_v2_flash", "deepseek_ref": "deepseek_v4"}
"""Types whose decoders have the same fields and tensors."""
TIED: Final = frozenset(
    {
        *("cohere", "cohere2", "cohere2_moe", "ernie4_5", "ernie4_5_moe", "granite_swa", "lfm2", "lfm2_moe"),
        *("smollm3", "starcoder2"),
    }
)
"""Types whose output uses the embedding where the file does not say: the defaults of transformers 5.19."""
LARGEST_VOCABULARY: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Fields:
    """A config's decoder fields. Each reading raises UsageError for a missing or a wrong value."""

    config: Config
    text: Config = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", text_config(self.config))

    @property
    def kind(self) -> str:
        """The type of the decoder: ``qwen3_5_moe`` for its text config, too."""
        kind = word_in(self.text, "model_type").removesuffix("_text")
        if kind == "bailing_hybrid" and "short_conv_kernel_size" not in self.text:
            return "bailing_lightning"  # Ling 2.5 and 2.6 name the type of Ling 3, and have another linear attention
        return ALIASES.get(kind, kind)

    def number(self, *names: str, default: int | None = None, largest: int = WIDEST) -> int:
        """The first of these fields that is there and not null; the default when none is."""
        found = next((name for name in names if self.text.get(name) is not None), None)
        if found is None and default is not None:
            return default
        return number_in(self.text, found or names[0], largest, least=0 if default is not None else 1)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A switch; anything but true is false."""
        return bool(self.text.get(name, default) is True)

    def entries(self, name: str) -> tuple[Any, ...]:
        """A list with one entry a layer; empty when it is absent."""
        return list_in(self.text, name)[: MOST_LAYERS + 1]

    def part(self, name: str) -> Config:
        """An object of the whole config, such as ``vision_config``."""
        return mapping_in(self.config, name)

    @property
    def hidden(self) -> int:
        """Columns of the hidden state."""
        return self.number("hidden_size")

    @property
    def layers(self) -> int:
        """Layers of the decoder, drafts left out. Some hybrids have a list of their kinds only."""
        listed = len(self.entries("layers_block_type"))
        return self.number("num_hidden_layers", default=listed or None, largest=MOST_LAYERS)

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        return self.number("vocab_size", largest=LARGEST_VOCABULARY)

    @property
    def tied(self) -> bool:
        """Whether the output uses the embedding's tensor. A file leaves out what is its family's default."""
        return self.flag("tie_word_embeddings", default=self.kind.startswith("gemma") or self.kind in TIED)

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.number("num_attention_heads", largest=4096)

    @property
    def kv_heads(self) -> int:
        """Key and value heads; without the field as many as query heads."""
        names = ("num_key_value_heads", "num_attention_groups")
        return self.number(*names, default=self.heads, largest=4096) or self.heads

    @property
    def head_size(self) -> int:
        """Columns of a head."""
        return self.number("head_dim", default=0) or self.hidden // self.heads

    @property
    def experts(self) -> int:
        """Routed experts of a layer; 0 for a dense model."""
        names = ("num_experts", "n_routed_experts", "moe_num_experts", "num_local_experts")
        return self.number(*names, default=0, largest=MOST_EXPERTS)

    @property
    def sparse(self) -> bool:
        """Whether an indexer chooses the tokens that attention reads (DeepSeek-V3.2 and later, GLM-5, Qwen4)."""
        return any(self.text.get(name) is not None for name in ("index_topk", "indexer_budget"))

    @property
    def draft_layers(self) -> int:
        """Layers that the model file has for multi-token prediction."""
        names = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
        return self.number(*names, default=0, largest=16)

    def shares_cache(self, number: int) -> bool:
        """Whether a layer reads the cache of one before it, as the last ones of Gemma's small models do."""
        shared = self.number("num_kv_shared_layers", default=0, largest=MOST_LAYERS)
        return self.layers - shared <= number < self.layers

    def per_layer(self) -> Iterator[int]:
        """The numbers of the layers."""
        return iter(range(self.layers))


Mixer = Literal["full", "window", "latent", "compressed", "delta", "kimi-delta", "mamba", "conv", "parallel", "none"]
Feed = Literal["dense", "experts", "both", "none"]
KINDS: Final[dict[str, Mixer]] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "deepseek_sparse_attention": "full",
    "indexed_attention": "full",
    "linear_attention": "delta",
    "mamba": "mamba",
    "conv": "conv",
}
"""Words of ``layer_types``."""
COMPRESSED: Final = ("deepseek_v4", "deepseek_v41")
"""Families whose layers keep compressed tokens."""
LINEAR: Final[dict[str, Mixer]] = {"glm5_next": "kimi-delta", "granitemoehybrid": "mamba"}
"""What ``linear_attention`` is in families where it is no gated delta network."""
KNOWN: Final[dict[str, tuple[Mixer, Feed]]] = {
    **dict.fromkeys(("M", "mamba", "linear_attention"), ("mamba", "none")),
    **dict.fromkeys(("*", "attention", "full_attention"), ("full", "none")),
    **dict.fromkeys(("E", "moe"), ("none", "experts")),
    **dict.fromkeys(("-", "mlp"), ("none", "dense")),
}
"""Letters of Nemotron-H's pattern, and the words that newer configs have."""
WAYS_OUT: Final = (
    "give the folder with its .safetensors files (recipe memory: --weights DIR or --fetch): then its weights are read, "
    "not computed; docs/models.md lists the families whose tensors and cache are known"
)
NO_CACHE: Final = "no file of a model tells its cache: docs/models.md lists the families whose cache is known"
DENSE: Final = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
"""Fields that say how many layers have no experts."""
STEPS: Final = ("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval")
EVERY: Final = ("full_attention_interval", "sliding_window_pattern")
"""Fields that say: each Nth layer has full attention."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the decoder."""

    number: int
    mixer: Mixer
    feed: Feed


def layer_plan(fields: Fields) -> tuple[Layer, ...]:
    """The layers in order; raises UsageError for an unknown kind of layer."""
    if fields.kind == "nemotron_h":
        return tuple(Layer(number, *KNOWN[kind]) for number, kind in enumerate(_hybrid(fields)))
    return tuple(Layer(number, _mixer(number, fields), _feed(number, fields)) for number in fields.per_layer())


def _hybrid(fields: Fields) -> tuple[str, ...]:
    """Nemotron-H's kinds of layers, as letters or words; raises UsageError for an unknown one."""
    kinds = fields.entries("layers_block_type") or tuple(word_in(fields.text, "hybrid_override_pattern"))
    unknown = [kind for kind in kinds if not isinstance(kind, str) or kind not in KNOWN]
    if unknown or not kinds:
        first = str(unknown[0])[:80] if unknown else "none"
        raise UsageError(f"the config's kinds of layers have an unknown one: {first!r}", hint=WAYS_OUT)
    return kinds[: fields.layers]


def _mixer(number: int, fields: Fields) -> Mixer:
    if fields.kind in COMPRESSED:
        return "compressed"
    if fields.kind == "falcon_h1":  # attention and Mamba 2 side by side, in each layer
        return "parallel"
    if fields.kind in ("kimi_linear", "bailing_hybrid"):
        return "latent" if _is_latent(number, fields) else "kimi-delta"
    if fields.kind == "llama4" and not fields.entries("layer_types"):
        # Layers with positions attend within chunks; each fourth has none, and attends to all.
        listed = fields.entries("no_rope_layers")
        chunked = bool(listed[number]) if number < len(listed) else bool((number + 1) % 4)
        return "window" if chunked and fields.text.get("attention_chunk_size") else "full"
    pattern = fields.entries("hybrid_layer_pattern")
    if number < len(pattern):  # MiMo: 1 is a layer with a window
        return "window" if pattern[number] else "full"
    types = fields.entries("layer_types")
    if number < len(types):
        word = types[number] if isinstance(types[number], str) else type(types[number]).__name__
        if word not in KINDS:
            raise UsageError(f"the config's layer_types has an unknown kind {word[:80]!r}", hint=WAYS_OUT)
        kind = LINEAR.get(fields.kind, "delta") if word == "linear_attention" else KINDS[word]
    elif fields.text.get("full_attn_idxs") is not None:  # LFM2's first configs
        kind = "full" if number in fields.entries("full_attn_idxs") else KINDS["conv"]
    else:
        kind = _by_interval(number, fields)
    return "latent" if kind == "full" and fields.text.get("kv_lora_rank") else kind


def _is_latent(number: int, fields: Fields) -> bool:
    """Whether a layer of Kimi or Ling is none of delta attention. In Ling it is the last of each group, and all behind
    the last whole group (vLLM 0.33.0, models/bailing_moe_v3.py)."""
    if fields.kind == "kimi_linear":
        return number + 1 not in list_in(mapping_in(fields.text, "linear_attn_config"), "kda_layers")
    size = fields.number("layer_group_size", largest=MOST_LAYERS)
    return (number + 1) % size == 0 or number >= fields.layers // size * size


def _by_interval(number: int, fields: Fields) -> Mixer:
    """The kind of a layer where no list says it."""
    other: Mixer = "delta" if fields.text.get("linear_num_value_heads") is not None else "window"
    for name in EVERY:
        every = fields.number(name, default=0, largest=512)
        if every:
            return "full" if (number + 1) % every == 0 else other
    if other == "delta":
        return "full" if (number + 1) % 4 == 0 else "delta"
    windowed = fields.text.get("sliding_window") and fields.text.get("use_sliding_window") is not False
    return "window" if windowed else "full"


def _feed(number: int, fields: Fields) -> Feed:
    gemma = fields.kind.startswith("gemma")
    if not fields.experts or (gemma and not fields.flag("enable_moe_block")):
        return "dense"
    if gemma:
        return "both"
    listed = _listed(number, fields)
    if listed is None:
        step = fields.number(*STEPS, default=1, largest=512) or 1
        first = fields.number(*DENSE, default=0, largest=512)
        last = fields.number("moe_layer_end_index", default=MOST_LAYERS)
        sparse = first <= number <= last and (number + 1) % step == 0
        listed = sparse and number not in fields.entries("mlp_only_layers")
    return "experts" if listed else "dense"


def _listed(number: int, fields: Fields) -> bool | None:
    """Whether a layer has experts, by a list of kinds, of numbers or of switches; None without such a list."""
    kinds = fields.entries("mlp_layer_types")
    if number < len(kinds):
        return bool(kinds[number] != "dense")
    numbers = fields.text.get("moe_layers_enum")
    if isinstance(numbers, str | list | tuple):  # Step: as text or as a list
        return str(number) in _words(numbers)
    switches = fields.text.get("moe_layer_freq")
    if isinstance(switches, list | tuple):
        return number < len(switches) and bool(switches[number])
    return None


def _words(listed: object) -> set[str]:
    parts = listed.split(",") if isinstance(listed, str) else listed if isinstance(listed, list | tuple) else ()
    return {str(part).strip() for part in parts}
