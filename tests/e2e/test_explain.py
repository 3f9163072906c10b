"""explain against the engine itself: the kernels that vLLM's built layers hold, for sixteen formats and shapes."""

from pathlib import Path

import pytest

from gb10.errors import UsageError, VerifyError
from gb10.explain.engine_choice import ask_engine, refuse
from gb10.explain.engine_facts import EngineFacts, read_facts
from gb10.explain.layer_rows import Answer
from gb10.plan.catalog import ROOT
from gb10.workshop import Workshop
from tests.e2e.explained import config_of, files_of

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


@pytest.fixture(scope="module", name="files")
def unpacked(shop: Workshop) -> Path:
    return files_of(shop, "vllm")


def ask(shop: Workshop, files: Path, config: dict[str, object], facts: EngineFacts | None = None) -> Answer:
    return ask_engine(shop, facts or read_facts(ROOT, "vllm")[0], files, config, {})


@pytest.mark.parametrize("name", sorted(CHOSEN))
def test_explain_says_what_the_built_layers_hold(shop: Workshop, files: Path, name: str) -> None:
    answer = ask(shop, files, config_of(name))
    assert answer.stopped is None
    assert {row.chosen for row in answer.rows if row.kind != "embedding"} == CHOSEN[name]
    for row in answer.rows:
        assert row.held is None or row.held == row.chosen, row.name


def test_upstream_s_first_choice_of_attention_stays_a_choice(shop: Workshop, files: Path) -> None:
    facts, options = read_facts(ROOT, "vllm")[0], {"attention_backend": "FLASH_ATTN"}
    assert "FLASH_ATTN" in {row.chosen for row in ask_engine(shop, facts, files, config_of("dense-bf16"), options).rows}
    older = facts.model_copy(update={"capability": (9, 0)})
    assert "FLASH_ATTN" in {row.chosen for row in ask(shop, files, config_of("dense-bf16"), older).rows}


def test_another_capability_gives_another_answer(shop: Workshop, files: Path) -> None:
    facts = read_facts(ROOT, "vllm")[0].model_copy(update={"capability": (9, 0)})
    answer = ask(shop, files, config_of("w4a16"), facts)
    assert "MacheteLinearKernel" in {row.chosen for row in answer.rows}


def test_no_backend_is_an_error_with_each_reason(shop: Workshop, files: Path) -> None:
    facts = read_facts(ROOT, "vllm")[0]
    answer = ask_engine(shop, facts, files, config_of("mxfp4-moe-sinks"), {"kv_cache_dtype": "nvfp4"})
    with pytest.raises(VerifyError, match="no backend for this model") as caught:
        refuse(answer, "vllm")
    assert "TRITON_ATTN: kv_cache_dtype not supported" in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [{}, {"model_type": "nobody", "architectures": ["NobodyForCausalLM"]}, {"model_type": "qwen3", "hidden_size": "x"}],
)
def test_a_config_that_the_engine_cannot_read_leaves_it_unknown(
    shop: Workshop, files: Path, config: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match="unknown"):
        refuse(ask(shop, files, config), "vllm")
