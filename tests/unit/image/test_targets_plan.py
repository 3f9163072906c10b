"""Targets of an engine's own project in a plan: what moves their key, and what they move."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gb10.errors import UsageError
from gb10.image.lock.lockfile import input_digest, load_recipe
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.options import Options, PatchUse
from gb10.image.plan.render import wheel_dockerfile
from gb10.image.plan.values import Plan, used_sources, wheel_inputs
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock, LockedWheel
from gb10.image.request.planning import with_targets
from gb10.sources.debian.mirror import LockedDeb
from tests.recipes import CUTLASS, SHIPPED, moved, plan_of

RECIPE = ROOT / "recipes/images/vllm.yaml"
IMAGE = {"graft-vllm", "image", "proof"}
OURS = PatchUse(source="vllm", project="vllm", name="0001-a", sha256="1" * 64, installable=False, compiled=True)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return with_targets(load_recipe(RECIPE), ("_C_one",))


def make(recipe: Recipe, lock: Lock, *patches: PatchUse, targets: tuple[str, ...] = ()) -> Plan:
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64", patches=patches, targets=targets)
    return plan_of(recipe, lock, SHIPPED.toolkit, options)


def test_without_targets_the_plan_knows_nothing_of_the_project(lock: Lock) -> None:
    recipe = load_recipe(RECIPE)
    assert "vllm" not in {step.name for step in make(recipe, lock).steps}
    assert set(used_sources(recipe, lock).sdists) == {"flashinfer-python"}
    assert {tool for tool in recipe.all_tools if tool not in recipe.tools} == {"cmake"}
    assert not any(file.filename.startswith("cmake-") for file in make(recipe, lock).step("tools").files)


def test_they_are_laid_over_upstreams_wheel_and_are_no_layer_of_their_own(recipe: Recipe, lock: Lock) -> None:
    plan = make(recipe, lock)
    assert moved(make(load_recipe(RECIPE), lock), plan) == {"vllm", *IMAGE}
    assert plan.step("graft-vllm").needs == ("layer-vllm", "vllm")
    assert plan.step("vllm").needs == ("tools", "base-image")
    assert set(plan.wheels_only().step("graft-vllm").needs) == {"vllm"}
    assert any(file.filename.startswith("cmake-") for file in plan.step("vllm").tools)


def test_another_target_or_another_cutlass_moves_them(recipe: Recipe, lock: Lock) -> None:
    plan = make(recipe, lock)
    assert moved(plan, make(with_targets(recipe, ("_C_two",)), lock)) == {"vllm", *IMAGE}
    assert moved(plan, make(recipe, lock, OURS)) == {"vllm", *IMAGE}
    assert moved(plan, make(recipe, lock, CUTLASS)) >= {"vllm", *IMAGE, "gb10-kernels"}


def test_a_patch_of_python_alone_compiles_nothing(recipe: Recipe, lock: Lock) -> None:
    python = replace(OURS, installable=True, compiled=False)
    assert moved(make(recipe, lock), make(recipe, lock, python)) == IMAGE


def _other(files: Iterable[LockedDeb | LockedWheel], name: str) -> tuple[LockedDeb | LockedWheel, ...]:
    return tuple(file.model_copy(update={"sha256": "0" * 64}) if file.name == name else file for file in files)


def _deb(lock: Lock, name: str) -> Lock:
    images = {**lock.debs.image, "arm64": _other(lock.debs.image["arm64"], name)}
    return lock.model_copy(update={"debs": lock.debs.model_copy(update={"image": images})})


def _tool(lock: Lock, name: str) -> Lock:
    sets = {**lock.wheels.tools, "amd64": _other(lock.wheels.tools["amd64"], name)}
    return lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"tools": sets})})


@pytest.mark.parametrize(("name", "moves"), [("libpython3.13-dev", True), ("curl", False)])
def test_of_the_images_base_only_pythons_headers_decide(recipe: Recipe, lock: Lock, name: str, moves: bool) -> None:
    assert ("vllm" in moved(make(recipe, lock), make(recipe, _deb(lock, name)))) == moves


def test_cmake_is_a_tool_of_theirs_alone(recipe: Recipe, lock: Lock) -> None:
    assert moved(make(recipe, lock), make(recipe, _tool(lock, "cmake"))) == {"vllm", *IMAGE}


def test_targets_of_the_command_line_move_no_tag_of_others(recipe: Recipe, lock: Lock) -> None:
    assert len(make(recipe, lock).tags) == 2
    (tag,) = make(recipe, lock, targets=("_C_one",)).tags
    assert tag.endswith(make(recipe, lock, targets=("_C_one",)).key[:12])


def test_targets_decide_no_resolution(recipe: Recipe) -> None:
    assert input_digest(recipe) == input_digest(load_recipe(RECIPE))


def test_a_recipe_without_a_project_says_so(recipe: Recipe) -> None:
    without = recipe.model_copy(update={"wheels": {}})
    with pytest.raises(UsageError, match="compiles no project of its engine"):
        with_targets(without, ("_C_one",))


def test_a_nested_project_is_read_only_when_a_target_of_it_is_compiled(recipe: Recipe, lock: Lock) -> None:
    plain = load_recipe(RECIPE)
    without = plain.model_copy(update={"sources": {k: v for k, v in plain.sources.items() if v.sdist}})
    assert make(plain, lock).key == make(without, lock).key
    for made, there in (
        (plain, False),
        (recipe, False),
        (with_targets(plain, ("_qutlass_C",)), True),
        (with_targets(plain, ("all",)), True),
    ):
        plan = make(made, lock)
        asked = {file.filename for step in plan.steps for file in step.files if file.checkout}
        assert asked == ({lock.sdists["qutlass"].filename} if there else set())
        assert ("qutlass" in used_sources(made, lock).sdists) == there


def test_the_stage_is_told_which_commit_is_handed_in(lock: Lock) -> None:
    made = with_targets(load_recipe(RECIPE), ("_qutlass_C",))
    plan, source = make(made, lock), made.sources["qutlass"]
    text = wheel_dockerfile(plan, plan.step("vllm"), SHIPPED.templates, jobs="1")
    assert f"--nested qutlass {source.commit} /nested-qutlass \\\n" in text
    assert "tar --extract --file /archives/nested-qutlass/*.tar* --directory /nested-qutlass" in text
    other = lock.sdists["qutlass"].model_copy(update={"sha256": "0" * 64})
    after = lock.model_copy(update={"sdists": {**lock.sdists, "qutlass": other}})
    assert moved(plan, make(made, after)) == {"vllm", *IMAGE}


def test_a_patch_of_a_nested_project_goes_into_its_tree(lock: Lock) -> None:
    made = with_targets(load_recipe(RECIPE), ("_qutlass_C",))
    patch = replace(OURS, source="qutlass", project="qutlass")
    (origin,) = [one for one in wheel_inputs(make(made, lock, patch), "vllm").origins if one.nested]
    assert (origin.nested, origin.patches) == ("qutlass", (patch,))


def test_all_stands_alone(lock: Lock) -> None:
    with pytest.raises(UsageError, match="all excludes other targets"):
        with_targets(load_recipe(RECIPE), ("all", "_C_one"))
