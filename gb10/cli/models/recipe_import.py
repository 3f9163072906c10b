"""``recipe import``: a file of another form becomes a recipe of version 2 with our section."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.models.recipe_files import read_text
from gb10.cli.signature import inject
from gb10.cli.verb import JsonOption, print_json, with_reporter
from gb10.core.data_root import ROOT
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_recipe
from gb10.models.importing.import_result import ImportChoices, recipe_text
from gb10.models.importing.importing import engine_of_form, import_recipe
from gb10.models.issue import errors_of
from gb10.models.load.loading import load_model_recipe


def wanted_of(
    *,
    variant: Annotated[
        str | None,
        typer.Option("--variant", metavar="NAME", help="Its variant, or its model. Default: the largest that fits."),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, max=64, help="Sparks. Default: the fewest that fit.")
    ] = None,
    features: Annotated[
        list[str] | None, typer.Option("--with", metavar="FEATURE", help="A feature that is off by itself. Repeatable.")
    ] = None,
) -> ImportChoices:
    """What a command line chooses."""
    return ImportChoices(variant=variant, nodes=nodes, features=tuple(features or ()))


@with_reporter
@inject("wanted", wanted_of, first=True)
def import_file(
    *,
    reporter: Reporter,
    wanted: ImportChoices,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to import.")],
    write: Annotated[
        Path | None, typer.Option("--write", metavar="PATH", help="Write the recipe there, in place of printing it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a recipe of a file of another form.

    Read are vLLM's official recipes and profiles of Ansible for SGLang. The source stands in the recipe. Exit 2 with
    one sentence when a file becomes no recipe.

    \b
    ./build.py recipe import models/Qwen/Qwen3-8B.yaml > qwen3-8b.yaml
    ./build.py recipe import models/deepseek-ai/DeepSeek-V4-Flash.yaml --nodes 2 --with spec_decoding
    """
    text = read_text(file)
    image = image_of(engine_of_form(text, str(file)))
    found = import_recipe(text, str(file), replace(wanted, image=image))
    recipe = recipe_text(found, str(file))
    errors = errors_of(load_model_recipe(recipe, str(file)).issues)
    if errors:
        raise UsageError(f"{file} becomes no recipe: {errors[0].text}", hint="correct it there, or write one by hand")
    if write is not None:
        _write(write, recipe)
    if as_json:
        print_json({"schema": "gb10/recipe-import/v1", "recipe": recipe, "said": list(found.said)})
    elif write is None:
        sys.stdout.write(recipe)
    for line in found.said:
        reporter.say(line)


def image_of(engine: str) -> str:
    """The name of our image of an engine's locked release for GB10."""
    recipe = load_recipe(ROOT / f"recipes/images/{engine}.yaml")
    return f"{recipe.repository}:{recipe.version}-cu{recipe.cuda.replace('.', '')}-sm121f"


def _write(path: Path, text: str) -> None:
    if path.exists():
        raise UsageError(f"{path} is there already", hint="remove it, or write to another path")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=error.strerror or str(error)) from error
