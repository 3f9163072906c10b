"""``recipe``: model recipes of this checkout and of the community: list, show, render, fix."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.container_flags import options_of
from gb10.cli.recipe_add import add, remove
from gb10.cli.recipe_files import RecipeArgument, find_recipe, load_file, override, read_text
from gb10.cli.recipe_fit import memory_issues, one_line
from gb10.cli.recipe_forms import SCRIPT_FORM, FormWish, form_wish, only_of_forms, render_form
from gb10.cli.recipe_import import import_file
from gb10.cli.recipe_lint import lint_recipes
from gb10.cli.recipe_list import list_recipes
from gb10.cli.recipe_memory import memory
from gb10.cli.recipe_mods import foreign_mods
from gb10.cli.recipe_show import document, lines, refused
from gb10.cli.signature import gives
from gb10.cli.verb import JsonOption, print_json, talks, verb_app
from gb10.errors import UsageError
from gb10.host.talk import Talk
from gb10.models.issue import errors_of, lines_of
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.mending import mended_text
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.powers import powers_of
from gb10.models.render.rendered import PEERS, Peer, RenderRequest
from gb10.models.render.rendering import render_recipe, with_issues
from gb10.serve.service import Options

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
)
app.command("list")(list_recipes)


@app.command()
@talks
def show(*, talk: Talk, recipe: RecipeArgument, as_json: JsonOption = False) -> None:
    """Show what a recipe serves, and what is wrong with it.

    \b
    ./build.py recipe show qwen3-0.6b
    ./build.py recipe show theirs.yaml --json
    """
    file = find_recipe(recipe)
    loaded = load_file(file)
    powers = powers_of(loaded, foreign_mods(loaded, file))
    if as_json:
        print_json({"schema": "gb10/recipe/v1", **document(loaded), "powers": [power.text for power in powers]})
        return
    fit = one_line(loaded)
    also = [f"{'also':28} {power.text}" for power in powers]
    for line in (*lines(loaded), *([f"{'memory':28} {fit}"] if fit else ()), *also, *lines_of(loaded.issues)):
        print(line)


def requested(
    *,
    peer: Annotated[
        str | None, typer.Option("--peer", metavar="PEER", help="As this launcher runs it: eugr or sparkrun.")
    ] = None,
    lenient: Annotated[
        str | None,
        typer.Option("--lenient", metavar="PEER", help="Render what this launcher renders; mistakes are warnings."),
    ] = None,
    nodes: Annotated[
        str | None, typer.Option("--nodes", metavar="A,B", help="Nodes, the head first. Default: one, this machine.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter. Repeatable.")
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="With --peer eugr: several nodes by Ray.")] = False,
    variant: Annotated[
        str | None, typer.Option("--variant", metavar="NAME", help="A variant of the recipe; recipe show lists them.")
    ] = None,
) -> RenderRequest:
    """The request of a command line; raises UsageError for an unknown launcher."""
    return RenderRequest(
        peer=_peer(peer, lenient),
        lenient=lenient is not None,
        nodes=tuple(node.strip() for node in (nodes or "").split(",") if node.strip()),
        overrides=tuple(map(override, overrides or ())),
        ray=ray,
        variant=variant,
    )


@app.command()
@talks
@gives("wish", form_wish, first=True)
@gives("request", requested, first=True)
@gives("options", options_of, first=True)
def render(
    *,
    talk: Talk,
    wish: FormWish,
    request: RenderRequest,
    options: Options,
    recipe: RecipeArgument,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="After --: more arguments of the engine.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a recipe runs, or files for another launcher.

    Nothing is started. Exit 2 when the recipe has a mistake, or does not fit into its nodes' memory.

    \b
    ./build.py recipe render qwen3-0.6b --set port=9000 -- --enforce-eager
    ./build.py recipe render theirs.yaml --peer sparkrun --nodes 10.0.0.1,10.0.0.2 --json
    ./build.py recipe render qwen3-0.6b --as compose --restart > compose.yaml
    ./build.py recipe render deepseek-v4-flash --as k8s --nodes spark-1,spark-2 --out deploy
    """
    loaded, request = load_file(find_recipe(recipe)), replace(request, arguments=tuple(arguments or ()))
    if wish.form != SCRIPT_FORM:
        render_form(talk, loaded, request, wish, options, as_json=as_json)
        return
    only_of_forms(wish, options)
    _print_script(talk, loaded, request, as_json=as_json)


def _print_script(talk: Talk, loaded: ModelRecipe, request: RenderRequest, *, as_json: bool) -> None:
    """Print the script, or all that is rendered as one document; exit 2 with a mistake."""
    rendered = render_recipe(loaded, request)
    if not errors_of(rendered.issues):
        rendered = with_issues(rendered, memory_issues(loaded, request))
    errors = errors_of(rendered.issues)
    if errors and not as_json:
        raise refused(loaded, rendered.issues)
    if as_json:
        print_json(rendered.document)
    else:
        sys.stdout.write(f"{(rendered.script or '').removesuffix(chr(10))}\n")
    for line in lines_of([] if errors else rendered.issues):
        talk.say(line)
    if errors:
        raise typer.Exit(UsageError.code)


@app.command()
@talks
def fix(
    *,
    talk: Talk,
    recipe: RecipeArgument,
    write: Annotated[bool, typer.Option("--write", help="Change the file, in place of printing it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Mend what has one way only.

        That is braces, `{model}`, blanks after a backslash, misspelt keys.

        \b
        ./build.py recipe fix theirs.yaml          # print the mended recipe
        ./build.py recipe fix theirs.yaml --write
    ./build.py recipe add https://github.com/spark-arena/recipe-registry
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
        talk.say(line)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=error.strerror or str(error)) from error


def _peer(peer: str | None, lenient: str | None) -> Peer | None:
    if peer and lenient and peer != lenient:
        raise UsageError("--peer and --lenient name two launchers", hint="name one of them")
    name = lenient or peer
    if name is None:
        return None
    for known in PEERS:
        if name == known:
            return known
    raise UsageError(f"unknown launcher {name!r}", hint=f"known: {', '.join(PEERS)}")


app.command("lint")(lint_recipes)
app.command("add")(add)
app.command("remove")(remove)
app.command("import")(import_file)
app.command("memory")(memory)
