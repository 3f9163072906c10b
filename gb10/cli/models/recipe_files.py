"""Finding and reading model recipes: a path, or a name of ``recipes/models``; and the mods that they name."""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.models.recipe_mods import missing_mods
from gb10.cli.models.recipe_registries import registries, registry_recipe, root_here
from gb10.cli.values import completer, model_recipes
from gb10.core.installation import ROOT
from gb10.errors import EmptySelectionError, Gb10Error, UsageError
from gb10.models.issue import in_order
from gb10.models.load.loading import is_recipe, load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.load.safe_yaml import LARGEST
from gb10.models.registries.recipe_file import SUFFIXES, RecipeFile, find_in_registry, named_registry, recipe_files
from gb10.models.registries.registry import Registry

RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE|NAME",
        autocompletion=completer(model_recipes),
        help="A recipe file, one of ours, or @REGISTRY/NAME.",
    ),
]


def models_folder() -> Path:
    """Where the checkout's model recipes lie."""
    return ROOT / "recipes/models"


def model_names() -> list[str]:
    """The names of the checkout's model recipes."""
    return sorted(path.stem for path in models_folder().glob("*.yaml"))


def find_recipe(name: str) -> RecipeFile:
    """The file of a recipe: a path, with or without its suffix, a name, or ``@REGISTRY/NAME``.

    Raises UsageError with the closest names.
    """
    if name.startswith("@"):
        return registry_recipe(name)
    own = models_folder() / f"{name}.yaml"
    places = [Path(name), *(Path(name + suffix) for suffix in SUFFIXES), *([own] if "/" not in name else [])]
    found = next((place for place in places if place.is_file()), None)
    if found is not None:
        return RecipeFile(found)
    if Path(name).exists():
        raise UsageError(f"{name} is not a file", hint="name the recipe's file")
    close = difflib.get_close_matches(Path(name).stem, model_names(), n=3, cutoff=0.4)
    close += [f"@{one.name}/{name}" for one in registries() if _has(one, name)]
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    raise UsageError(f"no model recipe {name!r}", hint=f"{guess}./build.py recipe list shows them; or name a file")


def _has(registry: Registry, name: str) -> bool:
    """Whether a registry has a recipe of this name; not asked of one that would be fetched for it."""
    try:
        return "/" not in name and bool(find_in_registry(root_here, [registry], f"@{registry.name}/{name}"))
    except Gb10Error:
        return False


def override(text: str) -> tuple[str, str]:
    """The parameter and the value of ``--set KEY=VALUE``; raises UsageError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {text!r} has no value", hint="write --set KEY=VALUE")
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise UsageError(f"--set {text!a} is not UTF-8 text", hint="write the value in the terminal's UTF-8")
    return key, value


def read_text(path: Path) -> str:
    """The text of a recipe; raises UsageError when it cannot be read, or is more than a recipe can be."""
    try:
        with path.open("rb") as stream:
            content = stream.read(4 * LARGEST + 1)
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path} is not UTF-8 text", where=f"{path}:{line}", hint="save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error)) from error


def load_file(file: RecipeFile) -> ModelRecipe:
    """The recipe of a file, with an issue for each mod that is nowhere. Raises UsageError when it cannot be read."""
    recipe = load_model_recipe(read_text(file.path), file.shown)
    return replace(recipe, issues=in_order((*recipe.issues, *missing_mods(recipe, file))))


def registry_files(text: str) -> list[RecipeFile]:
    """The recipes of ``@REGISTRY``, in the order of their names. Raises UsageError, FetchError, EmptySelectionError."""
    registry = named_registry(registries(), text)
    files = [file for file in recipe_files(root_here(registry), registry).values() if is_recipe(read_text(file.path))]
    if not files:
        raise EmptySelectionError(f"@{registry.name} has no recipe", where=registry.source)
    return files
