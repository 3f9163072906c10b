"""Which engine gets the whole kernel set, because nobody read what it calls."""

from pathlib import Path

import pytest

from gb10.image.context import open_context
from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.compiles import kernel_set
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.kernel_sets import content, entries
from gb10.image.request.kernel_probe import for_engine

WHEEL = "flashinfer-jit-cache"
TOOLKIT = Catalog(ROOT).toolkit
REST = {"topk_cub", "topk_transform"}


def chosen(tmp_path: Path, recipe: Recipe, *, changed: bool = False) -> str | None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=-1)
    return for_engine(ctx, recipe, TOOLKIT, changed=changed).wheels[WHEEL].kernels


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_release_whose_calls_were_read_gets_core_and_any_other_the_whole_set(engine: str, tmp_path: Path) -> None:
    recipe = load_recipe(Catalog(ROOT).recipe(engine))
    assert chosen(tmp_path, recipe) == "core"
    assert chosen(tmp_path, recipe, changed=True) == "topk"
    assert chosen(tmp_path, recipe.model_copy(update={"version": "99.0"})) == "topk"
    assert chosen(tmp_path, recipe.model_copy(update={"engine": "other"})) == "topk"


def test_an_older_flashinfer_has_everything_in_core(tmp_path: Path) -> None:
    recipe = load_recipe(Catalog(ROOT).recipe("sglang-0.5.10"))
    assert chosen(tmp_path, recipe, changed=True) == "core"


def test_a_set_that_was_chosen_by_name_stays(tmp_path: Path) -> None:
    recipe = load_recipe(Catalog(ROOT).recipe("vllm"))
    moe = recipe.wheels[WHEEL].model_copy(update={"kernels": "moe"})
    assert chosen(tmp_path, recipe.model_copy(update={"wheels": {**recipe.wheels, WHEEL: moe}}), changed=True) == "moe"


def test_the_whole_set_is_core_and_what_core_leaves_out_with_a_key_of_its_own() -> None:
    build = load_recipe(Catalog(ROOT).recipe("vllm")).wheels[WHEEL]
    core = kernel_set(build, TOOLKIT)
    whole = kernel_set(build.model_copy(update={"kernels": "topk"}), TOOLKIT)
    assert core
    assert whole
    assert {entry["name"] for entry in entries(whole)} - {entry["name"] for entry in entries(core)} == REST
    assert content(whole) != content(core)
    assert not {"asked", "unasked"} & content(core).keys()
