"""flashinfer/0008 and 0009 on the real release: what is left out cannot fit, the others are compiled once."""

import ast
import importlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest

from tests.integration.patches.releases import after_series, original

pytestmark = [pytest.mark.integration, pytest.mark.slow]

VERSION = "0.7.2.post1"
CUTLASS = "flashinfer/jit/gemm/cutlass"
GENERATOR, CORE, JIT = f"{CUTLASS}/generate_kernels.py", "flashinfer/jit/gemm/core.py", "flashinfer/jit/fused_moe.py"
MOE = "csrc/nv_internal/tensorrt_llm/kernels/cutlass_kernels/moe_gemm"
FUSED, DISPATCH = f"{MOE}/launchers/fused_moe_gemm_launcher_sm80.inl", f"{MOE}/moe_gemm_template_dispatch.h"
LIMIT = 99 * 1024
"""Bytes of shared memory for a block on compute capability 12.x (CUDA's programming guide)."""
HALF = 2  # bytes of an element
TEMPLATES = (
    "fp4_gemm_cutlass_sm120",
    "mxfp8_gemm_cutlass_sm120",
    "gemm_groupwise_sm120_kernel_inst",
    "group_gemm_fp8_groupwise_sm120_kernel_inst",
    "group_gemm_mxfp4_groupwise_sm120_kernel_inst",
    "group_gemm_nvfp4_groupwise_sm120_kernel_inst",
)
COPIED = (
    "gemm_groupwise_sm120",
    "group_gemm_fp8_groupwise_sm120",
    "group_gemm_mxfp4_groupwise_sm120",
    "group_gemm_nvfp4_groupwise_sm120",
    "gemm_sm120_binding",
    "group_gemm_sm120_binding",
)


@pytest.fixture
def generators(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The generator of the fused experts as a module: the release's, and the series'."""
    library = original("flashinfer", VERSION, f"{CUTLASS}/cutlass_library.py")
    made: dict[str, Any] = {}
    sys.path.insert(0, str(tmp_path))
    for name, text in (
        ("before", original("flashinfer", VERSION, GENERATOR)),
        ("after", after_series("flashinfer", VERSION, GENERATOR)),
    ):
        folder = tmp_path / f"generator_{name}"
        folder.mkdir()
        for file, content in (("__init__", ""), ("cutlass_library", library), ("generate_kernels", text)):
            (folder / f"{file}.py").write_text(content, encoding="utf-8")
        made[name] = importlib.import_module(f"generator_{name}.generate_kernels")
    yield made
    sys.path.remove(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("generator_before", "generator_after")]:
        del sys.modules[name]


def launched(folder: Path, arch: str) -> tuple[Counter[str], list[Counter[tuple[str, ...]]]]:
    """The instantiations of GEMMs for an arch, and for each unit those of its tiles with their types."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob(f"*/{arch}/*.cu"))]
    calls = [re.findall(r"INSTANTIATE_\w+\((.*?)\);", text, re.DOTALL) for text in texts]
    words = [[tuple(word.strip() for word in call.split(",")) for call in unit] for unit in calls]
    return Counter(" ".join(call) for unit in words for call in unit), [
        Counter((call[1], call[2], *call[7:10]) for call in unit) for unit in words
    ]


def test_block_scaled_gemms_are_the_same_kernels_and_a_unit_has_those_of_one_tile(
    generators: dict[str, Any], tmp_path: Path
) -> None:
    found = {}
    for name, generator in generators.items():
        generator.generate_gemm_operations(tmp_path / name, "120;120-real")
        found[name] = launched(tmp_path / name, "120")
    (before, _), (after, units) = found["before"], found["after"]
    assert before == after
    assert sum(after.values()) == 88
    assert set(after.values()) == {1}
    assert [list(unit.values()) for unit in units] == [[8]] * 11


def test_the_fused_gates_that_fit_share_a_unit_with_none_but_two_stages_and_more(
    generators: dict[str, Any],
) -> None:
    """A stage holds a tile of the activations, and of the weights half a tile for the gate and half for the rest."""
    operations = generators["after"].generate_sm80_operations(False)
    before = generators["before"].generate_sm80_operations(False)
    sizes = {(op.cta_shape, op.stage): fused_bytes(op.cta_shape, op.stage) for op in operations}
    fit = {key for key, size in sizes.items() if size <= LIMIT}
    assert fit == {
        ((rows, 128, 64), stages) for rows, most in ((32, 4), (64, 3), (128, 2)) for stages in range(2, most + 1)
    }
    named = [(op.cta_shape, op.stage, op.dtype, op.epi_tag.name) for op in operations]
    of_release = [(op.cta_shape, op.stage, op.dtype, op.epi_tag.name) for op in before if op.cta_shape[0] >= 32]
    assert len(named) == 36
    assert sorted(map(str, named)) == sorted(map(str, of_release))
    of_tile = [op.stage for op in operations if op.cta_shape == (64, 128, 64)]
    assert of_tile == sorted(of_tile)  # four with two stages come first, and eight make a unit


def fused_bytes(tile: tuple[int, int, int], stages: int) -> int:
    """Shared memory of a fused gate: its stages, and half a tile of the output."""
    rows, columns, depth = tile
    return ((rows + columns) * depth * stages + rows * columns // 2) * HALF


def test_the_launchers_answer_for_what_does_not_fit_as_the_runtime_does() -> None:
    """No occupancy when asked, the same error when run; and what fits goes on as it was."""
    before, after = original("flashinfer", VERSION, FUSED), after_series("flashinfer", VERSION, FUSED)
    error = "GPU lacks the shared memory resources to run fused_moe kernel"
    assert (before.count(error), after.count(error)) == (1, 2)
    assert "*kernel_occupancy = 0;" in before
    assert re.search(r"if constexpr \(GemmType::kSmemSize > FLASHINFER_MOE_MAX_SMEM\) \{", after)
    assert "*kernel_occupancy = 0;\n    return;\n  } else {\n#endif" in after
    assert "int occupancy = std::min(2, fused_moe::fused_gemm_maximum_active_blocks<GemmType>());" in after
    dispatch = after_series("flashinfer", VERSION, DISPATCH)
    assert "int occupancy = -1;" in dispatch  # what maximum_active_blocks() returns when the size cannot be set
    base = original("flashinfer", VERSION, "3rdparty/cutlass/include/cutlass/gemm/device/base_grouped.h")
    refused = base[base.index("cudaFuncAttributeMaxDynamicSharedMemorySize") :].partition("int max_active_blocks")[0]
    assert re.search(r"return -1;", refused)
    assert dispatch.count("fits_shared_memory<sizeof(typename GemmKernel::SharedStorage)>()") == 1
    assert f'"-DFLASHINFER_MOE_MAX_SMEM={LIMIT}"' in after_series("flashinfer", VERSION, JIT)


@pytest.mark.parametrize(
    ("factory", "units", "kernels"),
    [
        ("gen_gemm_sm120_module_cutlass_fp4", (16, 4), 32),
        ("gen_gemm_sm120_module_cutlass_mxfp8", (6, 1), 12),
        ("gen_gemm_sm120_module", (28, 12), 80),
    ],
)
def test_the_gemms_of_a_module_are_the_same_in_fewer_units(
    tmp_path: Path, factory: str, units: tuple[int, int], kernels: int
) -> None:
    found = []
    for name, text in (
        ("before", original("flashinfer", VERSION, CORE)),
        ("after", after_series("flashinfer", VERSION, CORE)),
    ):
        sources = run_factory(text, factory, tmp_path / name)
        found.append((len(sources), Counter(call for source in sources for call in instantiated(source))))
    assert tuple(count for count, _ in found) == units
    assert found[0][1] == found[1][1]
    assert sum(found[0][1].values()) == kernels
    assert set(found[0][1].values()) == {1}


def instantiated(source: Path) -> list[str]:
    """What a unit instantiates, without its layout."""
    text = "".join(re.sub(r"//.*", "", source.read_text(encoding="utf-8")).split())
    return re.findall(r"INSTANTIATE_\w+\([^)]*\)|templatecudaError_t\w+<[^>]*>\([^)]*\)", text)


def run_factory(core: str, name: str, work: Path) -> list[Path]:
    """The sources that a factory of ``core.py`` writes, run alone: what it asks of torch are names of types."""
    csrc, generated = work / "csrc", work / "generated"
    csrc.mkdir(parents=True)
    generated.mkdir()
    for file in (*(f"{one}.jinja" for one in TEMPLATES), *(f"{one}.cu" for one in COPIED)):
        (csrc / file).write_text(original("flashinfer", VERSION, f"csrc/{file}"), encoding="utf-8")
    function = next(node for node in ast.parse(core).body if isinstance(node, ast.FunctionDef) and node.name == name)
    types = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16")
    words: dict[str, Any] = {
        "JitSpec": object,
        "current_compilation_context": SimpleNamespace(get_nvcc_flags_list=lambda **_: []),
        "dtype_cutlass_map": {one: f"cutlass::{one}" for one in types},
        "filename_safe_dtype_map": {one: one for one in types},
        "gen_jit_spec": lambda _, sources, **__: sources,
        "jinja2": jinja2,
        "jit_env": SimpleNamespace(FLASHINFER_CSRC_DIR=csrc, FLASHINFER_GEN_SRC_DIR=generated),
        "os": importlib.import_module("os"),
        "product": product,
        "torch": SimpleNamespace(**{one: one for one in types}),
        "write_if_different": lambda path, text: path.write_text(text, encoding="utf-8"),
    }
    exec(compile(ast.Module(body=[function], type_ignores=[]), name, "exec"), words)  # noqa: S102 - a pinned release
    make: Callable[[], list[Path]] = words[name]
    return [path for path in make() if generated in path.parents]
