"""``--without``: an optional layer of the recipe is left out, and nothing below it moves."""

from collections.abc import Callable

import pytest

from gb10.cli.values import optional_layers
from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.plan_record import labels
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.optional_layers import drop_optional_layers
from tests.recipes import SHIPPED

RECIPE = ROOT / "recipes/images/vllm.yaml"


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load_recipe(RECIPE)


@pytest.fixture(scope="module")
def lock() -> Lock:
    return load_lock(lock_path(RECIPE))


@pytest.fixture(scope="module")
def made(recipe: Recipe, lock: Lock) -> Callable[..., Plan]:
    toolkit = SHIPPED.toolkit

    def plan(*names: str) -> Plan:
        options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64", without=names)
        return plan_image(*drop_optional_layers(recipe, lock, names), toolkit, options)

    return plan


def test_the_layer_and_its_wheel_are_gone_and_the_others_keep_their_keys(made: Callable[..., Plan]) -> None:
    whole, less = ({step.name: step.key for step in plan.steps} for plan in (made(), made("b12x")))
    assert {name for name in whole if less.get(name) != whole[name]} == {"layer-b12x", "image", "proof"}
    assert "layer-b12x" not in less
    files = {file.filename for step in made("b12x").steps for file in step.files}
    assert not any(name.startswith("b12x-") for name in files)


def test_it_is_recorded_and_gets_no_tag_that_moves(made: Callable[..., Plan]) -> None:
    less = made("b12x")
    assert less.document()["without"] == ["b12x"]
    assert labels(less)["io.github.gb10.without"] == "b12x"
    assert less.tags == (f"{made().tags[0]}-{less.key[:12]}",)
    assert "without" not in made().document()


@pytest.mark.parametrize(("name", "words"), [("torch", "needs this layer"), ("b13x", "has no such layer")])
def test_another_layer_is_refused_with_the_optional_ones(recipe: Recipe, lock: Lock, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        drop_optional_layers(recipe, lock, [name])
    assert "optional: b12x" in str(caught.value)


def test_a_shell_completes_what_recipes_mark_as_optional() -> None:
    recipes = [load_recipe(path) for path in sorted((ROOT / "recipes/images").glob("*.yaml"))]
    assert optional_layers() == sorted({layer.name for one in recipes for layer in one.layers if layer.optional})
    assert optional_layers() == ["b12x"]
