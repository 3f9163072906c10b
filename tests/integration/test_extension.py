"""Kernels of our own for real: compiled across for aarch64, linked against the torch of the image, read back."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from bootstrap.install import PIP
from gb10.containers.reach import connect_or_start
from gb10.core.proc import capture
from gb10.errors import BuildError
from gb10.image.build.wheels import Wheel, build_wheels
from gb10.image.context import Context, build_architecture, open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.patches.selection import plan_patches
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.values import Plan
from gb10.image.proof.reading import scan_path
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Layer, WheelBuild
from gb10.inside.compile.markers import kernels_of
from tests.integration.disassembly import disassembled

pytestmark = [pytest.mark.integration, pytest.mark.long]

RECIPE = ROOT / "recipes/images/vllm.yaml"
HEADERS = ("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-runtime", "torch")
BUILD = WheelBuild(method="extension", source="flashinfer", kernels="moe", headers=HEADERS)


TILE = re.compile(r"(?m)^(  X\(\w+, (Pingpong|Cooperative)Tile), .*?\)( *\\?)$")


def checkout(folder: Path) -> Context:
    """A checkout of its own whose sources of kernels a test may change."""
    for name in ("gb10", "patches", "recipes", "templates"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "kernels", folder / "kernels")
    real = open_context(os.environ, verbosity=0)
    return Context(env=real.env, store=real.store, reporter=real.reporter, catalog=Catalog(folder))


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """Every tile gets the size of one, so a unit compiles one kernel per type: `make e2e` compiles all of them."""
    made = checkout(tmp_path_factory.mktemp("checkout"))
    tiles = made.catalog.root / "kernels/moe/tiles.h"
    sizes = {"Pingpong": "64, 64, 128", "Cooperative": "128, 64, 128"}
    original = tiles.read_text(encoding="utf-8")
    text, count = TILE.subn(lambda found: f"{found[1]}, {sizes[found[2]]}, false){found[3]}", original)
    assert count == 8
    tiles.write_text(text, encoding="utf-8")
    return made


def own_plan(ctx: Context) -> Plan:
    """The real recipe and lock, with our wheel alone and the wheels that it is compiled against."""
    recipe, lock = load_recipe(RECIPE), load_lock(lock_path(RECIPE))
    changes = {"repository": "gb10/test", "wheels": {"gb10-kernels": BUILD}, "layers": (Layer(name="all", rest=True),)}
    wheels = {key: tuple(wheel for wheel in value if wheel.name in HEADERS) for key, value in lock.wheels.image.items()}
    locked = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": wheels})})
    patches = plan_patches(ctx.catalog.patches, recipe.model_copy(update={"patches": ("cutlass",)}), lock, "arm64", ())
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build=build_architecture(), patches=patches)
    return plan_image(recipe.model_copy(update=changes), locked, ctx.catalog.toolkit, options)


def compiled(ctx: Context) -> Wheel:
    return build_wheels(ctx, own_plan(ctx), lambda: connect_or_start(ctx.env, ctx.store), rebuild=())[0]


@pytest.fixture(scope="module")
def installed(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel as pip unpacks it for the image's machine."""
    wheel, target = compiled(ctx).path, tmp_path_factory.mktemp("site")
    tag = wheel.stem.rsplit("-", 1)[1]
    assert tag.startswith("manylinux_2_")
    assert int(tag.split("_")[2]) <= 41  # the image's glibc
    capture(
        [
            sys.executable,
            "-I",
            str(PIP / "pip"),
            "install",
            "--quiet",
            "--no-deps",
            "--no-compile",
            "--only-binary=:all:",
            "--platform",
            tag,
            "--target",
            str(target),
            str(wheel),
        ]
    )
    return target


def test_nvidias_own_tool_reads_the_arch_back(installed: Path, cuda_tools: Path) -> None:
    library = installed / "gb10_kernels/modules/gb10_moe/gb10_moe.so"
    text = capture([str(cuda_tools / "bin/cuobjdump"), "-elf", str(library)])
    assert {line.split("=")[1].strip() for line in text.splitlines() if line.startswith("arch =")} == {"sm_121f"}


def test_nvidias_own_tool_counts_the_same_instructions(installed: Path, cuda_tools: Path) -> None:
    library = installed / "gb10_kernels/modules/gb10_moe/gb10_moe.so"
    found = disassembled(cuda_tools, library)
    assert kernels_of(library.read_bytes()) == found
    gemms = [counts for name, counts in found.items() if "GemmUniversal" in name]
    assert len(gemms) == 4  # two families, two types
    assert all(counts["QMMA"] >= 32 and counts["UTMALDG"] == 2 and not counts["BPT"] for counts in gemms)
    assert all(counts["STL"] + counts["LDL"] <= 40 for counts in gemms)  # per tile, not per step of the main loop


def test_the_library_names_the_torch_that_it_finds_its_symbols_in(installed: Path) -> None:
    """Without them a process that has torch loaded could not load it: torch keeps its symbols to itself."""
    (library,) = scan_path(installed / "gb10_kernels").binaries
    assert {"libtorch_cpu.so", "libtorch_cuda.so", "libcudart.so.13"} <= set(library.needed)
    known = {"libc", "libcudart", "libgcc_s", "libm", "libstdc++", "libtorch_cpu", "libtorch_cuda"}
    assert {name.partition(".so")[0] for name in library.needed} <= {*known, "ld-linux-aarch64"}


def test_the_same_again_compiles_nothing(ctx: Context, installed: Path) -> None:
    assert installed.is_dir()
    assert compiled(ctx).hit


def test_a_symbol_that_torch_does_not_export_stops_the_build(tmp_path: Path) -> None:
    broken = checkout(tmp_path)
    for unit in (tmp_path / "kernels/moe").iterdir():
        if unit.suffix in (".cu", ".cpp"):
            unit.unlink()
    text = '#include "grouped_mm.h"\nextern "C" int aoti_torch_no_such_call();\nint gb10_wrong() { return '
    (tmp_path / "kernels/moe/wrong.cpp").write_text(f"{text}aoti_torch_no_such_call(); }}\n", encoding="utf-8")
    with pytest.raises(BuildError, match="undefined reference to `aoti_torch_no_such_call'"):
        compiled(broken)
