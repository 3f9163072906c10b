"""``plan --save``: the recipe of a plan as a file, which is read as the same recipe and fits its lock."""

from dataclasses import replace
from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.image.lock.lockfile import check_lock, load_lock, load_recipe
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.request.optional_layers import drop_optional_layers
from gb10.image.request.refs import with_changed
from gb10.image.request.saved_recipe import recipe_text, save_recipe
from tests.unit.image.test_mods_plan import inputs, plan


@pytest.mark.parametrize("name", ["vllm", "sglang", "sglang-0.5.10"])
def test_each_recipe_is_read_back_as_itself(name: str, tmp_path: Path) -> None:
    recipe = with_changed(load_recipe(ROOT / f"recipes/images/{name}.yaml"), ("fastapi[standard]>=1",))
    (tmp_path / "my.yaml").write_text(recipe_text(recipe, tmp_path / "my.yaml"), encoding="utf-8")
    assert load_recipe(tmp_path / "my.yaml") == recipe


def test_a_saved_plan_is_planned_again_from_its_files(tmp_path: Path) -> None:
    (recipe, lock, toolkit), options = inputs(), plan().options
    made = plan_image(*drop_optional_layers(recipe, lock, ("b12x",)), toolkit, options)
    beside = save_recipe(made, tmp_path / "my.yaml")
    assert beside == tmp_path / "my.lock.json"
    again = load_recipe(tmp_path / "my.yaml")
    check_lock(again, load_lock(beside), tmp_path / "my.yaml")
    assert plan_image(again, load_lock(beside), toolkit, options).key == made.key


def test_what_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the name of a recipe ends with \.yaml"):
        save_recipe(plan(), tmp_path / "my.json")
    (tmp_path / "my.lock.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"my\.lock\.json exists"):
        save_recipe(plan(), tmp_path / "my.yaml")
    named = plan()
    wheel = named.recipe.wheels["flashinfer-jit-cache"].model_copy(update={"kernels": "for-it"})
    recipe = named.recipe.model_copy(update={"wheels": {**named.recipe.wheels, "flashinfer-jit-cache": wheel}})
    with pytest.raises(UsageError, match="keeps no kernels of one model"):
        save_recipe(replace(named, recipe=recipe), tmp_path / "other.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["my.lock.json"]
