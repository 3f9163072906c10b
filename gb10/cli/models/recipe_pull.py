"""``recipe pull``: the weights of a recipe on this machine and on nodes, at one commit, checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, with_context
from gb10.cli.values import RecipeArgument
from gb10.cli.verb import inject
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.request.recipe_mods import load_file
from gb10.models.registries.recipe_file import find_recipe
from gb10.serving.run.service_nodes import MARK, alone, find_cluster
from gb10.serving.weights.copying import Hosts
from gb10.serving.weights.downloading import gb
from gb10.serving.weights.hub_cache import ModelFolder, cache_folder
from gb10.serving.weights.model_lock import HERE, lock_file
from gb10.serving.weights.weights_pull import PulledWeights, PullOptions, models_of, pull_weights

SCHEMA = "gb10/recipe-pull/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class PullRequest:
    """What a command line asks for; ``hosts`` as typed."""

    hosts: tuple[str, ...]
    wish: PullOptions


def pull_request(
    *,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="NODE", help="Copy them to this node by ssh ([USER@]NAME), or @CLUSTER. Repeatable."
        ),
    ] = None,
    all_files: Annotated[
        bool, typer.Option("--all", help="Take every file of the repository, other forms of the weights too.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Take the newest commit, in place of the one that is locked.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Hash every file again, here and on each node.")] = False,
) -> PullRequest:
    """How weights are pulled."""
    return PullRequest(hosts=tuple(hosts or ()), wish=PullOptions(all_files=all_files, update=update, verify=verify))


def nodes_of(env: Mapping[str, str], hosts: Sequence[str]) -> Hosts:
    """The nodes, those of a cluster (``@NAME``) with the addresses that its file has. Raises UsageError."""
    found: dict[str, str | None] = {}
    for host in hosts:
        cluster = find_cluster(env, host.removeprefix(MARK)) if host.startswith(MARK) else alone(host)
        for node in cluster.nodes:
            if node in found or (node == HERE and not host.startswith(MARK)):
                raise UsageError(f"--host {node} is this machine, or named twice", hint="name each other node once")
            if node != HERE:
                found[node] = cluster.own(node).address
    return found


@inject("asked", pull_request, first=True)
@with_context
def pull(
    *,
    ctx: Context,
    asked: PullRequest,
    recipe: RecipeArgument,
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="REV", help="A branch, tag or commit. Default: the recipe's.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Download the weights of a recipe, and copy them to nodes.

    They come from the Hub into its cache on this machine, once. What broke off is resumed, and each file is checked by
    its hash. The commit is locked: `recipe render` and `run` take it from then on, and offline works.

    \b
    ./build.py recipe pull qwen3-0.6b
    ./build.py recipe pull deepseek-v4-flash --host me@spark-2
    ./build.py recipe pull deepseek-v4-flash --host @home
    HF_HUB_OFFLINE=1 ./build.py recipe pull qwen3-0.6b --verify
    """
    file = find_recipe(recipe)
    loaded = load_file(file)
    path = lock_file(ctx.env, file)
    wish = replace(asked.wish, hosts=nodes_of(ctx.env, asked.hosts))
    pulled = pull_weights(ctx, path, file.shown, models_of(loaded, revision), wish)
    if as_json:
        print_json(document(ctx, pulled, str(path)))
        return
    for model in pulled.lock.models:
        print(ModelFolder(cache_folder(ctx.env), model.repo).snapshot(model.revision))
    for line in pulled_lines(pulled, str(path)):
        ctx.reporter.say(line)


def document(ctx: Context, pulled: PulledWeights, lock: str) -> dict[str, object]:
    """What was pulled, as data; sizes in bytes."""
    cache = cache_folder(ctx.env)
    return {
        "schema": SCHEMA,
        "lock": lock,
        "models": [
            {
                "repo": model.repo,
                "revision": model.revision,
                "path": str(ModelFolder(cache, model.repo).snapshot(model.revision)),
                "files": len(model.files),
                "bytes": model.size,
            }
            for model in pulled.lock.models
        ],
        "downloaded": pulled.downloaded,
        "nodes": [{"host": node.host, "cache": node.cache, "copied": node.bytes} for node in pulled.nodes],
    }


def pulled_lines(pulled: PulledWeights, lock: str) -> list[str]:
    """What people want to know of it."""
    models = [
        f"{one.repo} at {one.revision[:12]}, {len(one.files)} files, {gb(one.size)}" for one in pulled.lock.models
    ]
    nodes = [f"{node.host}: {gb(node.bytes)} copied, equal sha256" for node in pulled.nodes]
    return [*models, f"{gb(pulled.downloaded)} downloaded", *nodes, f"locked in {lock}"]
