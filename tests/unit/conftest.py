"""The shipped vLLM recipe and its lock; a module that plans another recipe has fixtures of its own."""

import pytest

from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock

RECIPE = ROOT / "recipes/images/vllm.yaml"


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return load_recipe(RECIPE)


@pytest.fixture(scope="session")
def lock() -> Lock:
    return load_lock(lock_path(RECIPE))
