"""A third engine is one YAML file and its lock: plan, other releases and rebuilds need no Python of ours."""

from pathlib import Path

import pytest

from gb10.build.wheel_build import selected
from gb10.errors import UsageError
from gb10.host.store import Store
from gb10.host.talk import Talk
from gb10.lock.lockfile import base_digest, input_digest, load_lock, load_recipe, lock_path, write_lock
from gb10.plan.catalog import ROOT, Catalog
from gb10.plan.dag import plan_image
from gb10.plan.options import Options
from gb10.plan.values import Plan
from gb10.recipe.arch import parse_arch
from gb10.request.planning import Request, make_plan
from gb10.request.refs import with_refs
from gb10.workshop import Workshop

RECIPE = """\
engine: tiny
version: 2.4.6
repository: mine/tiny
python: "3.13"
cuda: "13.0"
base: {suite: trixie, packages: {image: [python3], build: [g++, python3]}}
requirements: [numpy==2.4.6, flashinfer-python==0.7.2.post1]
tools: [uv==0.13.8]
sources:
  tiny: {sdist: numpy==2.4.6}
  flashinfer: {sdist: flashinfer-python==0.7.2.post1}
wheels:
  kernels-for-tiny: {method: aot, source: flashinfer, kernels: smoke, headers: [nvidia-cuda-cccl]}
layers: [{name: all, rest: true}]
env: {PATH: /usr/bin}
workdir: /srv
command: [python3, -m, numpy]
"""
WHEELS = ("numpy", "flashinfer-python", "nvidia-cuda-cccl")


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    """The recipe with a lock of a few files that vLLM's lock has."""
    path = tmp_path / "tiny.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    recipe, full = load_recipe(path), load_lock(ROOT / "recipes/images/vllm.lock.json")
    image = {arch: tuple(w for w in wheels if w.name in WHEELS) for arch, wheels in full.wheels.image.items()}
    locked = {
        "input_digest": input_digest(recipe),
        "base_digest": base_digest(recipe),
        "sdists": {name: file for name, file in full.sdists.items() if name == "flashinfer-python"},
        "wheels": full.wheels.model_copy(update={"image": image}),
    }
    write_lock(lock_path(path), full.model_copy(update=locked))
    return path


def plan_of(path: Path) -> Plan:
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64")
    return plan_image(load_recipe(path), load_lock(lock_path(path)), Catalog(ROOT).toolkit, options)


def test_it_is_planned_like_any_other(recipe_file: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    shop = Workshop(env=env, store=Store(tmp_path / "store"), talk=Talk(env, verbosity=-1), catalog=Catalog(ROOT))
    plan = make_plan(shop, Request(engine=str(recipe_file), arch="12.1f"))
    assert (plan.recipe.engine, plan.tags[0]) == ("tiny", "mine/tiny:2.4.6-cu130-sm121f")
    assert [step.name for step in plan.of_kind("wheel")] == ["kernels-for-tiny"]


def test_its_sources_take_another_release(recipe_file: Path) -> None:
    made = with_refs(load_recipe(recipe_file), {"tiny": "2.5", "flashinfer": "0.8"})
    assert made.requirements == ("numpy==2.5", "flashinfer-python==0.8")
    assert made.sources["tiny"].sdist == "numpy==2.5"


@pytest.mark.parametrize("name", ["kernels-for-tiny", "flashinfer"])
def test_its_wheels_are_rebuilt_by_name_or_source(recipe_file: Path, name: str) -> None:
    assert selected(plan_of(recipe_file), (name,)) == {"kernels-for-tiny"}


def test_what_it_does_not_have_is_refused_with_what_it_has(recipe_file: Path) -> None:
    with pytest.raises(UsageError) as caught:
        with_refs(load_recipe(recipe_file), {"vllm": "1"})
    assert caught.value.hint == "valid: flashinfer, flashinfer-python, numpy, tiny"
    with pytest.raises(UsageError, match="--rebuild vllm: the recipe builds no wheel from vllm"):
        selected(plan_of(recipe_file), ("vllm",))
