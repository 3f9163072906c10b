"""The benchmark for real, on a small scale: one kernel's checks, compiled across for aarch64 and run here.

Part of `make e2e`, where tests/e2e/test_bench.py shows the same of the whole program.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from gb10.containers.reach import connect_or_start
from gb10.core.fields import Architecture
from gb10.core.proc import capture
from gb10.image.context import Context, build_architecture, open_context
from gb10.image.gemm.gemm_benchmarks import BuiltProgram, build_program, judge, measure
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.patches.selection import plan_patches
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.dag import GEMM, plan_image, plan_program
from gb10.image.plan.options import Options
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import parse_arch

pytestmark = [pytest.mark.integration, pytest.mark.long]

RECIPE = ROOT / "recipes/images/vllm.yaml"
KERNEL = "  X(nvfp4_grouped_coop_256x128x128, GroupedNvfp4, Cooperative, 256, 128, 128)\n"
MAIN = '#include "gemm.h"\n\nint main() { return gb10::bench::check_sizes() ? 1 : 0; }\n'


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """A checkout whose benchmark is one kernel's types, the reference, and a main that checks."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("gb10", "patches", "recipes", "templates"):
        (root / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "kernels", root / "kernels")  # a patch adds files of it, and takes no link for one
    units = root / "benches/gemm"
    units.mkdir(parents=True)
    for name in ("formats.h", "gemm.h", "gemm_sm120.cuh", "reference.cu", "sizes.cu"):
        shutil.copy(ROOT / "benches/gemm" / name, units)
    text = (units / "gemm.h").read_text(encoding="utf-8")
    one, count = re.subn(r"(?<=#define GB10_GEMMS\(X\) )[^X]*\\\n(?: +X\(.*\n)+", f"\\\\\n{KERNEL}", text)
    assert count == 1
    (units / "gemm.h").write_text(one, encoding="utf-8")
    (units / "main.cpp").write_text(MAIN, encoding="utf-8")
    real = open_context(os.environ, verbosity=0)
    return Context(env=real.env, store=real.store, reporter=real.reporter, catalog=Catalog(root))


def planned(ctx: Context, arch: str, target: Architecture) -> Plan:
    recipe, lock = load_recipe(RECIPE), load_lock(lock_path(RECIPE))
    patches = plan_patches(ctx.catalog.patches, recipe, lock, target, ())
    options = Options(arch=parse_arch(arch), platform=f"linux/{target}", build=build_architecture(), patches=patches)
    return plan_program(GEMM, plan_image(recipe, lock, ctx.catalog.toolkit, options), ctx.catalog.toolkit)


@pytest.fixture(scope="module")
def plan(ctx: Context) -> Plan:
    return planned(ctx, "12.1f", "arm64")


def built(ctx: Context, plan: Plan) -> BuiltProgram:
    return build_program(ctx, lambda: connect_or_start(ctx.env, ctx.store), plan, GEMM)


@pytest.fixture(scope="module")
def program(ctx: Context, plan: Plan) -> BuiltProgram:
    return built(ctx, plan)


def test_the_checks_ran_on_the_building_machine_and_are_right(program: BuiltProgram) -> None:
    assert [line["kind"] for line in program.checks] == ["formats", "scales", "scales", "scales", "size"]
    assert all(line["ok"] for line in program.checks)
    assert 0 < program.checks[-1]["bytes"] <= 101_376


def test_what_cannot_run_here_is_said(ctx: Context, plan: Plan, program: BuiltProgram) -> None:
    measured = measure(ctx, plan, program)
    judge(measured, program, require_gpu=False)
    assert measured.times == ()
    assert measured.why_not


def test_the_program_holds_the_arch_as_nvidias_own_tool_reads_it(program: BuiltProgram, cuda_tools: Path) -> None:
    text = capture([str(cuda_tools / "bin/cuobjdump"), "-elf", str(program.path)])
    assert {line.split("=")[1].strip() for line in text.splitlines() if line.startswith("arch =")} == {"sm_121f"}


def test_the_same_again_compiles_nothing(ctx: Context, plan: Plan, program: BuiltProgram) -> None:
    again = built(ctx, plan)
    assert again.hit
    assert again.checks == program.checks
