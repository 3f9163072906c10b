"""flashinfer/0006 and 0007 on the real release: what is left out has no caller, what is split is compiled once."""

import re

import pytest

from tests.integration.patches.releases import original, patched

pytestmark = pytest.mark.integration

VERSION = "0.7.2.post1"
PRUNED, SPLIT = "0006-moe-kernels-that-can-run", "0007-mxfp8-unit-per-kind"
BACKEND = "csrc/fused_moe/cutlass_backend"
KERNELS = "csrc/nv_internal/tensorrt_llm/kernels/cutlass_kernels"
MOE, CUTE = f"{KERNELS}/moe_gemm", "csrc/cute_sm12x_gemm"
BINDING = f"{BACKEND}/flashinfer_cutlass_fused_moe_binding.cu"
INSTANTIATION = f"{BACKEND}/cutlass_fused_moe_instantiation.cu"
DISPATCH, JIT = f"{MOE}/moe_gemm_template_dispatch.h", "flashinfer/jit/fused_moe.py"
GENERATOR = "flashinfer/jit/gemm/cutlass/generate_kernels.py"
ACTIVATIONS = {"ReLU", "Relu2", "Silu", "FtGelu"}


def first_types(text: str, template: str) -> set[tuple[str, str]]:
    """The activations' and weights' types of a template, wherever a text names it outside comments."""
    code = re.sub(r"//.*", "", text).replace("kernels::Fp4Type", "Fp4Type")
    found = re.findall(rf"\b{template}<([^<>]*)>", code)
    return {(types[0].strip(), types[1].strip()) for types in (one.split(",") for one in found)}


def body(text: str, name: str) -> str:
    """The text from a function's name to the end of the function."""
    return text[text.index(name) :].partition("\n}\n")[0]


def test_each_runner_that_the_binding_makes_is_compiled() -> None:
    """``switch_output_type`` makes those of its own arguments."""
    binding, after = original("flashinfer", VERSION, BINDING), patched("flashinfer", VERSION, PRUNED, INSTANTIATION)
    made = first_types(binding, "kernels::CutlassMoeFCRunner") - {("TypeAct", "TypeWeight")}
    made |= first_types(binding, "switch_output_type")
    compiled = first_types(after, "class CutlassMoeFCRunner")
    assert made <= compiled
    before = first_types(original("flashinfer", VERSION, INSTANTIATION), "class CutlassMoeFCRunner")
    assert before - compiled == {("float", "float"), ("half", "uint8_t"), ("__nv_bfloat16", "uint8_t")}


def test_each_runner_that_is_compiled_has_its_gemms_among_the_units() -> None:
    jit = patched("flashinfer", VERSION, PRUNED, JIT)
    units = set(re.findall(r"moe_gemm/(moe_gemm_kernels_\w+)\.cu", jit))
    names = {
        "half": "fp16",
        "__nv_bfloat16": "bf16",
        "__nv_fp8_e4m3": "fp8",
        "Fp4Type": "fp4",
        "cutlass::uint4b_t": "uint4",
    }
    compiled = first_types(patched("flashinfer", VERSION, PRUNED, INSTANTIATION), "class CutlassMoeFCRunner")
    of_types = {f"moe_gemm_kernels_{names[act]}_{names[weight]}" for act, weight in compiled}
    split = {f"moe_gemm_kernels_{act}_uint4_{pair}" for act in ("fp16", "bf16") for pair in ("relu", "silu")}
    assert units == of_types | split


def test_the_tiles_that_are_left_are_those_that_candidates_name() -> None:
    candidates = body(original("flashinfer", VERSION, f"{KERNELS}/cutlass_heuristic.cpp"), "get_candidate_tiles(")
    default = candidates[candidates.index("base_configs{") : candidates.index("switch (gemm_type)")]
    named = set(re.findall(r"CtaShape\w+", default))
    overload = "std::is_same<T, WeightType>::value>::type* = nullptr>\nvoid dispatchMoeGemmToCutlass("
    for text, extra in (
        (original("flashinfer", VERSION, DISPATCH), 2),
        (patched("flashinfer", VERSION, PRUNED, DISPATCH), 0),
    ):
        cases = re.findall(r"CutlassTileConfig::(CtaShape\w+):", body(text, overload))
        assert len(cases) == len(named) + extra
        assert named <= set(cases)
    shapes = {tuple(map(int, re.findall(r"\d+", name)[:3])) for name in named}
    generated = body(
        patched("flashinfer", VERSION, PRUNED, GENERATOR), "def generate_sm80_fused_grouped_gemm_operations"
    )
    listed = generated.partition("cta_shapes_mnk = [")[2].partition("]")[0]
    assert {tuple(map(int, found)) for found in re.findall(r"\((\d+), (\d+), (\d+)\)", listed)} == shapes


def test_integer_weights_always_come_in_groups() -> None:
    """The binding names a group size wherever it has integer weights: for a run, and for the profiler."""
    binding = original("flashinfer", VERSION, BINDING)
    size = "TmaWarpSpecializedGroupedGemmInput::INT4GroupwiseParams::int4_group_size"
    assert binding.count(size) == 2
    assert re.search(rf"isInt4Quant\(\) \? {size}", binding)
    assert re.search(rf"int group_size = {size};\s+return kernels::QuantParams::GroupWise\(\s+group_size,", binding)
    header = original("flashinfer", VERSION, f"{KERNELS}/include/moe_gemm_kernels.h")
    found = re.search(r"int4_group_size = (\d+);", header)
    assert found is not None
    assert int(found[1]) > 0


def test_fp8_gemms_are_asked_for_without_an_activation() -> None:
    kernels = original("flashinfer", VERSION, f"{BACKEND}/cutlass_fused_moe_kernels.cuh")
    first = kernels[kernels.index("} else if (use_fp8) {\n    TLLM_CHECK(!use_ampere_activation_fusion);") :]
    assert re.search(r"gemm_runner\.(\w+)\(", first.partition("} else if (!is_gated_activation)")[0])[1] == "moeGemm"  # type: ignore[index]
    for call in re.finditer(r"gemm_runner\.moeGemmBiasAct\(universal_input, tma_ws_input\);", kernels):  # gemm2
        arguments = kernels[: call.start()].rpartition("auto universal_input =")[2]
        assert "ActivationType::Identity," in arguments


def test_each_activation_of_int4_weights_is_compiled_by_one_unit() -> None:
    for name, act in (("fp16", "half"), ("bf16", "__nv_bfloat16")):
        stem = f"{MOE}/moe_gemm_kernels_{name}_uint4"
        declared = re.findall(
            r"^MOE_GEMM_ACTIVATION\((.*), EpilogueOpDefault(\w+)\)$",
            patched("flashinfer", VERSION, PRUNED, f"{stem}.cu"),
            re.MULTILINE,
        )
        types = f"{act}, cutlass::uint4b_t, {act}"
        assert [kind for kind, _ in declared] == [f"extern, {types}"] * 4
        units = "".join(patched("flashinfer", VERSION, PRUNED, f"{stem}_{pair}.cu") for pair in ("relu", "silu"))
        compiled = re.findall(r"^MOE_GEMM_ACTIVATION\((.*), EpilogueOpDefault(\w+)\)$", units, re.MULTILINE)
        assert [kind for kind, _ in compiled] == [f", {types}"] * 4
        assert {tag for _, tag in declared} == {tag for _, tag in compiled} == ACTIVATIONS


def test_a_module_for_12x_is_compiled_for_12x_and_its_objects_are_in_one_order() -> None:
    jit = patched("flashinfer", VERSION, PRUNED, JIT)
    assert '"-DFLASHINFER_MOE_MIN_SM=120"' in body(
        jit.replace("\n\n\n", "\n}\n"), "def gen_cutlass_fused_moe_sm120_module"
    )
    assert jit.count("FLASHINFER_MOE_MIN_SM") == 1
    assert '*sorted(output_dir / kernel for kernel in output_dir.rglob("*.generated.cu"))' in jit


def test_each_function_that_launches_mxfp8_kernels_is_compiled_by_one_unit() -> None:
    header = original("flashinfer", VERSION, f"{CUTE}/cute_sm12x_mxfp8_runner.h")
    launching = re.findall(r"template <int GranK>\n  void (\w+)\(", header)
    runner = patched("flashinfer", VERSION, SPLIT, f"{CUTE}/cute_sm12x_mxfp8_runner.cu")
    of_kind = {
        kind: re.findall(r"MXFP8_RUNNER::(\w+)<GranK>", text)
        for kind, text in re.findall(r"#define MXFP8_(\w+)\(PREFIX, GranK\)(.*?);\n(?!  )", runner, re.DOTALL)
    }
    assert sorted(name for names in of_kind.values() for name in names) == sorted(launching)
    assert len(set(launching)) == 8
    units = {(kind, size) for kind in of_kind for size in ("32", "128")}
    assert set(re.findall(r"^MXFP8_(\w+)\(extern, (\d+)\)$", runner, re.MULTILINE)) == units
    jit = patched("flashinfer", VERSION, SPLIT, "flashinfer/jit/cute_sm12x_gemm.py")
    for kind, size in units:
        name = f"cute_sm12x_mxfp8_{kind.lower()}_{size}.cu"
        assert f"#define MXFP8_UNIT MXFP8_{kind}(, {size})\n" in patched("flashinfer", VERSION, SPLIT, f"{CUTE}/{name}")
        assert jit.count(f'"{name}"') == 1
