"""The SGLang series on real releases: the release's own functions, cut out, run before and after each patch.

The patches about expert parallelism (0002 to 0004) are in test_sglang_experts.py. Nothing of SGLang is imported, and
there is no torch. What needs torch is not shown here: that torch.compile takes the op of 0006 as one node.
"""

import __future__

import ast
import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gb10.image.patches.series import load_series
from gb10.image.patches.source_tree import Changed
from gb10.image.patches.verdict import ask, judge, variants_for
from tests.integration.patches.cut import both, find, run
from tests.integration.patches.releases import ctx, opened, original

pytestmark = pytest.mark.integration

ARCH, SMEM, COMPILE = "0001-jit-arch-suffix", "0005-moe-default-fits-shared-memory", "0006-fp4-quantize-under-compile"
EARLY = ("0.5.10", "0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.15")
LATE = ("0.5.16", "0.5.17", "0.5.20", "0.5.21", "0.5.22")
MODELOPT = "sglang/srt/layers/quantization/modelopt_quant.py"
GB10_SHARED, H200_SHARED = 101376, 232448


# 0001: the target of run-time compiled kernels


def jit_target(text: str, capability: tuple[int, int], *, hip: bool = False) -> str:
    """The target that kernels are compiled for on a device."""
    functions = ("ArchInfo", "is_hip_runtime", "_cuda_arch_suffix", "_init_jit_cuda_arch_once", "get_jit_cuda_arch")
    names = {
        "torch": SimpleNamespace(
            cuda=SimpleNamespace(current_device=lambda: 0, get_device_capability=lambda _: capability),
            version=SimpleNamespace(hip="7.0" if hip else None),
        ),
        "dataclass": dataclass,
        "cache_once": lambda function: function,
        "get_cuda_version": lambda: (13, 0),
        "is_hip_runtime": lambda: hip,
        "is_musa_runtime": lambda: False,
        "is_sail_runtime": lambda: False,
    }
    target = run([find(text, name) for name in functions], names)["get_jit_cuda_arch"]().target_name
    assert isinstance(target, str)
    return target


@pytest.mark.parametrize("version", EARLY)
def test_jit_kernels_target_121a_after_the_patch_alone(version: str) -> None:
    before, after = both("sglang", version, ARCH, "sglang/jit_kernel/utils.py")
    assert (jit_target(before, (12, 1)), jit_target(after, (12, 1))) == ("12.1", "12.1a")
    assert [jit_target(after, arch) for arch in ((8, 9), (9, 0), (10, 0))] == ["8.9", "9.0a", "10.0a"]
    assert jit_target(after, (9, 4), hip=True) == "9.4"


@pytest.mark.parametrize(("version", "folder"), [("0.5.16", "jit_kernel"), ("0.5.23", "kernels/jit")])
def test_later_releases_target_121a(version: str, folder: str) -> None:
    assert jit_target(original("sglang", version, f"sglang/{folder}/utils/arch.py"), (12, 1)) == "12.1a"


# 0005: default configs of the FP8 MoE

SMEM_FOLDERS = {"0.5.10": "fused_moe_triton"} | dict.fromkeys(EARLY[1:4], "moe_runner/triton_utils")
FIXED_SMEM = ("0.5.14", "0.5.16", "0.5.23")


def default_config(text: str, shared: int) -> Callable[..., dict[str, int]]:
    """get_default_config of a release on a GPU whose blocks may use so many bytes."""
    properties = SimpleNamespace(shared_memory_per_block_optin=shared)
    off = SimpleNamespace(enable_deterministic_inference=False)
    names = {
        "functools": functools,
        "torch": SimpleNamespace(
            cuda=SimpleNamespace(
                is_available=lambda: True, current_device=lambda: 0, get_device_properties=lambda _: properties
            )
        ),
        "_is_hip": False,
        "_LOW_SMEM_FP8_DEFAULT_CUTOFF_BYTES": 128 * 1024,
        "get_global_server_args": lambda: off,
        "get_server_args": lambda: off,
        "get_exec": lambda: SimpleNamespace(deterministic=off),
    }
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return run(functions, names)["get_default_config"]  # type: ignore[no-any-return]


def worst(config_of: Callable[..., dict[str, int]], block: list[int] | None) -> int:
    """The most shared memory that an FP8 kernel needs for 1 to 4096 tokens; compiled kernels agree to the byte."""
    configs = [config_of(m, e, 768, 2048, 8, "fp8_w8a8", False, block) for m in range(1, 4097) for e in (8, 128, 160)]
    return max((c["BLOCK_SIZE_M"] + c["BLOCK_SIZE_N"]) * c["BLOCK_SIZE_K"] * (c["num_stages"] - 1) for c in configs)


@pytest.mark.parametrize(("version", "folder"), SMEM_FOLDERS.items())
def test_default_configs_fit_after_the_patch_alone(version: str, folder: str) -> None:
    before, after = both("sglang", version, SMEM, f"sglang/srt/layers/moe/{folder}/fused_moe_triton_config.py")
    assert worst(default_config(before, GB10_SHARED), None) == 147456 > GB10_SHARED
    assert worst(default_config(after, GB10_SHARED), None) == 73728 <= GB10_SHARED
    assert worst(default_config(after, GB10_SHARED), [128, 128]) == 49152
    # A GPU that can hold the default keeps it.
    for tokens in (1, 128, 129, 4096):
        arguments = (tokens, 128, 768, 2048, 8, "fp8_w8a8", False)
        assert default_config(after, H200_SHARED)(*arguments) == default_config(before, H200_SHARED)(*arguments)


@pytest.mark.parametrize("version", FIXED_SMEM)
def test_later_default_configs_fit(version: str) -> None:
    path = "sglang/srt/layers/moe/moe_runner/triton_utils/fused_moe_triton_config.py"
    assert worst(default_config(original("sglang", version, path), GB10_SHARED), None) <= GB10_SHARED


# 0006: fp4_quantize as an op


@dataclass
class Op:
    """What register_custom_op makes of a function."""

    function: Callable[..., object]
    name: str
    fake: Callable[..., object]


def imported_fp4_quantize(text: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """What modelopt_quant's layers call as fp4_quantize on GB10, once its imports have run."""
    flashinfer = ModuleType("flashinfer")
    flashinfer.fp4_quantize = lambda *given: given  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flashinfer", flashinfer)
    body = ast.parse(text).body
    start = next(at for at, node in enumerate(body) if ast.unparse(node) == "fp4_quantize = None")
    assert isinstance(body[start + 1], ast.Try)
    names: dict[str, Any] = {
        "is_sm120_supported": lambda: True,
        "torch": SimpleNamespace(uint8="uint8"),
        "register_custom_op": lambda op_name, fake_impl: lambda function: Op(function, op_name, fake_impl),
    }
    run([find(text, "_fp4_quantize_fake")], names)
    code = ast.Module(body[start : start + 2], type_ignores=[])
    exec(compile(code, "release", "exec", flags=__future__.annotations.compiler_flag), names)  # noqa: S102 - two statements
    return names["fp4_quantize"]


def allocated(rows: int, columns: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """What FlashInfer allocates and returns, by the size that its own function gives for the scales."""
    text = original("flashinfer", "0.6.7.post2", "flashinfer/quantization/fp4_quantization.py")
    names = run([find(text, "_compute_swizzled_layout_sf_size")], {"round_up": lambda value, by: -(-value // by) * by})
    scales = names["_compute_swizzled_layout_sf_size"](rows, columns // 16, 128)
    assert scales % (columns // 16) == 0
    return (rows, columns // 2), (scales // (columns // 16), columns // 16)


@pytest.mark.parametrize("version", EARLY[:2])
def test_fp4_quantize_is_an_op_after_the_patch_alone(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = both("sglang", version, COMPILE, MODELOPT)
    assert not isinstance(imported_fp4_quantize(before, monkeypatch), Op)
    op = imported_fp4_quantize(after, monkeypatch)
    assert isinstance(op, Op)
    assert op.name == "flashinfer_fp4_quantize"
    assert op.function("rows", "scale") == ("rows", "scale")
    for rows, columns in ((1, 64), (5, 4096), (128, 4096), (129, 2048), (300, 32)):
        made = SimpleNamespace(shape=(rows, columns), new_empty=lambda shape, dtype: (shape, dtype), numel=lambda: 0)
        made.numel = functools.partial(math.prod, made.shape)
        assert op.fake(made, None) == tuple((shape, "uint8") for shape in allocated(rows, columns))


# All of them


@pytest.mark.parametrize("version", [*EARLY, *LATE])
def test_probes_see_their_own_patch(version: str) -> None:
    release = opened("sglang", version)
    for patch in variants_for(load_series(ctx().catalog.patches, "sglang"), release.version):
        verdict = judge(patch, release.version, release.tree)
        if verdict.outcome == "applies":
            assert ask(patch.record, Changed(release.tree, dict(verdict.changes))).answer == "present"
