"""Two wheels of a plan, compiled by one pool of compilers for real: at the same time, and the same bytes as alone."""

import os
import re
import time
from pathlib import Path

import pytest

from gb10.containers.reach import connect_or_start
from gb10.errors import BuildError
from gb10.image.build.stage import log_path
from gb10.image.build.wheels import Wheel, build_wheels
from gb10.image.context import Context, build_architecture, open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Layer
from tests.integration.test_extension import BUILD, RECIPE
from tests.integration.test_extension import HEADERS as OF_OURS
from tests.integration.test_pipeline import HEADERS, WHEELS

pytestmark = pytest.mark.e2e

SMOKE, TINY = "flashinfer-jit-cache", "gb10-kernels"
SET = 'name = "tiny"\nversion = "0.1.0"\ncutlass = ">=4.5"\n[[module]]\nname = "gb10_tiny"\n'
UNIT = """__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
extern "C" void gb10_tiny(float* x) { twice<<<1, 32>>>(x); }
"""
UNITS = re.compile(r"\[\d+/\d+\]")


def checkout(folder: Path, unit: str) -> Context:
    """A checkout with a kernel set of ours that compiles in seconds."""
    for name in ("gb10", "patches", "templates"):
        (folder / name).symlink_to(ROOT / name)
    for path in (*(ROOT / "recipes").iterdir(), *(ROOT / "recipes/kernels").iterdir()):
        if path.name != "kernels":
            link = folder / path.relative_to(ROOT)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    (folder / "recipes/kernels/gb10-tiny.toml").write_text(SET, encoding="utf-8")
    (folder / "kernels/tiny").mkdir(parents=True)
    (folder / "kernels/tiny/tiny.cu").write_text(unit, encoding="utf-8")
    real = open_context(os.environ, verbosity=0)
    return Context(env=real.env, store=real.store, reporter=real.reporter, catalog=Catalog(folder))


def plan_of(ctx: Context, *names: str) -> Plan:
    """The real recipe and lock with these wheels: FlashInfer's set smoke, ours tiny."""
    recipe, lock = load_recipe(RECIPE), load_lock(lock_path(RECIPE))
    builds = {
        SMOKE: recipe.wheels[SMOKE].model_copy(update={"kernels": "smoke", "headers": HEADERS}),
        TINY: BUILD.model_copy(update={"kernels": "tiny"}),
    }
    wanted = {*WHEELS, *OF_OURS}
    wheels = {key: tuple(wheel for wheel in value if wheel.name in wanted) for key, value in lock.wheels.image.items()}
    changes = {
        "repository": "gb10/test",
        "wheels": {name: builds[name] for name in names},
        "layers": (Layer(name="all", rest=True),),
    }
    locked = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": wheels})})
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build=build_architecture())
    return plan_image(recipe.model_copy(update=changes), locked, ctx.catalog.toolkit, options)


def made(ctx: Context, *names: str) -> tuple[Wheel, ...]:
    """The wheels, compiled anew."""
    return build_wheels(ctx, plan_of(ctx, *names), lambda: connect_or_start(ctx.env, ctx.store), rebuild=names)


def test_together_they_are_what_they_are_alone(tmp_path: Path) -> None:
    ctx = checkout(tmp_path, UNIT)
    alone = [wheel for name in (SMOKE, TINY) for wheel in made(ctx, name)]
    begin = time.monotonic()
    both = made(ctx, SMOKE, TINY)
    wall = time.monotonic() - begin
    assert [(wheel.key, wheel.sha256) for wheel in both] == [(wheel.key, wheel.sha256) for wheel in alone]
    assert not any(wheel.hit for wheel in both)
    assert sum(timing.seconds for timing in ctx.reporter.timings[-2:]) > 1.2 * wall
    for step in plan_of(ctx, SMOKE, TINY).of_kind("wheel"):
        assert UNITS.search(log_path(ctx.store, step).read_text(encoding="utf-8"))


def test_a_unit_that_does_not_compile_stops_the_other_wheel(tmp_path: Path) -> None:
    ctx = checkout(tmp_path, UNIT.replace("float* x) {", "float* x) { wrong", 1))
    with pytest.raises(BuildError, match=r"tiny\.cu"):
        made(ctx, SMOKE, TINY)
    plan = plan_of(ctx, TINY)
    assert not ctx.store.entry("wheels", plan.step(TINY).key).exists()
