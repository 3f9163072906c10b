"""``recipe``: model recipes of this checkout and of the community: list, show, render, fix."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.models.recipe_show import document, lines
from gb10.cli.values import RecipeArgument
from gb10.cli.verb import JsonOption, print_json, verb_app, with_reporter
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.request.recipe_mods import foreign_mods, load_file
from gb10.models.issue import lines_of
from gb10.models.lint.fit import fit_of
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.mending import mended_text
from gb10.models.recipe_privileges import powers_of, undone_by_run
from gb10.models.registries.recipe_file import find_recipe, read_text
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.rendering import render_recipe

app = verb_app(
    """Model recipes: how a model is served: the command, its parameters, mods, nodes.

\b
./build.py recipe list
./build.py recipe show qwen3-0.6b
./build.py recipe render qwen3-0.6b
./build.py recipe render theirs.yaml --peer eugr --nodes 10.0.0.1,10.0.0.2 --json
./build.py recipe memory qwen3.5-122b-nvfp4
./build.py recipe fix theirs.yaml --write
./build.py recipe add https://github.com/spark-arena/recipe-registry

Read are version 1 (eugr's launcher), version 2 (sparkrun) and ours, which is version 2 with a section `gb10`.
A recipe with a mistake is not rendered: each mistake has its line and a fix.
""",
    group=True,
    places={
        "list": "models.recipe_list:list_recipes",
        "show": "",
        "new": "models.recipe_new:new",
        "render": "models.recipe_render:render",
        "fix": "",
        "lint": "models.recipe_lint:lint_recipes",
        "memory": "models.recipe_memory:memory",
        "import": "models.recipe_import:import_file",
        "add": "models.recipe_add:add",
        "remove": "models.recipe_add:remove",
        "pull": "models.recipe_pull:pull",
    },
)


@app.command()
@with_reporter
def show(*, reporter: Reporter, recipe: RecipeArgument, as_json: JsonOption = False) -> None:
    """Show what a recipe serves, and what is wrong with it.

    \b
    ./build.py recipe show qwen3-0.6b
    ./build.py recipe show theirs.yaml --json
    """
    file = find_recipe(recipe)
    loaded = load_file(file)
    powers = powers_of(loaded, foreign_mods(loaded, file))
    undone = undone_by_run(loaded, render_recipe(loaded, RenderRequest()).serve)
    if as_json:
        requests = {"powers": [power.text for power in powers], "undone": [one.text for one in undone]}
        print_json({"schema": "gb10/recipe/v1", **document(loaded), **requests})
        return
    fit = fit_of(loaded, RenderRequest()).line
    also = [f"{'also':28} {power.text}" for power in powers]
    also += [f"{'not done by run':28} {one.text}" for one in undone]
    for line in (*lines(loaded), *([f"{'memory':28} {fit}"] if fit else ()), *also, *lines_of(loaded.issues)):
        print(line)


@app.command()
@with_reporter
def fix(
    *,
    reporter: Reporter,
    recipe: RecipeArgument,
    write: Annotated[bool, typer.Option("--write", help="Change the file, in place of printing it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Mend what has one way only.

    That is braces, `{model}`, blanks after a backslash, misspelt keys.

    \b
    ./build.py recipe fix theirs.yaml          # print the mended recipe
    ./build.py recipe fix theirs.yaml --write
    """
    file = find_recipe(recipe)
    if write and file.registry is not None:
        raise UsageError(f"{file.shown} is of a registry", hint="print the mended recipe into a file of yours")
    text = read_text(file.path)
    mended, done = mended_text(text, file.shown)
    left = load_model_recipe(mended, file.shown).issues
    if write and mended != text:
        _write(file.path, mended)
    if as_json:
        issues = [issue.document for issue in left]
        print_json({"schema": "gb10/recipe-fix/v1", "fixed": done, "text": mended, "issues": issues})
        return
    if not write:
        sys.stdout.write(mended)
    for line in (*(f"fixed: {one}" for one in done or ["nothing"]), *lines_of(left)):
        reporter.say(line)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=error.strerror or str(error)) from error
