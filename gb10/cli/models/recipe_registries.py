"""The user's registries of recipes, for the verbs that read them; the store is opened only for what it lost."""

import os
from pathlib import Path

from gb10.core.config import with_settings
from gb10.core.store import store_root
from gb10.errors import UsageError
from gb10.models.registries.recipe_file import RecipeFile, find_in_registry, find_registry_mod
from gb10.models.registries.registry import Registry, read_registries


def registries() -> tuple[Registry, ...]:
    """All of them; raises UsageError when their file is not valid."""
    return read_registries(os.environ)


def root_here(registry: Registry) -> Path:
    """The folder of a registry's content; what the store lost is taken again. Raises FetchError."""
    root = store_root(with_settings(os.environ)) / "registries" / registry.pin / "tree"
    if root.is_dir():
        return root
    from gb10.image.context import open_context  # noqa: PLC0415 - the same
    from gb10.models.registries.content import root_of  # noqa: PLC0415 - a sixth of a second for verbs that need no store

    return root_of(open_context(os.environ, verbosity=0), registry)


def registry_recipe(name: str) -> RecipeFile:
    """The recipe of ``@REGISTRY/NAME``; raises UsageError, FetchError."""
    if not name.partition("/")[2]:
        raise UsageError(f"{name[:80]} is a registry, not a recipe", hint=f"./build.py recipe list {name[:80]}")
    return find_in_registry(root_here, registries(), name)


def registry_mod(written: str) -> Path | None:
    """The folder of a mod ``@REGISTRY/NAME``; None when that registry, or the mod in it, is unknown."""
    return find_registry_mod(root_here, registries(), written)
