"""explain against SGLang itself: the kernels that the methods of its built layers call, for sixteen models."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gb10.core.proc import capture
from gb10.errors import UsageError, VerifyError
from gb10.image.context import Context
from gb10.image.explain import engine_choice
from gb10.image.explain.engine_choice import ask_engine, refuse
from gb10.image.explain.engine_files import EngineFacts, read_facts
from gb10.image.explain.layer_rows import Answer
from gb10.image.plan.catalog import ROOT
from tests.e2e.explained import config_of, files_of

pytestmark = pytest.mark.e2e
INSIDE = Path(__file__).parent / "inside"
BLOCK_FP8 = "SGLang fp8_blockwise_scaled_mm"
NVFP4 = "FlashInfer fp4_gemm_cutlass_sm120"
CHOSEN: dict[str, set[str | None]] = {
    "awq": {"flashinfer", "SGLang gptq_marlin"},
    "dense-bf16": {"flashinfer", "torch mm"},
    "fp8-block": {"flashinfer", BLOCK_FP8},
    "fp8-tensor": {"flashinfer", "torch _scaled_mm"},
    "gptq-int4": {"flashinfer", "SGLang gptq_marlin"},
    "hybrid-mamba": {"flashinfer", "Mamba2AttnBackend", "torch mm", None},  # its conv1d belongs to the mixer
    "mla": {"triton", "experts triton", "torch mm"},
    "modelopt-nvfp4": {"flashinfer", NVFP4},
    "moe-bf16": {"flashinfer", "experts triton", "torch mm"},
    "moe-fp8-block": {"flashinfer", "experts triton", BLOCK_FP8, "torch mm"},
    "moe-nvfp4": {"flashinfer", "experts flashinfer_cutlass", NVFP4, "torch mm"},
    "mxfp4-moe-sinks": {"triton", "experts flashinfer_mxfp4", "torch mm"},
    "nvfp4": {"flashinfer", NVFP4},
    "sliding-windows": {"flashinfer", "torch mm"},
    "w4a16": {"flashinfer", "SGLang gptq_marlin"},
    "w8a8-fp8-token": {"flashinfer", "sgl_kernel fp8_scaled_mm"},
}


COPIED = """
import sys
sys.path[:0] = sys.argv[1:]
import torch
from gb10.image.explain.child.shared.meta_tensors import NoMemory
host = torch.full((3,), 7)
with NoMemory():
    host.copy_(torch.ones(3, dtype=host.dtype, device="cuda"))
print(host.tolist())
"""


@pytest.fixture(scope="module", name="files")
def unpacked(ctx: Context) -> Path:
    return files_of(ctx, "sglang")


@pytest.fixture(scope="module", name="facts")
def sglang_facts() -> EngineFacts:
    return read_facts(ROOT, "sglang")[0]


def chosen(answer: Answer) -> set[str | None]:
    return {row.chosen for row in answer.rows if row.kind != "embedding"}


@pytest.mark.parametrize("name", sorted(CHOSEN))
def test_explain_says_what_the_methods_of_the_built_layers_call(
    ctx: Context, files: Path, facts: EngineFacts, name: str
) -> None:
    answer = ask_engine(ctx, facts, files, config_of(name), {})
    assert answer.stopped is None
    assert chosen(answer) == CHOSEN[name]
    held = {row.held for row in answer.rows if row.held}
    assert held == ({"cutlass_w8a8_block_fp8_linear_with_fallback"} if BLOCK_FP8 in CHOSEN[name] else set())


def test_other_options_are_asked_one_by_one(ctx: Context, files: Path, facts: EngineFacts) -> None:
    answer = ask_engine(ctx, facts, files, config_of("fp8-block"), {})
    linear = next(row for row in answer.rows if row.kind == "linear")
    assert linear.options["--fp8-gemm-backend triton"] == "Triton _w8a8_block_fp8_matmul"
    assert "requires SM100/SM103" in linear.refused["--fp8-gemm-backend flashinfer_trtllm"]
    assert not any("--fp4-gemm-backend" in option for option in linear.options)
    attention = next(row for row in answer.rows if row.kind == "attention")
    assert "requires SM>=80 and SM<=90" in attention.refused["--attention-backend fa3"]
    for nowhere in ("aiter", "intel_amx", "wave", "hpc_ops", "flashmla"):
        assert f"--attention-backend {nowhere}" in attention.refused
        assert f"--attention-backend {nowhere}" not in attention.options


@pytest.mark.parametrize(
    ("options", "kernel"),
    [({"attention_backend": "triton"}, "triton"), ({"moe_backend": "triton"}, "experts triton")],
)
def test_an_option_is_the_engine_s_own(
    ctx: Context, files: Path, facts: EngineFacts, options: Mapping[str, str], kernel: str
) -> None:
    assert kernel in chosen(ask_engine(ctx, facts, files, config_of("moe-bf16"), options))


def test_another_capability_gives_another_answer(ctx: Context, files: Path, facts: EngineFacts) -> None:
    hopper = facts.model_copy(update={"capability": (9, 0)})
    assert "fa3" in chosen(ask_engine(ctx, hopper, files, config_of("dense-bf16"), {}))


def test_no_backend_is_an_error_with_each_reason(ctx: Context, files: Path, facts: EngineFacts) -> None:
    old = facts.model_copy(update={"capability": (7, 0)})
    answer = ask_engine(ctx, old, files, config_of("moe-nvfp4"), {})
    with pytest.raises(VerifyError, match="no backend for this model"):
        refuse(answer, "sglang")


def test_a_format_that_sglang_itself_refuses_on_a_gb10_has_no_backend(
    ctx: Context, files: Path, facts: EngineFacts
) -> None:
    """Its fp8.py makes the weights of experts in MXFP8 ready for capability 10.x alone, whatever the runner."""
    answer = ask_engine(ctx, facts, files, config_of("moe-mxfp8"), {})
    assert answer.stopped is not None
    assert "MXFP8 MoE quantization requires SM100" in answer.stopped
    assert {name.partition(" ")[0] for name, _ in answer.tried} == {"--moe-runner-backend"}
    with pytest.raises(VerifyError, match="no backend for this model"):
        refuse(answer, "sglang")


def test_the_same_format_has_a_backend_elsewhere(ctx: Context, files: Path, facts: EngineFacts) -> None:
    blackwell = facts.model_copy(update={"capability": (10, 0), "flags": {}})
    assert ask_engine(ctx, blackwell, files, config_of("moe-mxfp8"), {}).stopped is None


def test_a_mistake_in_building_the_layers_is_not_a_missing_backend(
    ctx: Context, files: Path, facts: EngineFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"
    shutil.copytree(engine_choice.CHILD, child)
    shutil.copy(INSIDE / "broken_builder.py", child)
    monkeypatch.setattr(engine_choice, "CHILD", child)
    broken = facts.model_copy(update={"script": "broken_builder"})
    answer = ask_engine(ctx, broken, files, config_of("dense-bf16"), {})
    assert answer.stopped == "RuntimeError: no layer was built"
    with pytest.raises(UsageError, match="unknown"):
        refuse(answer, "sglang")


@pytest.mark.parametrize(
    "change",
    [
        {"num_key_value_heads": 0},
        {"rope_scaling": {"rope_type": "nobody", "factor": 2.0}},
        {"quantization_config": {"quant_method": "nobody"}},
    ],
)
def test_what_no_gpu_can_serve_is_not_a_missing_backend(
    ctx: Context, files: Path, facts: EngineFacts, change: dict[str, object]
) -> None:
    answer = ask_engine(ctx, facts, files, config_of("dense-bf16") | change, {})
    with pytest.raises(UsageError, match="unknown"):
        refuse(answer, "sglang")


@pytest.mark.parametrize(
    "config",
    [{}, {"model_type": "nobody", "architectures": ["NobodyForCausalLM"]}, {"model_type": "qwen3", "hidden_size": "x"}],
)
def test_a_config_that_the_engine_cannot_read_leaves_it_unknown(
    ctx: Context, files: Path, facts: EngineFacts, config: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match=r"unknown|does not know this model"):
        refuse(ask_engine(ctx, facts, files, config, {}), "sglang")


def test_what_the_host_copies_from_a_tensor_without_memory_is_zero(files: Path) -> None:
    """What else lies in the host's memory would be tokens: a rehearsal would end requests by chance."""
    argv = [sys.executable, "-I", "-S", "-c", COPIED, str(ROOT), str(files / "site")]
    assert capture(argv).splitlines()[-1] == "[0, 0, 0]"
