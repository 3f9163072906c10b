"""Which releases of the CuTe DSL compile a block-scaled product for GB10: those around the fix, and our patch.

Up to 4.5 a release has two wheels with the same files: libs-base brings the compiler of CUDA 12.9, libs-cu13 that of
13.1. What each did is said in patches/cutlass-dsl/README.md. Some 450 MB, once.
"""

import shutil
from pathlib import Path

import pytest

from gb10.core.proc import CommandFailedError
from tests.integration.cute_dsl.release import Release, products, release
from tests.integration.patches.releases import patched

pytestmark = pytest.mark.e2e

PINS = Path(__file__).parent / "cute_dsl"
INSTRUCTION, PRODUCT = "MmaMXF4NVF4Op", "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X"
REFUSED = "error   : Unexpected instruction types specified for '_mma'"
GATE = "nvidia_cutlass_dsl/python_packages/cutlass/cute/nvgpu/warp/mma.py"
PATCH = "0001-warp-mma-accepts-sm121"


def shipped(name: str) -> Release:
    return release(PINS / "numpy.txt", PINS / f"{name}.txt")


def edited(name: str, folder: Path, text: str) -> Release:
    """A release with another gate."""
    root = folder / "edited"
    shutil.copytree(shipped(name).root, root)
    (root / GATE).write_text(text, encoding="utf-8")
    return Release(root)


def refusal(dsl: Release, folder: Path, arch: str = "sm_121a") -> str:
    """What a release says that does not compile it."""
    with pytest.raises(CommandFailedError):
        dsl.compile(folder, INSTRUCTION, arch=arch)
    return (folder / "log").read_text(encoding="utf-8")


def compiled(dsl: Release, folder: Path, arch: str = "sm_121a") -> list[str]:
    dsl.compile(folder, INSTRUCTION, arch=arch)
    return products(dsl.sass(folder / f"{INSTRUCTION}.cubin"))


@pytest.mark.parametrize("name", ["4.5.0-cu13", "4.5.1-base", "4.5.1-cu13"])
def test_it_compiles(name: str, tmp_path: Path) -> None:
    assert compiled(shipped(name), tmp_path) == [PRODUCT]


@pytest.mark.parametrize(
    ("name", "arch"), [("4.4.2-base", "sm_120a"), ("4.5.0-base", "sm_120a"), ("4.5.0-base", "sm_121a")]
)
def test_the_compiler_of_cuda_12_9_writes_what_its_assembler_refuses(name: str, arch: str, tmp_path: Path) -> None:
    assert REFUSED in refusal(shipped(name), tmp_path, arch)


@pytest.mark.parametrize("name", ["4.4.2-base", "4.4.2-cu13"])
def test_gb10_is_refused_at_the_gate(name: str, tmp_path: Path) -> None:
    assert "expects arch to be one of ['sm_120a']" in refusal(shipped(name), tmp_path)


def test_our_patch_gets_past_the_gate_of_libs_base_and_no_further(tmp_path: Path) -> None:
    dsl = edited("4.4.2-base", tmp_path, patched("cutlass-dsl", "4.4.2", PATCH, GATE))
    assert REFUSED in refusal(dsl, tmp_path)


def test_the_same_edit_in_libs_cu13_is_enough(tmp_path: Path) -> None:
    gate = (shipped("4.4.2-cu13").root / GATE).read_text(encoding="utf-8")
    assert gate.count("not arch == Arch.sm_120a") == 1
    text = gate.replace("not arch == Arch.sm_120a", "arch not in (Arch.sm_120a, Arch.sm_121a)")
    assert compiled(edited("4.4.2-cu13", tmp_path, text), tmp_path) == [PRODUCT]
    assert compiled(shipped("4.4.2-cu13"), tmp_path, "sm_120a") == [PRODUCT]
