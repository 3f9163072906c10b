"""``run``: a model recipe becomes a healthy endpoint on one node or several."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.models.container_flags import options_of
from gb10.cli.models.recipe_files import RecipeArgument, find_recipe, load_file
from gb10.cli.models.recipe_weights import weights_of
from gb10.cli.models.run_mods import mods_to_run
from gb10.cli.models.run_options import Manner, manner_of, wanted_of
from gb10.cli.models.run_service import service_from
from gb10.cli.models.serving import document
from gb10.cli.models.wanted_service import Wanted
from gb10.cli.verb import inject
from gb10.containers.container_options import docker_call
from gb10.core.installation import own_command
from gb10.core.proc import spawn
from gb10.core.reporter import Reporter
from gb10.image.context import Context
from gb10.models.undone import lines_of_undone, undone_by_run
from gb10.serving.run.fleet import open_fleet
from gb10.serving.run.node_launch import container_options
from gb10.serving.run.running import Wish, running
from gb10.serving.run.service import Options, Service, curl_line
from gb10.serving.run.watching import watch

app = verb_app("""Run a model recipe: from its name to a healthy endpoint.


\b
./build.py run qwen3-0.6b                                    # on this machine; Ctrl-C stops it
./build.py run qwen3-0.6b --detach --set port=9000           # returns when the endpoint answers
./build.py run deepseek-v4-flash --nodes me@spark-1,me@spark-2
./build.py run theirs.yaml --image gb10/vllm:0.33.0-cu130-sm121f --dry-run

gb10 starts a container on every node, by the node's own Docker. It pulls an image that is missing. Mods that the
image lacks run once, as root. The endpoint is printed when the server is healthy and the guard accepts its first
answer. When a rank ends, gb10 prints the line of its log that tells why, and ends the others. A guard on each node
ends the server before the node's memory is full.
""")


@app.command(help=app.info.help)
@with_context
@inject("manner", manner_of, first=True)
@inject("options", options_of, first=True)
@inject("wanted", wanted_of, first=True)
def run(
    *,
    ctx: Context,
    wanted: Wanted,
    options: Options,
    manner: Manner,
    recipe: RecipeArgument,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="After --: more arguments of the engine.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the calls of docker; start nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a model recipe."""
    path = find_recipe(recipe)
    loaded = load_file(path)
    wanted = replace(wanted, weights=weights_of(path), file=path)
    service, placing = service_from(ctx, loaded, wanted.given(arguments or ()), options, only_show=dry_run)
    undone = undone_by_run(loaded, service.ranks[0].container.command)
    for line in lines_of_undone(loaded, undone):
        ctx.reporter.say(line)
    more = {"undone": [one.text for one in undone]}
    if dry_run:
        _print_plan(ctx.reporter, placing.place(service), more if as_json else None)
        return
    mods = partial(mods_to_run, ctx.reporter, loaded, path, trust=wanted.trust)
    wish = Wish(mods=mods, patience=manner.wait, replace=manner.replace, place=placing.place, meet=placing.meet)
    with open_fleet(ctx, service.hosts) as fleet, running(ctx, fleet, service, wish) as watched:
        if watched is None:
            ctx.reporter.say(f"{service.name} runs already, unchanged")
        _print_endpoint(service, {**more, "unchanged": watched is None} if as_json else None)
        if watched is None:
            return
        if manner.detach:
            _watch_beside(ctx, service)
            return
        sys.stdout.flush()
        ctx.reporter.say("Ctrl-C stops it; ./build.py logs --follow shows its log")
        watch(watched, lambda: False)


def _print_plan(reporter: Reporter, service: Service, more: Mapping[str, object] | None) -> None:
    if more is not None:
        print_json({**document(service, ran=False), **more})
        return
    for rank in service.ranks:
        print(f"# {rank.node.host}\n{shlex.join(docker_call(container_options(service, rank)))}")
    reporter.say(
        "gb10 puts launch.sh into the container; for a call by hand: ./build.py recipe render NAME --as docker"
    )


def _print_endpoint(service: Service, more: Mapping[str, object] | None) -> None:
    if more is not None:
        print_json({**document(service, ran=True), **more})
        return
    print(service.endpoint)
    print(curl_line(service.endpoint, service.model))


def _watch_beside(ctx: Context, service: Service) -> None:
    """Start the watch over several ranks as a process of its own; a single rank needs none."""
    if len(service.ranks) == 1:
        return
    log = ctx.store.root / "logs" / f"watch-{service.name}.log"
    argv = [*own_command(), "status", service.name, "--watch", "--nodes", ",".join(service.hosts)]
    spawn(argv, log=log, env=ctx.env)
    ctx.reporter.say(f"a process watches its {len(service.ranks)} ranks, and ends all when one ends; its log: {log}")
