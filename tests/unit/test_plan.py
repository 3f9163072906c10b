"""The plan: every input of a step moves its key, nothing else does."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gb10.arch import parse_arch
from gb10.catalog import ROOT, Catalog
from gb10.lock import load_lock, load_recipe, lock_path
from gb10.plan import Options, Overlay, Plan, Toolkit, plan_image
from gb10.schema import Lock, Recipe

RECIPE = ROOT / "recipes/images/vllm.yaml"


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load_recipe(RECIPE)


@pytest.fixture(scope="module")
def lock() -> Lock:
    return load_lock(lock_path(RECIPE))


def make(
    recipe: Recipe, lock: Lock, *, arch: str = "12.1f", toolkit: Toolkit | None = None, overlay: Overlay | None = None
) -> Plan:
    target = parse_arch(arch)
    chosen = Options(arch=target, platform=target.platform, build="amd64", overlay=overlay)
    return plan_image(recipe, lock, toolkit or Catalog(ROOT).toolkit, chosen)


def moved(before: Plan, after: Plan) -> set[str]:
    keys = {step.name: step.key for step in before.steps}
    return {step.name for step in after.steps if keys.get(step.name) != step.key}


def test_the_same_inputs_give_the_same_keys(recipe: Recipe, lock: Lock) -> None:
    assert make(recipe, lock) == make(recipe, lock)


def test_steps_come_after_what_they_need(recipe: Recipe, lock: Lock) -> None:
    seen: set[str] = set()
    for step in make(recipe, lock).steps:
        assert set(step.needs) <= seen
        seen.add(step.name)


def test_another_arch_moves_the_kernels_and_no_layer_of_upstream(recipe: Recipe, lock: Lock) -> None:
    changed = moved(make(recipe, lock), make(recipe, lock, arch="12.1a"))
    assert changed == {"flashinfer-jit-cache", "layer-flashinfer-jit-cache", "image", "proof"}


@pytest.mark.parametrize(
    ("file", "steps"),
    [
        ("inside/aot.py", {"flashinfer-jit-cache", "layer-flashinfer-jit-cache", "image", "proof"}),
        ("kernels/flashinfer-core.toml", {"flashinfer-jit-cache", "layer-flashinfer-jit-cache", "image", "proof"}),
        ("inside/settings.py", {"image", "proof"}),
        ("templates/image.Dockerfile.j2", {"image", "proof"}),
        ("inside/scan.py", {"proof"}),
        ("debian/mirror.py", set()),
        ("templates/scan.Dockerfile.j2", set()),
    ],
)
def test_a_file_of_ours_moves_exactly_the_steps_it_decides(
    recipe: Recipe, lock: Lock, file: str, steps: set[str]
) -> None:
    toolkit = Catalog(ROOT).toolkit
    assert file in toolkit.digests
    other = Toolkit(digests={**toolkit.digests, file: "0" * 64})
    assert moved(make(recipe, lock), make(recipe, lock, toolkit=other)) == steps


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        (lambda files: files[1:], {"layer-cudnn"}),
        (lambda files: (files[0].model_copy(update={"sha256": "0" * 64}), *files[1:]), {"layer-cudnn"}),
    ],
    ids=["a wheel less", "a wheel of other bytes"],
)
def test_a_locked_wheel_moves_its_layer_and_the_image(
    recipe: Recipe, lock: Lock, change: Callable[..., object], steps: set[str]
) -> None:
    cudnn = next(wheel for wheel in lock.wheels.image["arm64"] if wheel.name == "nvidia-cudnn-cu13")
    others = tuple(wheel for wheel in lock.wheels.image["arm64"] if wheel is not cudnn)
    extra = cudnn.model_copy(update={"filename": "other.whl", "sha256": "1" * 64})
    before = lock.model_copy(
        update={"wheels": lock.wheels.model_copy(update={"image": {"arm64": (cudnn, extra, *others)}})}
    )
    after_files = (*change((cudnn, extra)), *others)  # type: ignore[misc]
    after = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": {"arm64": after_files}})})
    assert moved(make(recipe, before), make(recipe, after)) == {*steps, "image", "proof"}


def test_an_overlay_moves_the_image_alone(recipe: Recipe, lock: Lock, tmp_path: Path) -> None:
    overlay = Overlay(path=str(tmp_path), digest="0" * 64)
    assert moved(make(recipe, lock), make(recipe, lock, overlay=overlay)) == {"image", "proof"}


def test_every_locked_wheel_lands_in_exactly_one_layer(recipe: Recipe, lock: Lock) -> None:
    files = [file.sha256 for step in make(recipe, lock).of_kind("layer") for file in step.files]
    assert sorted(files) == sorted(wheel.sha256 for wheel in lock.wheels.image["arm64"])


def test_tags_name_version_cuda_and_arch_and_the_second_the_key(recipe: Recipe, lock: Lock) -> None:
    plan = make(recipe, lock)
    assert plan.tags == ("gb10/vllm:0.33.0-cu130-sm121f", f"gb10/vllm:0.33.0-cu130-sm121f-{plan.key[:12]}")


def test_the_wheels_plan_is_the_part_that_the_wheels_need(recipe: Recipe, lock: Lock) -> None:
    assert {step.name for step in make(recipe, lock).wheels_only().steps} == {
        "base-build",
        "tools",
        "flashinfer-jit-cache",
    }
