"""The CuTe DSL series on real releases: the class's own gate, cut out and run for three targets; no wheel is imported.

What the compiler in a wheel then makes of it: tests/integration/cute_dsl for the locked release, tests/e2e for others.
"""

import __future__

import ast
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration.patches.releases import original, patched, variants

pytestmark = pytest.mark.integration

MMA = "cute/nvgpu/warp/mma.py"
PATCH = "0001-warp-mma-accepts-sm121"
OLD = "nvidia_cutlass_dsl/python_packages/cutlass"
NEW = "nvidia_cutlass_dsl/dsl_packages/cutlass"
DEFECT = ("4.4.0", "4.4.1", "4.4.2")
FIXED = (("4.5.0", OLD), ("4.5.1", OLD), ("4.5.2", OLD), ("4.6.0", NEW), ("4.7.1", NEW), ("4.8.1", NEW))
NUMBERS = ("Float16", "Float32", "Float4E2M1FN", "Float8E4M3FN", "Float8E5M2", "Float8E8M0FNU")
Arch = Enum("Arch", ["sm_100a", "sm_120a", "sm_120f", "sm_121a", "sm_121f"])


class OpError(Exception):
    """Stands for the DSL's own error."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()


def admitted(text: str) -> set[str]:
    """The targets among three for which an FP4 instruction can be made, by the release's own class."""
    (gate,) = [node for node in ast.parse(text).body if getattr(node, "name", "") == "MmaSM120BlockScaledOp"]
    assert isinstance(gate, ast.ClassDef)
    gate.bases, gate.decorator_list = [], []
    flags = __future__.annotations.compiler_flag  # they name types that are not there, and stay text
    names: dict[str, Any] = {
        "OpError": OpError,
        "DSLUserCodeError": OpError,
        "Arch": Arch,
        "base_dsl": SimpleNamespace(Arch=Arch),
    }
    names |= {number: number for number in NUMBERS}
    exec(compile(ast.Module([gate], []), "mma", "exec", flags, dont_inherit=True), names)  # noqa: S102 - one class
    return {target for target in ("sm_100a", "sm_120a", "sm_121a") if admits(names, target)}


def admits(names: dict[str, Any], target: str) -> bool:
    """Whether the class's check passes when code is generated for this target."""
    dsl = SimpleNamespace(_get_dsl=lambda: SimpleNamespace(get_arch_enum=lambda: Arch[target]))
    names["CuTeDSL"] = names["BaseDSL"] = dsl
    op = names["MmaSM120BlockScaledOp"]()
    op.ab_dtype, op.acc_dtype, op.shape_mnk = "Float4E2M1FN", "Float32", (16, 8, 64)
    op.sf_type, op.sf_vec_size = "Float8E4M3FN", 16
    try:
        op.__post_init__()
    except OpError:
        return False
    return True


@pytest.mark.parametrize("version", DEFECT)
def test_gb10_is_refused_before_and_admitted_after(version: str) -> None:
    assert admitted(original("cutlass-dsl", version, f"{OLD}/{MMA}")) == {"sm_120a"}
    assert admitted(patched("cutlass-dsl", version, PATCH, f"{OLD}/{MMA}")) == {"sm_120a", "sm_121a"}


@pytest.mark.parametrize("version", DEFECT)
def test_the_release_knows_the_target_that_the_patch_names(version: str) -> None:
    assert '    sm_121a = (12, 1, "a")\n' in original("cutlass-dsl", version, f"{OLD}/base_dsl/arch.py")


@pytest.mark.parametrize(("version", "root"), FIXED)
def test_later_releases_admit_gb10_themselves(version: str, root: str) -> None:
    assert admitted(original("cutlass-dsl", version, f"{root}/{MMA}")) == {"sm_120a", "sm_121a"}


def test_only_the_gate_of_warp_level_is_touched() -> None:
    (patch,) = variants("cutlass-dsl", PATCH)
    assert [diff.path for diff in patch.diffs] == [f"{OLD}/{MMA}"]
