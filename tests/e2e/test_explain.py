"""explain against the engine itself: the kernels that vLLM's built layers hold, for sixteen formats and shapes."""

import json
import os
from pathlib import Path

import pytest

from gb10.errors import UsageError, VerifyError
from gb10.explain.engine_choice import ask_engine, refuse
from gb10.explain.engine_facts import EngineFacts, read_facts
from gb10.explain.engine_files import engine_files
from gb10.explain.layer_rows import Answer
from gb10.lock.lockfile import load_lock
from gb10.plan.catalog import ROOT
from gb10.workshop import Workshop, open_workshop

pytestmark = pytest.mark.e2e
MODELS = ROOT / "tests/unit/data/explain"
CHOSEN = {
    "awq": {"FLASH_ATTN", "MarlinLinearKernel"},
    "dense-bf16": {"FLASH_ATTN", "default_unquantized_gemm"},
    "fp8-block": {"FLASH_ATTN", "DeepGemmFp8BlockScaledMMKernel"},
    "fp8-tensor": {"FLASH_ATTN", "FlashInferFP8ScaledMMLinearKernel"},
    "gptq-int4": {"FLASH_ATTN", "MarlinLinearKernel"},
    "hybrid-mamba": {"FLASH_ATTN", "MAMBA2_ATTN", "default_unquantized_gemm"},
    "mla": {"TRITON_MLA", "FlashInferExperts", "default_unquantized_gemm"},
    "modelopt-nvfp4": {"FLASHINFER", "FlashInferCutlassNvFp4LinearKernel"},
    "moe-bf16": {"FLASH_ATTN", "FlashInferExperts", "default_unquantized_gemm"},
    "moe-fp8-block": {"FLASH_ATTN", "DeepGemmFp8BlockScaledMMKernel", "TritonOrDeepGemmExperts"},
    "moe-nvfp4": {
        "FLASH_ATTN",
        "FlashInferCutlassNvFp4LinearKernel",
        "FlashInferExperts",
        "default_unquantized_gemm",
    },
    "mxfp4-moe-sinks": {"TRITON_ATTN", "MarlinExperts", "default_unquantized_gemm"},
    "nvfp4": {"FLASH_ATTN", "FlashInferCutlassNvFp4LinearKernel"},
    "sliding-windows": {"FLASH_ATTN", "default_unquantized_gemm"},
    "w4a16": {"FLASH_ATTN", "MarlinLinearKernel"},
    "w8a8-fp8-token": {"FLASH_ATTN", "CutlassFP8ScaledMMLinearKernel"},
}


@pytest.fixture(scope="module", name="shop")
def workshop() -> Workshop:
    return open_workshop(os.environ, verbosity=-1)


@pytest.fixture(scope="module", name="files")
def unpacked(shop: Workshop) -> Path:
    wheels = {wheel.name: wheel for wheel in load_lock(ROOT / "recipes/images/vllm.lock.json").wheels.image["arm64"]}
    return engine_files(shop, read_facts(ROOT, "vllm")[1], [wheels["vllm"], wheels["flashinfer-python"]])


def ask(shop: Workshop, files: Path, config: dict[str, object], facts: EngineFacts | None = None) -> Answer:
    return ask_engine(shop, facts or read_facts(ROOT, "vllm")[0], files, config, {})


def config_of(name: str) -> dict[str, object]:
    config: dict[str, object] = json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8"))
    return config


@pytest.mark.parametrize("name", sorted(CHOSEN))
def test_explain_says_what_the_built_layers_hold(shop: Workshop, files: Path, name: str) -> None:
    answer = ask(shop, files, config_of(name))
    assert answer.stopped is None
    assert {row.chosen for row in answer.rows if row.kind != "embedding"} == CHOSEN[name]
    for row in answer.rows:
        assert row.held is None or row.held == row.chosen, row.name


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
