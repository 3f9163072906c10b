"""A model's config becomes a kernel set: the shapes that FlashInfer names its modules by, what its weights ask for."""

from typing import Any

import pytest

from gb10.errors import UsageError
from gb10.image.recipe.kernel_sets import (
    FUSED_MOE,
    GEMM,
    SPARSE_MLA,
    content,
    entries,
    merged,
    model_set,
    read_sets,
    set_name,
    target_wheels,
)
from tests.recipes import SHIPPED

PLAIN = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "torch_dtype": "bfloat16"}
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
STATIC = {"config_groups": {"group_0": {"input_activations": {"dynamic": False, "num_bits": 8, "strategy": "tensor"}}}}
LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
BOTH = ["attention-bfloat16-bfloat16-128-128", "attention-bfloat16-float8_e4m3fn-128-128"]


def names(config: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in entries(model_set(config, "a/b", ["0.7.2"]))]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (PLAIN, ["cascade", *BOTH]),
        ({"text_config": PLAIN, "model_type": "a-vision-model"}, ["cascade", *BOTH]),
        (
            PLAIN | {"head_dim": 256, "dtype": "float16"},
            ["cascade", "attention-float16-float16-256-256", "attention-float16-float8_e4m3fn-256-256"],
        ),
        (PLAIN | {"quantization_config": NVFP4}, ["cascade", "fp4_gemm_cutlass_sm120", *BOTH]),
        (
            PLAIN | {"quantization_config": NVFP4, "num_experts": 128},
            ["cascade", "fp4_gemm_cutlass_sm120", "fused_moe_120", *BOTH],
        ),
        (PLAIN | {"quantization_config": STATIC, "num_local_experts": 8}, ["cascade", "fused_moe_120", *BOTH]),
        (
            PLAIN | {"quantization_config": {"quant_method": "fp8", "activation_scheme": "static"}, "num_experts": 8},
            ["cascade", "fused_moe_120", *BOTH],
        ),
        (
            PLAIN | {"quantization_config": {"producer": {}, "quantization": {"quant_algo": "NVFP4"}}},
            ["cascade", "fp4_gemm_cutlass_sm120", *BOTH],
        ),
        (PLAIN | {"text_config": None}, ["cascade", *BOTH]),
        (
            PLAIN | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, "num_experts": 8},
            ["cascade", *BOTH],
        ),
        (PLAIN | LATENT, ["cascade", "attention-bfloat16-latent-512-64", "attention-bfloat16-bfloat16-192-128"]),
        (
            PLAIN | LATENT | {"index_topk": 2048},
            ["cascade", "sparse_mla_sm120", "attention-bfloat16-latent-512-64", "attention-bfloat16-bfloat16-192-128"],
        ),
    ],
)
def test_what_a_config_asks_for(config: dict[str, Any], expected: list[str]) -> None:
    assert names(config) == expected


@pytest.mark.parametrize(
    ("more", "windows"),
    [
        ({"sliding_window": 4096}, {False, True}),
        ({"sliding_window": 4096, "use_sliding_window": False}, {False}),
        ({"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"]}, {False, True}),
        ({"sliding_window": 128, "layer_types": ["sliding_attention"] * 2}, {True}),
        ({"sliding_window": None, "layer_types": ["full_attention"]}, {False}),
    ],
)
def test_windows_are_those_of_the_layers(more: dict[str, Any], windows: set[bool]) -> None:
    group = model_set(PLAIN | more, "a/b", [])["group"]
    assert {entry["arguments"][4] for entry in group} == windows
    assert {entry["arguments"][5] for entry in group} == {False}


def test_a_soft_cap_is_another_module() -> None:
    assert all(name.endswith("-cap") for name in names(PLAIN | {"attn_logit_softcapping": 50.0})[1:])


@pytest.mark.parametrize("config", [{}, {"torch_dtype": "bfloat16"}, PLAIN | {"torch_dtype": "float32"}])
def test_a_config_that_is_no_decoders(config: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"cannot choose kernels from the config of a/b"):
        model_set(config, "a/b", [])


def test_a_set_stands_on_what_it_includes() -> None:
    sets = SHIPPED.toolkit.kernel_sets
    core, moe = ([entry["name"] for entry in entries(sets[f"flashinfer-{name}"])] for name in ("core", "moe"))
    assert moe[-len(core) :] == core
    assert "fused_moe_120" in moe[: -len(core)]
    raw = {**sets, f"flashinfer-{set_name('Org/A_b.1')}": model_set(PLAIN, "Org/A_b.1", ["0.7.2"])}
    whole = merged("flashinfer-for-org-a-b.1", raw)
    assert whole["flashinfer"] == ["0.7.2"]
    assert [entry["name"] for entry in entries(whole)] == ["cascade", *core, *BOTH]


BOTH_OF_LATENT = ["attention-bfloat16-latent-512-64", "attention-bfloat16-bfloat16-192-128"]


@pytest.mark.parametrize(
    ("config", "chosen", "expected"),
    [
        (PLAIN, {"TRITON_ATTN", "default_unquantized_gemm"}, []),
        (PLAIN, {"FLASHINFER", "default_unquantized_gemm"}, ["cascade", *BOTH]),
        (PLAIN | {"num_experts": 8}, {"TRITON_ATTN", "FlashInferExperts"}, ["fused_moe_120"]),
        (PLAIN | {"quantization_config": NVFP4}, {"TRITON_ATTN", "MarlinNvFp4LinearKernel"}, []),
        (
            PLAIN | {"quantization_config": NVFP4},
            {"FLASHINFER", "FlashInferCutlassNvFp4LinearKernel"},
            ["cascade", "fp4_gemm_cutlass_sm120", *BOTH],
        ),
        (PLAIN, {"triton", "experts flashinfer_mxfp4"}, ["fused_moe_120", "mxfp8_quantization_sm100", "tinygemm2"]),
        (PLAIN | LATENT | {"index_topk": 8}, {"TRITON_MLA"}, []),
        (
            PLAIN | LATENT | {"index_topk": 8},
            {"FLASHINFER_MLA_SPARSE_SM120"},
            ["cascade", "sparse_mla_sm120", *BOTH_OF_LATENT],
        ),
    ],
)
def test_the_engine_s_own_choice_comes_before_the_config(
    config: dict[str, Any], chosen: set[str], expected: list[str]
) -> None:
    assert [entry["name"] for entry in entries(model_set(config, "a/b", ["0.7.2"], chosen))] == expected


@pytest.mark.parametrize(
    "wrong", [{"head_dim": "128; evil()"}, {"head_dim": True}, {"hidden_size": None}, {"head_dim": 1 << 20}]
)
def test_a_size_is_a_number(wrong: dict[str, Any]) -> None:
    """It becomes a word of generated C++."""
    with pytest.raises(UsageError, match="not a whole number"):
        model_set(PLAIN | wrong, "a/b", [])


def test_names_costs_and_releases_are_in_no_key() -> None:
    one, other = (model_set(PLAIN, name, releases) for name, releases in (("a/b", ["1"]), ("./b", ["1", "2"])))
    assert content(one) == content(other)
    assert "cost" not in str(content(one))
    assert content(one) != content(model_set(PLAIN | {"head_dim": 64}, "a/b", ["1"]))


def test_a_module_that_a_model_asks_for_is_the_one_of_the_set_that_has_all() -> None:
    sets = SHIPPED.toolkit.kernel_sets
    known = {entry["name"]: entry for entry in entries(sets["flashinfer-moe"])}
    told: list[Any] = [FUSED_MOE, SPARSE_MLA, *GEMM.values()]
    assert told == [known[module["name"]] for module in told]


def test_what_a_module_reads_of_the_image_is_an_input_and_no_word_of_the_set() -> None:
    experts = model_set(PLAIN | {"quantization_config": STATIC, "num_local_experts": 8}, "a/b", [])
    assert target_wheels(experts) == ("nvidia-cuda-nvrtc",)
    assert target_wheels(model_set(PLAIN, "a/b", [])) == ()
    assert "nvrtc" not in str(content(experts))


def test_sets_that_include_each_other() -> None:
    raw = {f"f-{name}": {"name": name, "includes": [other], "flashinfer": []} for name, other in ("xy", "yx")}
    with pytest.raises(UsageError, match="the kernel set y includes 'x'"):
        merged("f-x", raw)


@pytest.mark.parametrize(("text", "error"), [(b"name = 1 2", "cannot read"), (b'name = "x"\nincludes = ["y"]', "'y'")])
def test_a_set_that_cannot_be_read(text: bytes, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        read_sets({"kernels/flashinfer-x.toml": text})


@pytest.mark.parametrize(
    "change",
    [
        {"text_config": []},
        {"text_config": "x"},
        {"text_config": 1},
        {"torch_dtype": ["bfloat16"]},
        {"num_attention_heads": "32"},
        {"num_attention_heads": 10**5000},
        {"hidden_size": 1},
        {"hidden_size": [4096]},
        {"sliding_window": 1, "layer_types": 7},
        {"sliding_window": 1, "layer_types": {"a": 1}},
        {"quantization_config": ["fp8"]},
        {"quantization_config": {"quant_method": ["fp8"]}},
        {"quantization_config": {"quant_algo": {"a": 1}}},
        {"quantization_config": {"quantization": [1]}},
        {"quantization_config": {"config_groups": [1]}},
        {"quantization_config": {"config_groups": {"a": [1]}}},
        {"quantization_config": {"config_groups": {"a": {"input_activations": "x"}}}},
    ],
)
def test_a_config_of_other_types_is_one_error(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        names(PLAIN | change)
    assert len(str(caught.value)) < 500
