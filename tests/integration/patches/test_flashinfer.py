"""The FlashInfer series on real releases, and how its run time finds our kernels: none is compiled on the device.

Modules of a release that need no device run as they are; of the others one function or class is cut out. Torch is the
stand-in that the kernels are compiled with.
"""

import ast
import json
import os
import re
import sys
import textwrap
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gb10.core.proc import CommandFailedError, capture
from gb10.image.recipe.arch import parse_arch
from gb10.inside.compile import aot, pack_wheel
from tests.integration.patches.releases import after_series, original, patched

pytestmark = pytest.mark.integration

LENGTHS, TOPK = "0002-cub-topk-lengths-at-compile-time", "csrc/cub_topk.cu"
VECTORS, ROWS = (
    "0004-no-vector-beyond-16-bytes",
    re.compile(r"gcd\(16 / sizeof\((\w+)\)|DISPATCH_ROW_VEC_SIZE\(\s*(\w+),"),
)
GDC, MOE = "0001-gdc-define-for-sm12x", "flashinfer/jit/fused_moe.py"
DEFINE = "-DCUTLASS_ENABLE_GDC_FOR_SM100=1"
DEFECT = ("0.6.6", "0.6.7", "0.6.7.post2", "0.6.7.post3")
FIXED = ("0.6.8", "0.6.10", "0.6.11", "0.6.18", "0.7.0", "0.7.0.post1", "0.7.2.post1")
KERNELS = tomllib.loads(
    (Path(__file__).parents[3] / "recipes/kernels/flashinfer-core.toml").read_text(encoding="utf-8")
)
RELEASE = str(KERNELS["flashinfer"][-1])
UNCHANGED = (
    "compilation_context.py",
    "jit/_cuda_architecture.py",
    "jit/env.py",
    "jit/fp4_quantization.py",
)
CORE = """
import abc, dataclasses, os, pathlib
from contextlib import nullcontext
from typing import *
from pathlib import Path
from types import SimpleNamespace
from . import env as jit_env
tvm_ffi = SimpleNamespace(load_module=lambda path: path)
FileLock = lambda *_, **__: nullcontext()
get_tmpdir = Path.cwd
logger = SimpleNamespace(warning=print)
def gen_jit_spec(name, *_, **__): return JitSpecNvcc(name, [], None, None, None, None)
sm90a_nvcc_flags = sm100a_nvcc_flags = sm100f_nvcc_flags = sm103a_nvcc_flags = sm107a_nvcc_flags = []
sm110a_nvcc_flags = sm120a_nvcc_flags = sm120f_nvcc_flags = sm121a_nvcc_flags = []
"""
LOOKUP = """
import functools, torch
from typing import *
from ..jit.core import JitSpec
from ..jit.fp4_quantization import *
"""
ASK = """
import sys, torch.version
torch.version.cuda = sys.argv[1]
from flashinfer.quantization.fp4_quantization import get_fp4_quantization_module
print(get_fp4_quantization_module("121"))
"""
FIND = "import sys\nfrom flashinfer.jit import env\nprint(*map(env.get_aot_path, sys.argv[1:]), sep='\\n')\n"


def definition(text: str, name: str) -> ast.stmt:
    """The function or class of that name at the top of a file."""
    return next(node for node in ast.parse(text).body if getattr(node, "name", "") == name)


def moe_flags(text: str) -> list[str]:
    """What nvcc is given for the CUTLASS MoE of 12.x, by the release's own function."""
    arch = parse_arch("12.1f")
    names: dict[str, Any] = {
        "JitSpec": object,
        "current_compilation_context": SimpleNamespace(get_nvcc_flags_list=lambda **_: [arch.gencode]),
        "gen_cutlass_fused_moe_module": lambda flags, device_arch, *_: [*flags, device_arch],
    }
    exec(ast.unparse(definition(text, "gen_cutlass_fused_moe_sm120_module")), names)  # noqa: S102 - one function
    made = names["gen_cutlass_fused_moe_sm120_module"]()
    assert made[-2:] == [arch.gencode, "120"]
    return list(made)


@pytest.mark.parametrize("version", DEFECT)
def test_moe_kernels_wait_for_the_one_before_after_the_patch_alone(version: str) -> None:
    before, after = moe_flags(original("flashinfer", version, MOE)), moe_flags(patched("flashinfer", version, GDC, MOE))
    assert DEFINE not in before
    assert [flag for flag in after if flag not in before] == [DEFINE]


@pytest.mark.parametrize("version", DEFECT)
def test_the_bundled_cutlass_gates_121_by_that_define(version: str) -> None:
    text = original("flashinfer", version, "3rdparty/cutlass/include/cutlass/arch/grid_dependency_control.h")
    gate = text[: text.index("namespace cutlass")].split("#ifndef CUTLASS_GDC_ENABLED")[-1]
    assert "defined(CUTLASS_ENABLE_GDC_FOR_SM100)" in gate
    assert "__CUDA_ARCH__ == 1210" in gate


@pytest.mark.parametrize("version", FIXED)
def test_later_releases_have_the_define(version: str) -> None:
    assert DEFINE in moe_flags(original("flashinfer", version, MOE))


@pytest.mark.parametrize("version", ["0.7.0", "0.7.0.post1", "0.7.2.post1"])
def test_top_k_kernels_are_chosen_by_the_type_of_lengths(version: str) -> None:
    """The kernels themselves were compared by name and on a GPU: patches/flashinfer/README.md."""
    before, after = original("flashinfer", version, TOPK), patched("flashinfer", version, LENGTHS, TOPK)
    assert before.count("  if (lengths != nullptr) {") == 1
    assert "lengths != nullptr" not in after
    assert after.count("if constexpr (!std::is_same_v<LengthsT, std::nullptr_t>)") == 1
    assert after.count("const int32_t* lengths,") == before.count("const int32_t* lengths,") - 2
    for kept in ("return CUBBatchedTopKInvoke(", "cuda::args::deferred_sequence{", "/*lengths=*/nullptr"):
        assert after.count(kept) == before.count(kept)


def lay_out(site: Path) -> None:
    """FlashInfer's package as far as looking up a kernel goes: the release's own code, no device."""
    package = site / "flashinfer"
    for path in UNCHANGED:
        write(package / path, original("flashinfer", RELEASE, f"flashinfer/{path}"))
    for empty in ("__init__.py", "jit/__init__.py", "quantization/__init__.py"):
        write(package / empty, "")
    write(package / "version.py", f"__version__ = {RELEASE!r}\n")
    write(package / "utils.py", ast.unparse(definition(text_of("utils.py"), "version_at_least")))
    write(package / "jit/cpp_ext.py", "def is_cuda_version_at_least(version): return True\n")
    classes = [definition(text_of("jit/core.py"), name) for name in ("MissingJITCacheError", "JitSpec", "JitSpecNvcc")]
    write(package / "jit/core.py", "\n".join(["from __future__ import annotations", CORE, *map(ast.unparse, classes)]))
    write(package / "quantization/fp4_quantization.py", lookup(text_of("quantization/fp4_quantization.py")))


def text_of(path: str) -> str:
    return original("flashinfer", RELEASE, f"flashinfer/{path}")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def lookup(text: str) -> str:
    """get_fp4_quantization_module up to the module that it loads; what it wraps around it needs torch."""
    function = definition(text, "get_fp4_quantization_module")
    assert isinstance(function, ast.FunctionDef)
    loads = next(at for at, node in enumerate(function.body) if ast.unparse(node).startswith("module = "))
    function.body = [*function.body[: loads + 1], *ast.parse("return module", mode="exec").body]
    return LOOKUP + ast.unparse(function)


def install_ours(work: Path, site: Path, names: set[str], arch: str) -> None:
    """Our kernel wheel, with these modules of the set as empty libraries, unpacked as an installer does."""
    modules = {module.name: module for module in aot.select(KERNELS, arch) if module.name in names}
    built = work / "built"
    manifest = {"modules": {name: {"cubins": list(module.cubins)} for name, module in modules.items()}}
    write(built / "manifest.json", json.dumps(manifest))
    for name in modules:
        write(built / name / f"{name}.so", "")
    wheel = pack_wheel.Wheel(
        package="flashinfer_jit_cache", version=pack_wheel.local_version(RELEASE, "0123abcd"), tag="py3-none-any"
    )
    files = pack_wheel.contents(wheel, RELEASE, built, sorted(built.glob("*/*.so")))
    pack_wheel.pack(work / wheel.filename, files, wheel, epoch=1_763_683_200)
    with zipfile.ZipFile(work / wheel.filename) as archive:
        archive.extractall(site)


def run(work: Path, script: str, *arguments: str, arch: str) -> list[str]:
    """Run on the laid-out package, with the image's variables; raises CommandFailedError."""
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{work / 'site'}:{aot.TORCH}",
        "FLASHINFER_WORKSPACE_BASE": str(work),
        "FLASHINFER_CUDA_ARCH_LIST": parse_arch(arch).flashinfer,
        "FLASHINFER_DISABLE_JIT": "1",  # a miss is FlashInfer's own error
    }
    return capture([sys.executable, "-c", textwrap.dedent(script), *arguments], env=env, cwd=work).splitlines()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    lay_out(tmp_path / "site")
    return tmp_path / "site"


def names_for(arch: str) -> set[str]:
    return {module.name for module in aot.select(KERNELS, arch)}


def library(site: Path, name: str) -> str:
    """Where our wheel puts a module."""
    return str(site / "flashinfer_jit_cache/modules" / name / f"{name}.so")


@pytest.mark.parametrize("arch", ["12.1a", "12.1f", "12.1"])
def test_fp4_quantization_on_gb10_is_the_120f_module_of_our_wheel(arch: str, site: Path, tmp_path: Path) -> None:
    install_ours(tmp_path, site, names_for(arch), arch)
    assert run(tmp_path, ASK, "13.0", arch=arch) == [library(site, "fp4_quantization_120f")]


def test_without_that_module_flashinfer_would_compile_one(site: Path, tmp_path: Path) -> None:
    install_ours(tmp_path, site, names_for("12.1f") - {"fp4_quantization_120f"}, "12.1f")
    with pytest.raises(CommandFailedError) as caught:
        run(tmp_path, ASK, "13.0", arch="12.1f")
    assert "MissingJITCacheError" in caught.value.tail


@pytest.mark.parametrize("arch", ["12.1a", "12.1f", "12.1"])
def test_every_module_of_the_set_is_looked_up_where_our_wheel_puts_it(arch: str, site: Path, tmp_path: Path) -> None:
    names = sorted(names_for(arch))
    install_ours(tmp_path, site, set(names), arch)
    assert run(tmp_path, FIND, *names, arch=arch) == [library(site, name) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "stem", "function"),
    [
        ("0.7.0", "cub_topk", "gen_topk_module"),
        ("0.7.0.post1", "topk", "gen_topk_module"),
        ("0.7.2.post1", "cub_topk", "gen_topk_cub_module"),
        ("0.7.2.post1", "topk", "gen_topk_module"),
        ("0.7.2.post1", "topk_transform", "gen_topk_transform_module"),
    ],
)
def test_each_type_that_the_entries_dispatch_has_a_unit_and_the_module_compiles_it(
    version: str, stem: str, function: str
) -> None:
    """The release's own function lists the units; a data type without one would not link."""
    jit = "flashinfer/jit/topk.py"
    names: dict[str, Any] = {
        "JitSpec": object,
        "jit_env": SimpleNamespace(FLASHINFER_CSRC_DIR=Path("csrc")),
        "gen_jit_spec": lambda _, sources, **__: [str(source) for source in sources],
    }
    made = ast.parse(after_series("flashinfer", version, jit))
    exec(ast.unparse(ast.Module([one for one in made.body if isinstance(one, ast.FunctionDef)], [])), names)  # noqa: S102
    units = [name for name in names[function]() if name.startswith(f"csrc/{stem}_")]
    defined = {
        unit: re.findall(r"^#define \w+_DTYPE (\w+)$", after_series("flashinfer", version, unit), re.M)
        for unit in units
    }
    text = after_series("flashinfer", version, f"csrc/{stem.removesuffix('_transform')}.cu")
    declared = re.findall(r"^\w*TOPK_UNIT\(extern, (\w+)\)$", text, re.M)
    assert sorted(word for words in defined.values() for word in words) == sorted(declared)
    assert set(declared) == {"float", "half", "nv_bfloat16"}  # what DISPATCH_DLPACK_DTYPE_TO_CTYPE_FP32_FP16 knows
    assert f"csrc/{stem}.cu" in names[function]()


@pytest.mark.parametrize("name", ["topk", "sampling", "norm"])
def test_each_dispatch_of_vector_sizes_names_the_type_that_the_size_was_computed_from(name: str) -> None:
    path = f"include/flashinfer/{name}.cuh"
    before, after = original("flashinfer", RELEASE, path), patched("flashinfer", RELEASE, VECTORS, path)
    found = [(match[1], match[2]) for match in ROWS.finditer(after)]
    of_size = [of for of, _ in found if of]
    assert of_size == [of for _, of in found if of]
    assert after.count("DISPATCH_ROW_VEC_SIZE(") == len(of_size)
    assert before.count("DISPATCH_ALIGNED_VEC_SIZE(") - len(of_size) == after.count("DISPATCH_ALIGNED_VEC_SIZE(")
