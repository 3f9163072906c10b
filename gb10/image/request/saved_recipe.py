"""``plan --save FILE.yaml``: the recipe and the lock that a plan was made from, as files of the user's."""

from pathlib import Path

import yaml

from gb10.core.document import parse_document
from gb10.core.files import write_whole
from gb10.errors import UsageError
from gb10.image.lock.lockfile import check_lock, lock_path, write_lock
from gb10.image.plan.values import Plan
from gb10.image.recipe.image_recipe import Recipe

HEAD = """\
# Derived by `./build.py plan --save` from the recipe of {engine}, for {engine} {version}. It is yours: change it, then
# ./build.py lock --engine {path}
"""


def save_recipe(plan: Plan, path: Path) -> Path:
    """Write FILE.yaml, and FILE.lock.json beside it; returns the lock's path.

    Raises UsageError for a name without .yaml, for files that exist, and for kernels of one model, which no file holds.
    """
    if path.suffix != ".yaml":
        raise UsageError(f"--save {path}: the name of a recipe ends with .yaml", hint=f"--save {path.stem}.yaml")
    lock = lock_path(path)
    existing = next((file for file in (path, lock) if file.exists()), None)
    if existing:
        raise UsageError(f"--save {path}: {existing} exists", hint="choose another name, or remove both files")
    of_model = any((wheel.kernels or "").startswith("for-") for wheel in plan.recipe.built.values())
    if plan.options.served is not None or of_model:
        raise UsageError("--save keeps no kernels of one model", hint="leave out --for-model, and name it at the build")
    text = recipe_text(plan.recipe, path)
    check_lock(parse_document(text, Recipe, where=str(path), what="image recipe"), plan.lock, path)
    write_lock(lock, plan.lock)
    write_whole(path, text, "the recipe")
    return lock


def recipe_text(recipe: Recipe, path: Path) -> str:
    """A recipe as YAML that is read as the same recipe. Pure."""
    fields = recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    head = HEAD.format(engine=recipe.engine, version=recipe.version, path=path)
    return head + yaml.safe_dump(fields, sort_keys=False, width=116, allow_unicode=True)
