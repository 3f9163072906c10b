"""The kind of each layer, for configs as their makers publish them: the fields that decide, the others left out."""

import pytest

from gb10.errors import UsageError
from gb10.models.memory.shapes.config_fields import Fields, Layer, layer_plan

LETTERS = {
    **{"full": "F", "window": "W", "latent": "L", "compressed": "C", "delta": "D", "kimi-delta": "K", "mamba": "M"},
    "none": "-",
}


def plan(kind: str, layers: int | None, **config: object) -> tuple[Layer, ...]:
    count = {} if layers is None else {"num_hidden_layers": layers}
    return layer_plan(Fields({"model_type": kind, **count, **config}))


def mixers(kind: str, layers: int | None, **config: object) -> str:
    return "".join(LETTERS[layer.mixer] for layer in plan(kind, layers, **config))


def feeds(kind: str, layers: int, **config: object) -> str:
    return "".join(layer.feed[0] for layer in plan(kind, layers, **config))


@pytest.mark.parametrize(
    ("kind", "layers", "config", "wanted"),
    [
        ("llama", 3, {}, "FFF"),
        ("mistral", 3, {"sliding_window": 4096}, "WWW"),
        ("qwen2", 3, {"sliding_window": 4096, "use_sliding_window": False}, "FFF"),
        ("qwen2", 3, {"sliding_window": 4096, "use_sliding_window": True}, "WWW"),
        ("gpt_oss", 4, {"layer_types": ["sliding_attention", "full_attention"] * 2}, "WFWF"),
        ("gemma3_text", 7, {"sliding_window_pattern": 6}, "WWWWWFW"),
        ("qwen3_next", 8, {"linear_num_value_heads": 32, "full_attention_interval": 4}, "DDDFDDDF"),
        ("qwen3_next", 8, {"linear_num_value_heads": 32}, "DDDFDDDF"),
        ("qwen3_5", 3, {"layer_types": ["linear_attention", "linear_attention", "full_attention"]}, "DDF"),
        ("deepseek_v3", 2, {"kv_lora_rank": 512}, "LL"),
        ("deepseek_v32", 2, {"kv_lora_rank": 512, "layer_types": ["deepseek_sparse_attention"] * 2}, "LL"),
        ("deepseek_v4", 2, {"compress_ratios": [0, 4]}, "CC"),
        ("kimi_linear", 4, {"linear_attn_config": {"kda_layers": [1, 2, 3]}}, "KKKL"),
        (
            "bailing_hybrid",
            10,
            {"layer_group_size": 4, "short_conv_kernel_size": 4, "kv_lora_rank": 512},
            "KKKLKKKLLL",
        ),
        ("llama4_text", 8, {"attention_chunk_size": 8192}, "WWWFWWWF"),
        ("llama4_text", 4, {}, "FFFF"),
        ("llama4_text", 3, {"attention_chunk_size": 8192, "no_rope_layers": [1, 0]}, "WFW"),
        (
            "llama4_text",
            2,
            {"attention_chunk_size": 8192, "layer_types": ["chunked_attention", "full_attention"]},
            "WF",
        ),
        ("mimo_v2_flash", 4, {"hybrid_layer_pattern": [0, 1, 1, 0]}, "FWWF"),
        ("gpt_oss", 3, {"layer_types": ["full_attention"], "sliding_window": 128}, "FWW"),
        ("nemotron_h", 4, {"hybrid_override_pattern": "M-*E"}, "M-F-"),
        ("nemotron_h", None, {"layers_block_type": ["mamba", "attention", "moe", "mlp"]}, "MF--"),
        ("nemotron_h", 2, {"hybrid_override_pattern": "M*M*"}, "MF"),
    ],
)
def test_mixers(kind: str, layers: int | None, config: dict[str, object], wanted: str) -> None:
    found = plan(kind, layers, **config)
    assert mixers(kind, layers, **config) == wanted
    assert [layer.number for layer in found] == list(range(len(wanted)))


@pytest.mark.parametrize(
    ("kind", "layers", "config", "wanted"),
    [
        ("llama", 2, {}, "dd"),
        ("qwen3_moe", 4, {"num_experts": 8}, "eeee"),
        ("qwen3_moe", 4, {"num_experts": 8, "decoder_sparse_step": 2}, "dede"),
        ("qwen3_moe", 4, {"num_experts": 8, "mlp_only_layers": [1, 2]}, "edde"),
        ("llama4_text", 4, {"num_local_experts": 8, "interleave_moe_layer_step": 2}, "dede"),
        ("deepseek_v3", 4, {"n_routed_experts": 8, "first_k_dense_replace": 3, "kv_lora_rank": 1}, "ddde"),
        ("glm4_moe", 3, {"n_routed_experts": 8, "mlp_layer_types": ["dense", "sparse"]}, "dee"),
        ("step3p7", 4, {"moe_num_experts": 8, "moe_layers_enum": "1, 3"}, "dede"),
        ("step3p7", 3, {"moe_num_experts": 8, "moe_layers_enum": [0, 2]}, "ede"),
        ("mimo_v2_flash", 3, {"n_routed_experts": 8, "moe_layer_freq": [0, 1]}, "ded"),
        ("qwen3_moe", 2, {"num_experts": 8, "moe_layer_freq": 1}, "ee"),
        ("gemma4_text", 2, {"num_experts": 8}, "dd"),
        ("gemma4_text", 2, {"num_experts": 8, "enable_moe_block": True}, "bb"),
        ("gemma4_text", 2, {"enable_moe_block": True}, "dd"),
    ],
)
def test_feeds(kind: str, layers: int, config: dict[str, object], wanted: str) -> None:
    assert feeds(kind, layers, **config) == wanted


def test_a_hybrid_has_one_part_in_each_layer() -> None:
    found = plan("nemotron_h", 4, hybrid_override_pattern="M-*E")
    assert [(layer.mixer, layer.feed) for layer in found] == [
        ("mamba", "none"),
        ("none", "dense"),
        ("full", "none"),
        ("none", "experts"),
    ]


@pytest.mark.parametrize(
    ("kind", "config", "what"),
    [
        ("nemotron_h", {"hybrid_override_pattern": "M?"}, "'?'"),
        ("nemotron_h", {"layers_block_type": ["mamba", 7]}, "'7'"),
        ("gpt_oss", {"layer_types": ["sliding_attention", "other"]}, "'other'"),
        ("gpt_oss", {"layer_types": [7, "full_attention"]}, "'int'"),
    ],
)
def test_an_unknown_kind_is_named(kind: str, config: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan(kind, 2, **config)
    assert what in caught.value.message
    assert "--weights DIR" in (caught.value.hint or "")
