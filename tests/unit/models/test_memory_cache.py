"""The cache of a token, of a window and of a state, for published configs; sizes as the engines' makers state them."""

import json

import pytest

from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.models.memory.cache import Cache, CacheLayer, NumberFormats, cache_of, number_size
from gb10.models.memory.model import model_of
from gb10.models.memory.shapes.config_fields import Fields, layer_plan

LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}


def cache(config: dict[str, object], tensor: int = 1, number: float = 2.0) -> Cache:
    fields = Fields(config)
    return cache_of(fields, layer_plan(fields), tensor, NumberFormats(number=number))


def test_grouped_heads_take_128_kib_a_token() -> None:
    """Llama 3 8B: 2 tensors of 8 heads of 128 in two bytes, 32 layers."""
    assert cache(LLAMA_8B).token == 128 * 1024
    assert cache(LLAMA_8B, number=1.0).token == 64 * 1024
    assert [cache(LLAMA_8B, ranks).token // 1024 for ranks in (2, 8, 16)] == [64, 16, 16]
    assert cache(LLAMA_8B).layers == (CacheLayer(kind="full", size=4096.0),) * 32


def test_a_latent_takes_70272_bytes_a_token_on_each_rank() -> None:
    """DeepSeek-V3: 576 numbers of two bytes in 61 layers, as its makers state (arXiv 2412.19437)."""
    assert cache(DEEPSEEK_V3).token == cache(DEEPSEEK_V3, 8).token == 70_272
    assert {layer.latent for layer in cache(DEEPSEEK_V3).layers} == {True}


def test_ling_3_keeps_what_a_log_of_its_makers_says() -> None:
    """Ling-3.0-tiny by SGLang on a DGX Spark: 12.45 GiB hold 1,933,682 tokens, 614 states take 0.38 and 10.81 GiB."""
    path = ROOT / "tests/unit/data/memory/configs/inclusionAI--Ling-3.0-tiny.json"
    found = cache(json.loads(path.read_text(encoding="utf-8"))["config"])
    assert found.token == pytest.approx(12.45 * 2**30 / 1_933_682, rel=0.001)
    assert found.state == pytest.approx((0.38 + 10.81) * 2**30 / 614, rel=0.01)
    older = {"model_type": "bailing_hybrid", "layer_group_size": 4, "kv_lora_rank": 512}
    assert Fields(older).kind == "bailing_lightning", "Ling 2.5 has the same type, and other layers"


def test_sparse_attention_adds_an_index_to_a_latent() -> None:
    """vLLM's fp8_ds_mla has 656 bytes; the index is one head of 128 in FP8 with a scale of four bytes."""
    sparse = {**DEEPSEEK_V3, "index_topk": 2048, "index_head_dim": 128}
    assert cache(sparse, number=1.0).token == 61 * (656 + 132)
    assert cache(sparse).token == 61 * (2 * 576 + 132)


def test_windows_are_kept_apart_from_whole_layers() -> None:
    """gpt-oss-20b: every second layer sees 128 tokens."""
    oss = {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_hidden_layers": 24,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    }
    found = cache(oss)
    assert (found.token, found.windows, found.windowed) == (12 * 2048.0, ((12 * 2048.0, 128),), 12 * 2048.0)
    assert {layer.kind for layer in found.layers} == {"full", "window"}
    assert found.of_request(1000) == 1008 * 24_576 + 128 * 24_576
    assert found.of_request(1000, ahead=500) == 1008 * 24_576 + 628 * 24_576
    assert found.of_request(100) == 112 * 24_576 + 100 * 24_576
    assert found.of_request(1000, block=64) == 1024 * 24_576 + 128 * 24_576


def test_layers_that_read_anothers_cache_keep_none_in_vllm_and_have_room_in_sglang() -> None:
    config = {
        **{"model_type": "gemma4_text", "hidden_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 8},
        **{"num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "sliding_window": 512},
        **{"num_kv_shared_layers": 3, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2},
    }
    fields = Fields(config)
    shared, unshared = (
        cache_of(fields, layer_plan(fields), 1, NumberFormats(number=2.0, unshared=one)) for one in (False, True)
    )
    assert (shared.token, unshared.token) == (2048, 4096)
    assert unshared.windowed == 2 * shared.windowed


def test_llama4_keeps_chunks() -> None:
    llama4 = {**LLAMA_8B, "model_type": "llama4_text", "num_hidden_layers": 4, "attention_chunk_size": 8192}
    found = cache(llama4)
    assert [layer.kind for layer in found.layers] == ["chunk", "chunk", "chunk", "full"]
    assert found.windows == ((3 * 4096.0, 8192),)
    mistral = {**LLAMA_8B, "sliding_window": 4096, "attention_chunk_size": 8192, "num_hidden_layers": 1}
    assert cache(mistral).windows == ((4096.0, 4096),)


def test_a_state_has_the_size_of_its_heads_whatever_the_length() -> None:
    """Qwen3-Next: 36 of 48 layers keep 3 inputs of 8192 channels in two bytes, and 32 x 128 x 128 in four."""
    each = 3 * 8192 * 2 + 32 * 128 * 128 * 4
    found = cache(QWEN3_NEXT)
    assert (found.state, found.token) == (36 * each, 12 * 2 * 2 * 256 * 2)
    assert cache(QWEN3_NEXT, 2).state == 18 * each
    assert found.of_request(0) == 36 * each
    assert found.of_request(0, copies=3) == 108 * each
    states = {layer for layer in found.layers if layer.kind == "state"}
    assert states == {CacheLayer(kind="state", size=each, step=8192 * 2, checkpoint=64)}


@pytest.mark.parametrize("name", ["mamba_ssm_dtype", "mamba_ssm_cache_dtype"])
def test_a_config_may_ask_for_states_of_two_bytes(name: str) -> None:
    assert cache({**QWEN3_NEXT, name: "bfloat16"}).state == 36 * (3 * 8192 * 2 + 32 * 128 * 128 * 2)
    assert cache({**QWEN3_NEXT, name: "float32"}).state == cache(QWEN3_NEXT).state


def test_only_heads_of_128_have_checkpoints() -> None:
    other = cache({**QWEN3_NEXT, "linear_key_head_dim": 64})
    assert {layer.checkpoint for layer in other.layers} == {0}


def test_mamba_keeps_a_state_at_any_token() -> None:
    """Nemotron-H: the convolution takes the heads and two inputs for each group."""
    hybrid = {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "M-*E",
        "num_hidden_layers": 4,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "n_groups": 8,
        "ssm_state_size": 128,
        "conv_kernel": 4,
    }
    found = cache(hybrid)
    mixed = 128 * 64 + 2 * 8 * 128
    assert found.state == 3 * mixed * 2 + 128 * 64 * 128 * 4
    assert [layer.checkpoint for layer in found.layers if layer.kind == "state"] == [1]
    assert (found.token, len(found.layers)) == (4096, 2)


def test_kimi_linear_has_latents_beside_its_states() -> None:
    kimi = {
        **DEEPSEEK_V3,
        "model_type": "kimi_linear",
        "num_hidden_layers": 4,
        "linear_attn_config": {
            "kda_layers": [1, 2, 3],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    }
    found = cache(kimi)
    assert found.token == 2 * 576
    assert found.state == 3 * (3 * (3 * 32 * 128) * 2 + 32 * 128 * 128 * 4)
    assert {layer.checkpoint for layer in found.layers} == {0}


LFM2_MOE: dict[str, object] = {
    "model_type": "lfm2_moe",
    "dtype": "bfloat16",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 7168,
    "moe_intermediate_size": 1792,
    "num_experts": 32,
    "num_dense_layers": 2,
    "vocab_size": 128000,
    "conv_L_cache": 3,
    "layer_types": ["full_attention" if number in (2, 6, 10, 14, 18, 21) else "conv" for number in range(24)],
}
"""LFM2.5-8B-A1B."""


def test_a_gated_convolution_keeps_its_last_inputs() -> None:
    """8.47 billion parameters, 16.9 GB: the list of its tensors has 16,935,713,536 bytes with its norms and biases."""
    found = cache(LFM2_MOE)
    assert found.token == 6 * 2 * 512 * 2
    assert found.state == 18 * 2 * 2048 * 2
    assert cache(LFM2_MOE, 2).state == found.state / 2
    assert model_of(LFM2_MOE, "o/m", "its config").total == pytest.approx(16_935_713_536, rel=0.001)


def test_a_dense_lfm2_has_two_thirds_of_its_inner_width_in_whole_blocks() -> None:
    """LFM2-1.2B: 12,288 columns become 8,192, and 1.17 billion parameters."""
    small = {
        **{**LFM2_MOE, "model_type": "lfm2", "num_experts": None, "num_dense_layers": None},
        **{"num_hidden_layers": 16, "intermediate_size": 12288, "vocab_size": 65536},
        "layer_types": ["full_attention" if number in (2, 5, 8, 10, 12, 14) else "conv" for number in range(16)],
    }
    assert model_of(small, "o/m", "its config").total == pytest.approx(2 * 1.17e9, rel=0.005)
    whole = model_of({**small, "block_auto_adjust_ff_dim": False}, "o/m", "its config").total
    assert whole - model_of(small, "o/m", "its config").total == 16 * 3 * 2048 * 4096 * 2
    half = {**small, "intermediate_size": None, "block_ff_dim": 6144, "block_ffn_dim_multiplier": 2.0}
    assert model_of(half, "o/m", "its config").total == model_of(small, "o/m", "its config").total
    listed = {**small, "layer_types": None, "full_attn_idxs": [2, 5, 8, 10, 12, 14]}
    assert cache(listed) == cache(small)
    with pytest.raises(UsageError, match="block_ffn_dim_multiplier is -1"):
        model_of({**small, "block_ffn_dim_multiplier": -1}, "o/m", "its config")


def test_deepseek_v4_keeps_one_entry_for_each_ratio() -> None:
    v4 = {
        "model_type": "deepseek_v4",
        "hidden_size": 4096,
        "num_hidden_layers": 3,
        "num_attention_heads": 64,
        "compress_ratios": [0, 4, 128],
        "index_head_dim": 128,
    }
    found = cache(v4)
    assert found.token == (584 + 132) / 4 + 584 / 128
    assert found.windows == ((3 * 584.0, 128),)
    assert found.layers == ()
    assert cache({**v4, "sliding_window": 64}).windows == ((3 * 584.0, 64),)


def test_a_layer_that_keeps_nothing_has_no_page() -> None:
    file = ROOT / "recipes/models/configs/deepseek-ai--DeepSeek-V4.1-Flash.json"
    v41 = json.loads(file.read_text(encoding="utf-8"))["config"]["text_config"]
    assert any(page.ring for page in cache(v41).pages)
    assert not any(page.ring for page in cache({**v41, "head_dim": 0}).pages)
    assert all(page.size for page in cache({**v41, "head_dim": 0}).pages)


def test_entries_of_deepseek_v41_alone_are_smaller_in_four_bits() -> None:
    """Entries of 584 bytes in FP8 and of 288 in four bits; the window stays as it is."""
    file = ROOT / "recipes/models/configs/deepseek-ai--DeepSeek-V4.1-Flash.json"
    v41 = json.loads(file.read_text(encoding="utf-8"))["config"]["text_config"]
    eight, four = cache(v41, number=1.0), cache(v41, number=0.5)
    assert four.windows == eight.windows
    entries = (eight.token - four.token) / (584 - 288)
    index = eight.token - 584 * entries
    assert 0 < index < eight.token
    older = {**v41, "model_type": "deepseek_v4"}
    assert cache(older, number=0.5).token == cache(older, number=1.0).token


def test_an_index_of_blocks_stands_in_sparse_layers_only() -> None:
    """MiniMax-M3: layers before the first with experts have no index."""
    minimax = {
        **LLAMA_8B,
        "num_hidden_layers": 2,
        "num_local_experts": 8,
        "first_k_dense_replace": 1,
        "sparse_attention_config": {"sparse_index_dim": 128},
    }
    assert [layer.size for layer in cache(minimax).layers] == [4096.0, 4096.0 + 256]
    assert [layer.size for layer in cache(minimax, number=0.5).layers] == [1024.0, 1024.0 + 128]


@pytest.mark.parametrize(
    ("word", "width", "of_file", "size"),
    [
        ("auto", 2, None, 2.0),
        ("", 4, None, 2.0),
        ("auto", 1, None, 1.0),
        ("auto", 2, "fp8", 1.0),
        ("fp8_e4m3", 2, None, 1.0),
        ("nvfp4", 2, None, 0.5 + 1 / 16),
        ("float32", 2, "fp8", 4.0),
    ],
)
def test_the_type_of_the_cache(word: str, width: int, of_file: str | None, size: float) -> None:
    assert number_size(word, width, of_file) == size


def test_an_unknown_type_of_the_cache_is_refused() -> None:
    with pytest.raises(UsageError, match="'int3' is not known") as caught:
        number_size("int3", 2, None)
    assert "fp8_e5m2" in (caught.value.hint or "")
