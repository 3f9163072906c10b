"""``recipe render``: the script that a recipe runs, or files for another launcher."""

import os
import sys
from dataclasses import replace
from typing import Annotated, Final

import typer

from gb10.cli.models.options import GIB, CapOption, GpusOption, KeepFreeOption, MemoryOption, RestartOption, settings_of
from gb10.cli.models.recipe_forms import (
    SCRIPT_FORM,
    SWAP_FORM,
    FormWish,
    form_wish,
    only_of_forms,
    render_form,
    render_swap,
)
from gb10.cli.values import RecipeArgument, engine_arguments, override
from gb10.cli.verb import JsonOption, inject, print_json, with_reporter
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.request.recipe_mods import foreign_mods
from gb10.models.issue import errors_of, lines_of
from gb10.models.lint.fit import fit_of
from gb10.models.load.host_access import host_request
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.registries.trust import lines_of_powers, powers_here
from gb10.models.render.rendered import PEERS, Peer, RenderedRecipe, RenderRequest
from gb10.models.render.rendering import refused, with_issues
from gb10.serving.run.prepare_service import ServiceRequest, load_source, render_locked
from gb10.serving.run.service import LEAST
from gb10.serving.run.service_memory import with_script_cap
from gb10.serving.run.service_nodes import refuse_numbers


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
    named = tuple(node.strip() for node in (nodes or "").split(",") if node.strip())
    refuse_numbers(named)
    return RenderRequest(
        peer=_peer(peer, lenient),
        lenient=lenient is not None,
        nodes=named,
        overrides=tuple(map(override, overrides or ())),
        ray=ray,
        variant=variant,
    )


def settings(
    *,
    gpus: GpusOption = True,
    memory: MemoryOption = None,
    keep_free: KeepFreeOption = LEAST / GIB,
    restart: RestartOption = False,
    cap: CapOption = None,
) -> ServiceRequest:
    """How the containers of a form run."""
    containers = settings_of(gpus=gpus, memory=memory, keep_free=keep_free, restart=restart)
    return ServiceRequest(containers=containers, cap=cap)


@with_reporter
@inject("wish", form_wish, first=True)
@inject("request", requested, first=True)
@inject("how", settings, first=True)
def render(
    *,
    reporter: Reporter,
    wish: FormWish,
    request: RenderRequest,
    how: ServiceRequest,
    recipe: RecipeArgument,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="After --: more arguments of the engine. --as llama-swap: more recipes."),
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
    ./build.py recipe render qwen3-0.6b gpt-oss-120b --as llama-swap --out models
    """
    if wish.form == SWAP_FORM:
        if request.nodes:
            raise UsageError("llama-swap starts models on its own node", hint="leave --nodes out")
        asked = replace(wish.request, render=request, containers=how.containers, cap=how.cap)
        render_swap(reporter, replace(wish, request=asked), (recipe, *(arguments or ())), as_json=as_json)
        return
    request = replace(request, arguments=engine_arguments(arguments))
    if wish.form != SCRIPT_FORM:
        asked = replace(
            wish.request,
            recipe=recipe,
            render=replace(request, nodes=()),
            nodes=",".join(request.nodes) or None,
            containers=how.containers,
            cap=how.cap,
        )
        render_form(reporter, replace(wish, request=asked), as_json=as_json)
        return
    source = load_source(os.environ, recipe)
    only_of_forms(wish, how.containers)
    loaded, fit = source.recipe, fit_of(source.recipe, request)
    capped = with_script_cap(reporter, fit, request, how.containers, cap=how.cap)
    rendered = render_locked(loaded, capped, source.weights)
    if not errors_of(rendered.issues):
        rendered = with_issues(rendered, fit.issues(lenient=bool(request.peer or request.lenient)))
    for one in host_request(loaded).asked if not request.peer else ():
        text = f"{loaded.file}:{one.line}: {one.text} is of its container, and no part of the script (--as docker)"
        reporter.say(text)
    if source.file is not None and not wish.request.trust:
        powers = powers_here(loaded, source.file, foreign_mods(loaded, source.file), rendered)
        for line in lines_of_powers(loaded, powers):
            reporter.say(f"read it before you run it, run needs --trust: {line}")
    _print_script(reporter, loaded, rendered, request.peer, as_json=as_json)


OTHERS: Final = '*) echo "there is no node $1" >&2; exit 2 ;;'


def script_of(rendered: RenderedRecipe, peer: Peer | None) -> str:
    """The script; of several nodes one that each runs with its number, or the text that a launcher hands to all."""
    script, ranks = rendered.script or "", rendered.ranks
    if peer or len(ranks) <= 1:
        return script
    head = script.removesuffix(f"{rendered.serve}\n") if rendered.containers else "#!/bin/bash\n"
    calls = ", ".join(f"{number} on {rank.host}" for number, rank in enumerate(ranks))
    arms = [f"{number})\n{rank.command.rstrip()}\n;;" for number, rank in enumerate(ranks)]
    usage = f"# Each node runs it with its number: {calls}."
    first, _, rest = head.partition("\n")
    return "\n".join([first, usage, f"{rest}case ${{1:?the number of this node}} in", *arms, OTHERS, "esac", ""])


def _print_script(
    reporter: Reporter, loaded: ModelRecipe, rendered: RenderedRecipe, peer: Peer | None, *, as_json: bool
) -> None:
    """Print the script, or all that is rendered as one document; exit 2 with a mistake."""
    errors = errors_of(rendered.issues)
    if errors and not as_json:
        raise refused(loaded, rendered.issues)
    if as_json:
        print_json(rendered.document)
    else:
        sys.stdout.write(f"{script_of(rendered, peer).removesuffix(chr(10))}\n")
        if peer and len(rendered.ranks) > 1:
            reporter.say(f"{peer}'s launcher hands this to {len(rendered.ranks)} nodes; --json has the command of each")
    for line in lines_of([] if errors else rendered.issues):
        reporter.say(line)
    if errors:
        raise typer.Exit(UsageError.code)


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
