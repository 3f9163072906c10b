"""One image from either machine: what x86 compiles across for aarch64, and what an aarch64 machine compiles natively.

The second runs here by qemu-user: Debian's arm64 g++, NVIDIA's nvcc for Arm servers, uv and Python, each a program of
aarch64. Both sides are made anew; no result of one is shown to the other. 40 minutes on two cores beside other work.
"""

import json
import os
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers.emulation import emulated, register
from gb10.containers.images import require_image
from gb10.containers.reach import connect_or_start
from gb10.core.fields import ARCHITECTURES, Architecture
from gb10.core.store import file_sha256
from gb10.image.build.image_build import ImageBuild
from gb10.image.build.rebuild import Comparison, built_again, compare
from gb10.image.build.wheels import build_wheels
from gb10.image.context import Context, open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Layer
from tests.integration.test_pipeline import RECIPE, small_plan

pytestmark = pytest.mark.e2e
AOT = "flashinfer-jit-cache"
HEADERS = ("nvidia-cublas", "nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-runtime", "nvidia-curand")


@pytest.fixture(scope="module")
def ctx() -> Context:
    """Programs of arm64 run."""
    made = open_context(os.environ, verbosity=0)
    if not emulated(made.store, "arm64"):
        register(made.store, made.env, "arm64", "this test")
    return made


def on(ctx: Context, plan: Plan, build: Architecture) -> Plan:
    """The plan as a machine of that kind has it."""
    options = replace(plan.options, build=build)
    return plan_image(plan.recipe, plan.lock, ctx.catalog.toolkit, options)


def norm_and_page(ctx: Context) -> Plan:
    """FlashInfer's modules norm and page, from the real recipe and lock."""
    recipe, lock = load_recipe(RECIPE), load_lock(lock_path(RECIPE))
    build = recipe.wheels[AOT].model_copy(update={"kernels": "cross", "headers": HEADERS})
    image = {key: tuple(one for one in value if one.name in HEADERS) for key, value in lock.wheels.image.items()}
    locked = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": image})})
    changes = {"repository": "gb10/test", "wheels": {AOT: build}, "layers": (Layer(name="all", rest=True),)}
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64")
    return plan_image(recipe.model_copy(update=changes), locked, ctx.catalog.toolkit, options)


def test_a_wheel_has_the_same_bytes_from_both(ctx: Context) -> None:
    plan, found = norm_and_page(ctx), dict[str, tuple[str, str]]()
    for build in ARCHITECTURES:
        mine = on(ctx, plan, build)
        (wheel,) = build_wheels(ctx, mine, lambda: connect_or_start(ctx.env, ctx.store), rebuild=(AOT,))
        measured = json.loads(wheel.path.with_name("measured.json").read_text(encoding="utf-8"))
        assert not wheel.hit
        assert sum(module["units"] for module in measured.values()) > 0
        found[build] = (wheel.path.name, file_sha256(wheel.path))
    assert found["amd64"] == found["arm64"]


def test_an_image_has_the_same_digest_from_both(ctx: Context, tmp_path: Path) -> None:
    """Bases, layers of locked and compiled wheels, settings, an overlay, scans and record; nothing from a cache."""
    (tmp_path / "usr/local/lib/python3.13/dist-packages").mkdir(parents=True)
    (tmp_path / "usr/local/lib/python3.13/dist-packages/mine.py").write_text("MINE = {'a', 'b', 'c'}\n")
    plan = small_plan(ctx, overlay=tmp_path)
    cross, native = (on(ctx, plan, build) for build in ARCHITECTURES)
    built = ImageBuild(ctx, cross).image()
    found = again(ctx, native, built.tags[-1])
    assert [pair.name for pair in found.layers if not pair.same] == []
    assert (found.settings, found.digest) == ((), built.digest)
    assert found.digest == again(ctx, cross, built.tags[-1]).digest


def again(ctx: Context, plan: Plan, tag: str) -> Comparison:
    engine = connect_or_start(ctx.env, ctx.store)
    with built_again(ImageBuild(ctx, plan, rebuild_id=uuid.uuid4().hex[:12]), engine) as image:
        return compare(ctx, plan, engine, require_image(engine, tag), image)
