"""``recipe list``: the recipes of this checkout and of the user's registries."""

from collections.abc import Iterator
from typing import Annotated

import typer

from gb10.cli.models.recipe_show import document, listed
from gb10.cli.values import completer
from gb10.cli.verb import JsonOption, print_json, with_reporter
from gb10.core.reporter import Reporter
from gb10.errors import EmptySelectionError, FetchError
from gb10.image.request.recipe_mods import load_file
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.registries.recipe_file import (
    RecipeFile,
    find_registry,
    model_names,
    models_folder,
    registries,
    registry_files,
    short_names,
)
from gb10.models.registries.registry import Registry


def registry_names() -> list[str]:
    """``@NAME`` of each registry."""
    return [f"@{one.name}" for one in registries()]


@with_reporter
def list_recipes(
    *,
    reporter: Reporter,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="@REGISTRY", autocompletion=completer(registry_names), help="Those of a registry."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the model recipes of this checkout and of your registries.

    \b
    ./build.py recipe list
    ./build.py recipe list @official --json
    """
    known = registries()
    chosen = tuple(find_registry(known, name) for name in names or ())
    found = {} if chosen else dict(_own())
    for one in chosen or (one for one in known if one.visible):
        found.update(_of(one, reporter, needed=bool(chosen)))
    if not found:
        raise EmptySelectionError("this checkout has no model recipes", where=str(models_folder()))
    if as_json:
        recipes = [{"id": name, **document(recipe)} for name, recipe in found.items()]
        rows = [registry_document(one) for one in chosen or known]
        print_json({"schema": "gb10/recipes/v1", "recipes": recipes, "registries": rows})
        return
    for line in (*listed(found), *map(registry_line, chosen or known)):
        print(line)


def _own() -> Iterator[tuple[str, ModelRecipe]]:
    for name in model_names():
        yield name, load_file(RecipeFile(models_folder() / f"{name}.yaml"))


def _of(registry: Registry, reporter: Reporter, *, needed: bool) -> Iterator[tuple[str, ModelRecipe]]:
    """The recipes of a registry by the name that finds them; one that cannot be fetched is said, unless needed."""
    try:
        files = {file.name: file for file in registry_files(f"@{registry.name}")}
    except (FetchError, EmptySelectionError) as error:
        if needed:
            raise
        reporter.say(f"@{registry.name} is left out: {error.message}")
        return
    for name, file in short_names(files).items():
        yield f"@{registry.name}/{name}", load_file(file)


def registry_line(one: Registry) -> str:
    """``registry @NAME: SOURCE at PIN, trusted``."""
    notes = [*(["not listed"] if not one.visible else []), "trusted" if one.trusted else "not trusted"]
    return f"registry @{one.name}: {one.source} at {one.pin[:12]}, {', '.join(notes)}"


def registry_document(one: Registry) -> dict[str, object]:
    """A registry as data."""
    return one.model_dump(mode="json")
