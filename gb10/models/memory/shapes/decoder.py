"""All tensors of a model, from its config. Pure. Norms are left out: they are below 0.1 % of any model."""

from collections.abc import Iterator
from typing import Final

from gb10.errors import UsageError
from gb10.models.memory.shapes.config_fields import (
    COMPRESSED,
    LARGEST_VOCABULARY,
    MOST_EXPERTS,
    WAYS_OUT,
    Config,
    Feed,
    Fields,
    Layer,
    layer_plan,
    mapping_in,
)
from gb10.models.memory.shapes.layers import (
    Tensor,
    compressed,
    delta,
    feed_forward,
    grouped,
    kimi_delta,
    latent,
    linear,
    mamba,
    ngrams,
    plain,
    short_conv,
    streams_of,
    vision,
)

FAMILIES: Final = frozenset(
    {
        *("llama", "llama4", "mistral", "ministral3", "mixtral", "gpt_oss", "glm4_moe", "nemotron_h"),
        *("gemma3", "gemma4", "gemma4_unified"),
        *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_moe"),
        *("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen4_exp"),
        *("minimax_m2", "minimax_m3", "minimax_m3_vl"),
        *("deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", *COMPRESSED),
        *("bailing_hybrid", "falcon_h1", "kimi_linear", "step3p7", "mimo", "mimo_v2_flash"),
        *("afmoe", "apertus", "arcee", "axk1", "cohere", "cohere2", "cohere2_moe", "deepseek_v2", "ernie4_5"),
        *("ernie4_5_moe", "exaone4", "exaone_moe", "gemma", "gemma2", "glm4", "glm4_moe_lite", "glm4v", "glm4v_moe"),
        *("glm5_next", "granite", "granite_swa", "granitemoe", "granitemoe_swa", "granitemoehybrid"),
        *(
            "granitemoeshared",
            "hy_v3",
            "hyperclovax",
            "laguna",
            "lfm2",
            "lfm2_moe",
            "mellum",
            "olmo",
            "olmo2",
            "olmo3",
            "olmoe",
            "phi3",
        ),
        *("qwen2_vl", "qwen2_5_vl", "seed_oss", "smollm3", "stablelm", "starcoder2"),
    }
)
"""Types of decoders whose tensors are known."""
DENSE_DRAFTS: Final = ("step3p7", "mimo_v2_flash")
"""Families with experts whose draft layers have none."""


def model_tensors(config: Config, model: str) -> tuple[Tensor, ...]:
    """The tensors of a model; raises UsageError for an unknown family, and for missing or wrong fields."""
    fields = Fields(config)
    if fields.kind not in FAMILIES:
        raise UsageError(f"the tensors of model type '{fields.kind[:80]}' are not known ({model})", hint=WAYS_OUT)
    layers = layer_plan(fields)
    return (
        *_ends(fields),
        *(tensor for layer in layers for tensor in _layer(fields, layer, f"layers.{layer.number}")),
        *_drafts(fields, layers),
        *vision(fields),
    )


def _ends(fields: Fields) -> Iterator[Tensor]:
    """Embedding and output. A DFlash draft model uses its target's, and reads the states of some of its layers."""
    if "dflash_config" in fields.config:
        read = Fields(mapping_in(fields.config, "dflash_config")).entries("target_layer_ids")
        yield linear("fc", len(read) * fields.hidden, fields.hidden)
        return
    yield plain("embed_tokens", fields.vocabulary, fields.hidden)
    if not fields.tied:
        yield linear("lm_head", fields.hidden, fields.vocabulary)
    each = fields.number("hidden_size_per_layer_input", default=0)
    if each:  # Gemma's small models: an embedding for each layer
        words = fields.number("vocab_size_per_layer_input", default=fields.vocabulary, largest=LARGEST_VOCABULARY)
        yield plain("embed_tokens_per_layer", words, fields.layers * each)
        yield linear("per_layer_model_projection", fields.hidden, fields.layers * each)
        yield linear("layers.0.per_layer_projections", fields.hidden, 2 * each * fields.layers)


def _layer(fields: Fields, layer: Layer, at: str) -> Iterator[Tensor]:
    mixer = f"{at}.{ {'nemotron_h': 'mixer', **dict.fromkeys(COMPRESSED, 'attn')}.get(fields.kind, 'self_attn') }"
    if layer.mixer in ("full", "window", "parallel"):
        yield from grouped(fields, layer, mixer)
    elif layer.mixer == "latent":
        yield from latent(fields, mixer)
    elif layer.mixer == "compressed":
        yield from compressed(fields, layer, mixer)
    elif layer.mixer == "delta":
        yield from delta(fields, f"{at}.linear_attn")
    elif layer.mixer == "kimi-delta":
        yield from kimi_delta(fields, mixer)
    elif layer.mixer == "mamba":
        yield from mamba(fields, mixer)
    elif layer.mixer == "conv":
        yield from short_conv(fields, f"{at}.conv")
    if layer.mixer == "parallel":
        yield from mamba(fields, f"{at}.mamba")
    yield from streams_of(fields, at)
    yield from ngrams(fields, layer, at)
    yield from feed_forward(fields, layer, at)


def _drafts(fields: Fields, layers: tuple[Layer, ...]) -> Iterator[Tensor]:
    """Layers for multi-token prediction: each like the last full layer, with a projection of two hidden states."""
    if not fields.draft_layers or "minimax" in fields.kind:  # its files have none, whatever the config says
        return
    own = fields.number("dspark_n_routed_experts", default=0, largest=MOST_EXPERTS)
    if own:  # DeepSeek-V4.1: fewer experts, and a table of which word follows which
        fields = Fields({**fields.config, **fields.text, "n_routed_experts": own, "text_config": None})
        yield plain("mtp.2.markov_head", fields.vocabulary, 2 * fields.number("dspark_markov_rank"))
    last = next((layer for layer in reversed(layers) if layer.mixer in ("full", "latent", "compressed")), None)
    for number in range(fields.draft_layers if last else 0):
        at = draft_name(fields, number)
        feed: Feed = "experts" if fields.experts and fields.kind not in DENSE_DRAFTS else "dense"
        one = Layer(fields.layers + number, last.mixer if last else "full", feed)
        yield from _layer(fields, one, at)
        yield linear(f"{at}.eh_proj", 2 * fields.hidden, fields.hidden)


def draft_name(fields: Fields, number: int) -> str:
    """Where a model file keeps a draft layer."""
    if fields.kind in COMPRESSED:
        return f"mtp.{number}"
    return (
        f"mtp.layers.{number}" if fields.kind.startswith(("qwen", "nemotron")) else f"layers.{fields.layers + number}"
    )
