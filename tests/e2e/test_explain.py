"""explain against the engine itself: the kernels that vLLM's built layers hold, for sixteen formats and shapes."""

from pathlib import Path

import pytest

from gb10.errors import UsageError, VerifyError
from gb10.image.context import Context
from gb10.image.explain.engine_choice import Held, Question, ask_engine, ask_models, refuse
from gb10.image.explain.engine_files import EngineFacts, read_facts
from gb10.image.explain.layer_rows import Answer
from gb10.image.plan.catalog import ROOT
from gb10.image.request.kernel_choice import local_files
from tests.e2e.explained import MODELS, config_of, files_of

pytestmark = pytest.mark.e2e
CHOSEN = {
    "awq": {"TRITON_ATTN", "MarlinLinearKernel"},
    "dense-bf16": {"TRITON_ATTN", "default_unquantized_gemm"},
    "fp8-block": {"TRITON_ATTN", "DeepGemmFp8BlockScaledMMKernel"},
    "fp8-tensor": {"TRITON_ATTN", "FlashInferFP8ScaledMMLinearKernel"},
    "gptq-int4": {"TRITON_ATTN", "MarlinLinearKernel"},
    "hybrid-mamba": {"TRITON_ATTN", "MAMBA2_ATTN", "default_unquantized_gemm"},
    "mla": {"TRITON_MLA", "FlashInferExperts", "default_unquantized_gemm"},
    "modelopt-nvfp4": {"FLASHINFER", "FlashInferCutlassNvFp4LinearKernel"},
    "moe-bf16": {"TRITON_ATTN", "FlashInferExperts", "default_unquantized_gemm"},
    "moe-fp8-block": {"TRITON_ATTN", "DeepGemmFp8BlockScaledMMKernel", "TritonOrDeepGemmExperts"},
    "moe-nvfp4": {
        "TRITON_ATTN",
        "FlashInferCutlassNvFp4LinearKernel",
        "FlashInferExperts",
        "default_unquantized_gemm",
    },
    "mxfp4-moe-sinks": {"TRITON_ATTN", "MarlinExperts", "default_unquantized_gemm"},
    "nvfp4": {"TRITON_ATTN", "FlashInferCutlassNvFp4LinearKernel"},
    "sliding-windows": {"TRITON_ATTN", "default_unquantized_gemm"},
    "w4a16": {"TRITON_ATTN", "MarlinLinearKernel"},
    "w8a8-fp8-token": {"TRITON_ATTN", "CutlassFP8ScaledMMLinearKernel"},
}


PUBLIC = {
    "qwen3.6-27b-fp8": {"CutlassFp8BlockScaledMMKernel", "TRITON_ATTN", "GDN_ATTN", "FLASH_ATTN"},
    "google--gemma-4-26B-A4B": {"FlashInferExperts", "TRITON_ATTN", "default_unquantized_gemm"},
    "Qwen--Qwen3-VL-8B-Instruct": {"TRITON_ATTN", "FLASH_ATTN", "default_unquantized_gemm"},
    "deepseek-ai--DeepSeek-V4-Flash": {"FLASHINFER_MLA_SPARSE_DSV4", "DeepGemmFP4Experts"},
    "moonshotai--Kimi-K2.5": {"TRITON_MLA", "MarlinExperts", "FLASH_ATTN"},
    "nvidia--NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": {"MarlinExperts", "FLASHINFER", "MAMBA2_ATTN"},
    "unsloth--Qwen3.6-35B-A3B-NVFP4": {"FlashInferExperts", "CutlassFP8ScaledMMLinearKernel"},
}
"""Models with vision, states in place of a cache, tables of FlashInfer, a quantization file of their own."""


@pytest.fixture(scope="module", name="files")
def unpacked(ctx: Context) -> Path:
    return files_of(ctx, "vllm")


def ask(ctx: Context, files: Path, config: dict[str, object], facts: EngineFacts | None = None) -> Answer:
    return ask_engine(ctx, facts or read_facts(ROOT, "vllm")[0], files, config, {})


@pytest.mark.parametrize("name", sorted(CHOSEN))
def test_explain_says_what_the_built_layers_hold(ctx: Context, files: Path, name: str) -> None:
    answer = ask(ctx, files, config_of(name))
    assert answer.stopped is None
    assert {row.chosen for row in answer.rows if row.kind != "embedding"} == CHOSEN[name]
    for row in answer.rows:
        assert row.held is None or row.held == row.chosen, row.name


def test_models_with_vision_states_and_own_quantization_files_are_answered(ctx: Context, files: Path) -> None:
    question = Question(facts=read_facts(ROOT, "vllm")[0], files=files, options={}, held=Held())
    configs = [local_files(MODELS / "public" / name) for name in PUBLIC]
    for name, answer in zip(PUBLIC, ask_models(ctx, question, configs), strict=True):
        assert answer.stopped is None, name
        assert {row.chosen for row in answer.rows} >= PUBLIC[name], name


def test_the_choice_of_a_patch_is_told_with_that_of_the_stock_release(ctx: Context, files: Path) -> None:
    facts, held = read_facts(ROOT, "vllm")[0], Held(kernels="12.1f", beside=True)
    rows = ask_engine(ctx, facts, files, config_of("moe-fp8-token"), {}, held=held).rows
    told = {row.kind: (row.chosen, row.upstream) for row in rows if row.upstream}
    assert told == {"attention": ("TRITON_ATTN", "FLASH_ATTN"), "experts": ("TritonOrCutlassExperts", "TritonExperts")}
    stock = ask_engine(ctx, facts, files, config_of("moe-fp8-token"), {}, held=Held(stock=True)).rows
    assert {"FLASH_ATTN", "TritonExperts"} <= {row.chosen for row in stock}


def test_experts_per_channel_without_our_package_are_triton_s(ctx: Context, files: Path) -> None:
    assert "TritonExperts" in {row.chosen for row in ask(ctx, files, config_of("moe-fp8-token")).rows}


def test_a_model_that_the_release_does_not_know_is_named(ctx: Context, files: Path) -> None:
    answer = ask(ctx, files, {"architectures": ["NobodyForCausalLM"], "model_type": "nobody"})
    with pytest.raises(UsageError, match="its registry has no NobodyForCausalLM, model_type nobody"):
        refuse(answer, "vllm")


def test_upstream_s_first_choice_of_attention_stays_a_choice(ctx: Context, files: Path) -> None:
    facts, options = read_facts(ROOT, "vllm")[0], {"attention_backend": "FLASH_ATTN"}
    assert "FLASH_ATTN" in {row.chosen for row in ask_engine(ctx, facts, files, config_of("dense-bf16"), options).rows}
    older = facts.model_copy(update={"capability": (9, 0)})
    assert "FLASH_ATTN" in {row.chosen for row in ask(ctx, files, config_of("dense-bf16"), older).rows}


def test_another_capability_gives_another_answer(ctx: Context, files: Path) -> None:
    facts = read_facts(ROOT, "vllm")[0].model_copy(update={"capability": (9, 0)})
    answer = ask(ctx, files, config_of("w4a16"), facts)
    assert "MacheteLinearKernel" in {row.chosen for row in answer.rows}


def test_no_backend_is_an_error_with_each_reason(ctx: Context, files: Path) -> None:
    facts = read_facts(ROOT, "vllm")[0]
    answer = ask_engine(ctx, facts, files, config_of("mxfp4-moe-sinks"), {"kv_cache_dtype": "nvfp4"})
    with pytest.raises(VerifyError, match="no backend for this model") as caught:
        refuse(answer, "vllm")
    assert "TRITON_ATTN: kv_cache_dtype not supported" in str(caught.value)


@pytest.mark.parametrize("config", [{}, {"model_type": "qwen3", "hidden_size": "x"}])
def test_a_config_that_the_engine_cannot_read_leaves_it_unknown(
    ctx: Context, files: Path, config: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match="unknown"):
        refuse(ask(ctx, files, config), "vllm")
