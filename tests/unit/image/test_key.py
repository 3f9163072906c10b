"""The key is everything: each input of a compile, changed alone, moves its key; what is no input moves none."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gb10.core.proc import capture
from gb10.image.context import open_context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options, PatchUse
from gb10.image.plan.plan_record import labels, record
from gb10.image.plan.render import dockerfile
from gb10.image.plan.values import Toolkit
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.planning import Request, make_plan, with_targets
from tests.recipes import SHIPPED

RECIPE = ROOT / "recipes/images/vllm.yaml"
WHEELS = {
    "flashinfer-jit-cache": "wheel.Dockerfile.j2",
    "gb10-kernels": "wheel.Dockerfile.j2",
    "vllm": "targets.Dockerfile.j2",
}
BLANK = "0" * 64
SHIPPED_FOLDERS = ("gb10", "recipes", "templates", "patches", "kernels", "benches", "mods", "bootstrap")

Inputs = tuple[Recipe, Lock, Toolkit, Options]
Change = Callable[[Inputs], Inputs]


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    arch = parse_arch("12.1f")
    recipe = with_targets(load_recipe(RECIPE), ("spinloop",))
    options = Options(arch=arch, platform=arch.platform, build="amd64")
    return recipe, load_lock(lock_path(RECIPE)), SHIPPED.toolkit, options


@pytest.fixture(scope="module")
def before(inputs: Inputs) -> dict[str, str]:
    return keys(inputs)


def keys(inputs: Inputs) -> dict[str, str]:
    plan = plan_image(*inputs)
    return {name: plan.step(name).key for name in WHEELS}


def locked(part: str, machine: str, name: str) -> Change:
    """Another file of one locked wheel or package."""

    def change(inputs: Inputs) -> Inputs:
        recipe, lock, toolkit, options = inputs
        group, kind = part.split(".")
        files = getattr(getattr(lock, group), kind)
        assert name in [file.name for file in files[machine]]
        other = tuple(
            file.model_copy(update={"sha256": BLANK}) if file.name == name else file for file in files[machine]
        )
        moved = getattr(lock, group).model_copy(update={kind: {**files, machine: other}})
        return recipe, lock.model_copy(update={group: moved}), toolkit, options

    return change


def source(name: str) -> Change:
    def change(inputs: Inputs) -> Inputs:
        recipe, lock, toolkit, options = inputs
        sdists = {**lock.sdists, name: lock.sdists[name].model_copy(update={"sha256": BLANK})}
        return recipe, lock.model_copy(update={"sdists": sdists}), toolkit, options

    return change


def arch(name: str) -> Change:
    return lambda inputs: (*inputs[:3], replace(inputs[3], arch=parse_arch(name)))


def patch(**words: object) -> Change:
    use = PatchUse(name="0001-a", sha256="1" * 64, installable=False, **words)  # type: ignore[arg-type]
    return lambda inputs: (*inputs[:3], replace(inputs[3], patches=(use,)))


def script(name: str) -> Change:
    def change(inputs: Inputs) -> Inputs:
        recipe, lock, toolkit, options = inputs
        assert name in toolkit.digests
        return recipe, lock, replace(toolkit, digests={**toolkit.digests, name: BLANK}), options

    return change


def template(name: str) -> Change:
    def change(inputs: Inputs) -> Inputs:
        recipe, lock, toolkit, options = inputs
        text = f"{toolkit.templates[name]}\n# another\n"
        return recipe, lock, replace(toolkit, templates={**toolkit.templates, name: text}), options

    return change


AOT, OURS, PROJECT = WHEELS
ALL = {AOT, OURS, PROJECT}


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        pytest.param(source("flashinfer-python"), ALL, id="source"),  # of all: it brings the CUTLASS, too
        pytest.param(source("vllm"), {PROJECT}, id="engine's source"),
        pytest.param(patch(source="flashinfer", project="flashinfer-python"), {AOT}, id="patch of FlashInfer"),
        pytest.param(
            patch(source="cutlass", project="flashinfer-python", folder="3rdparty/cutlass"),
            {OURS, PROJECT},
            id="patch of CUTLASS",
        ),
        pytest.param(patch(source="vllm", project="vllm", compiled=True), {PROJECT}, id="patch of vLLM"),
        pytest.param(arch("12.1a"), ALL, id="arch"),
        pytest.param(locked("wheels.tools", "amd64", "nvidia-cuda-nvcc"), ALL, id="CUDA compiler"),
        pytest.param(locked("wheels.tools", "amd64", "nvidia-nvvm"), ALL, id="CUDA's optimizer"),
        pytest.param(locked("wheels.tools", "amd64", "cmake"), {PROJECT}, id="CMake"),
        pytest.param(locked("wheels.tools", "amd64", "uv"), ALL, id="a tool of all stages"),
        pytest.param(locked("debs.build", "amd64", "g++-14-aarch64-linux-gnu"), ALL, id="host compiler"),
        pytest.param(locked("debs.build", "amd64", "ccache"), ALL, id="compile cache"),
        pytest.param(locked("wheels.tools", "arm64", "nvidia-cuda-nvcc"), ALL, id="CUDA compiler of the other machine"),
        pytest.param(locked("wheels.tools", "arm64", "cmake"), {PROJECT}, id="CMake of the other machine"),
        pytest.param(locked("debs.build", "arm64", "g++-14"), ALL, id="host compiler of the other machine"),
        pytest.param(locked("wheels.image", "arm64", "nvidia-cuda-runtime"), ALL, id="CUDA headers"),
        pytest.param(locked("wheels.image", "arm64", "torch"), {OURS, PROJECT}, id="torch's ABI"),
        pytest.param(locked("wheels.image", "arm64", "numpy"), set(), id="a wheel that nothing is compiled with"),
        pytest.param(locked("debs.image", "arm64", "libpython3.13-dev"), {PROJECT}, id="Python's headers"),
        pytest.param(script("inside/compile/compilers.py"), ALL, id="flags"),
        pytest.param(script("inside/compile/launch.py"), ALL, id="flags of a call"),
        pytest.param(script("inside/compile/cmake_targets.py"), {PROJECT}, id="flags of CMake"),
        pytest.param(script("units/moe/ops.cpp"), {OURS}, id="a unit of ours"),
        pytest.param(script("inside/scan/scan.py"), set(), id="the reader of results"),
        pytest.param(template("wheel.Dockerfile.j2"), {AOT, OURS}, id="template"),
        pytest.param(template("targets.Dockerfile.j2"), {PROJECT}, id="template of targets"),
        pytest.param(template("stages.j2"), ALL, id="template of the stages"),
        pytest.param(template("image.Dockerfile.j2"), set(), id="template of the image"),
    ],
)
def test_an_input_moves_what_is_compiled_with_it(
    inputs: Inputs, before: dict[str, str], change: Change, moves: set[str]
) -> None:
    after = keys(change(inputs))
    assert {name for name in WHEELS if before[name] != after[name]} == moves


def test_every_result_of_a_plan_has_the_same_key_on_either_building_machine(inputs: Inputs) -> None:
    """All but what the machine itself needs: its own base and tools."""
    cross, native = (plan_image(*inputs[:3], replace(inputs[3], build=build)) for build in ("amd64", "arm64"))
    assert (cross.key, cross.tags, labels(cross)) == (native.key, native.tags, labels(native))
    assert record(cross) == record(native)
    pairs = zip(cross.steps, native.steps, strict=True)
    assert [one.name for one, other in pairs if one.key != other.key] == ["base-build", "tools"]
    assert dockerfile(cross, SHIPPED.templates) != dockerfile(native, SHIPPED.templates)


def planned(root: Path, **env: str) -> dict[str, Any]:
    home = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "GB10_CACHE_DIR")}
    argv = [sys.executable, "-m", "gb10", "plan", "--json"]
    found: dict[str, Any] = json.loads(capture(argv, cwd=root, env={**home, "PYTHONPATH": str(root), **env}))
    return {"key": found["key"], "tags": found["tags"], "keys": [step["key"] for step in found["steps"]]}


def test_neither_place_nor_time_nor_locale_nor_jobs_nor_order_moves_a_key(tmp_path: Path) -> None:
    """A copy of the checkout whose files were made in another order, at another place, by another user's settings."""
    copy = tmp_path / "another place"
    files = (path for folder in SHIPPED_FOLDERS for path in (ROOT / folder).rglob("*"))
    for file in sorted((path for path in files if path.is_file() and "__pycache__" not in path.parts), reverse=True):
        target = copy / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        os.utime(target, (0, 86_400))
    other = planned(
        copy,
        TZ="Asia/Kolkata",
        LC_ALL="tr_TR.UTF-8",
        USER="somebody",
        LOGNAME="somebody",
        GB10_JOBS="7",
        PYTHONHASHSEED="7",
        PYTHONDONTWRITEBYTECODE="1",
        SOURCE_DATE_EPOCH="1",
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    ctx = open_context({"HOME": str(tmp_path), "GB10_CACHE_DIR": str(tmp_path)}, verbosity=-1)
    plan = make_plan(ctx, Request(engine="vllm", arch="12.1f"))
    assert other == {"key": plan.key, "tags": list(plan.tags), "keys": [step.key for step in plan.steps]}
