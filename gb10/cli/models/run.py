"""``run``: a model recipe becomes a healthy endpoint on one node or several."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.models.options import (
    GIB,
    AllowOption,
    AllowPathOption,
    CapOption,
    GpusOption,
    IgnoreOption,
    ImageOption,
    KeepFreeOption,
    MemoryOption,
    NameOption,
    NodesOption,
    PurposeOption,
    RestartOption,
    SetOption,
    VariantOption,
    choice_request,
    request_of,
    settings_of,
)
from gb10.cli.models.serving import document
from gb10.cli.values import TrustOption, completer, engine_arguments, model_recipes
from gb10.cli.verb import inject
from gb10.containers.container_options import docker_call
from gb10.core.installation import own_command
from gb10.core.proc import spawn
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.models.choose.choosing import Choice, lines
from gb10.models.recipe_privileges import undone_by_run
from gb10.serving.run.find_source import find_source
from gb10.serving.run.prepare_service import ServiceRequest, prepare_service
from gb10.serving.run.service import LEAST, Service, container_options, curl_line
from gb10.serving.run.service_nodes import parse_nodes

app = verb_app("""Run a model recipe, or a model by its name: to a healthy endpoint.


\b
./build.py run qwen3-0.6b                                    # on this machine; Ctrl-C stops it
./build.py run qwen3-0.6b --detach --set port=9000           # returns when the endpoint answers
./build.py run deepseek-v4-flash --nodes me@spark-1,me@spark-2
./build.py run theirs.yaml --image gb10/vllm:0.33.0-cu130-sm121f --dry-run
./build.py run Qwen/Qwen3-8B --for agents                    # no recipe: chosen from the model's files
./build.py run /models/m-Q4_K_M.gguf --image REF@sha256:…    # a GGUF file, by somebody's image of llama.cpp

gb10 starts a container on every node, by the node's own Docker. It pulls an image that is missing. Mods that the
image lacks run once, as root. The endpoint is printed when the server is healthy and the guard accepts its first
answer. When a rank ends, gb10 prints the line of its log that tells why, and ends the others. A guard on each node
ends the server before the node's memory is full.
""")


def service_request(
    *,
    replaced: Annotated[
        bool, typer.Option("--replace", help="Stop the service of this name first, when it runs otherwise.")
    ] = False,
    wait: Annotated[
        int, typer.Option("--wait", metavar="SECONDS", min=1, help="How long it may take to be healthy.")
    ] = 7200,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when the endpoint answers.")] = False,
    gpus: GpusOption = True,
    memory: MemoryOption = None,
    keep_free: KeepFreeOption = LEAST / GIB,
    restart: RestartOption = False,
    cap: CapOption = None,
    nodes: NodesOption = None,
    overrides: SetOption = None,
    variant: VariantOption = None,
    image: ImageOption = None,
    name: NameOption = None,
    trust: TrustOption = False,
    allow_path: AllowPathOption = None,
    allow: AllowOption = None,
    ignore_unsupported: IgnoreOption = False,
    even_if_too_large: Annotated[
        bool,
        typer.Option(
            "--even-if-too-large", help="Start what does not fit by our estimate, with the cap and the memory guard."
        ),
    ] = False,
) -> ServiceRequest:
    """What is run, and how; raises UsageError."""
    return replace(
        request_of(
            nodes=nodes,
            overrides=overrides,
            variant=variant,
            image=image,
            trust=trust,
            allow=allow,
            allow_paths=allow_path,
            ignore_unsupported=ignore_unsupported,
        ),
        name=name,
        containers=settings_of(gpus=gpus, memory=memory, keep_free=keep_free, restart=restart),
        cap=cap,
        even_if_too_large=even_if_too_large,
        replace=replaced,
        patience=wait,
        detach=detach,
    )


@app.command(help=app.info.help)
@with_context
@inject("request", service_request, first=True)
def run(
    *,
    ctx: Context,
    request: ServiceRequest,
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|MODEL",
            autocompletion=completer(model_recipes),
            help="A recipe: a file, ours, @REGISTRY/NAME; or a model: a folder, OWNER/NAME[@REVISION].",
        ),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="After --: more arguments of the engine.")
    ] = None,
    purpose: PurposeOption = "chat",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Start a model without a recipe as gb10 chose it, unasked.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the calls of docker; start nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a model recipe."""
    render = replace(request.render, arguments=engine_arguments(arguments))
    request = replace(request, recipe=recipe, render=render, dry_run=dry_run)
    hosts = parse_nodes(ctx.env, request.nodes)
    wish = choice_request(purpose=purpose, nodes=len(hosts.nodes) if hosts else None)
    found = find_source(ctx, recipe, wish)
    if found.note:
        ctx.reporter.say(found.note)
    if found.choice and not found.choice.container and request.image is None:
        raise UsageError(
            f"{recipe} is a GGUF model, which llama.cpp serves, and gb10 builds no image of llama.cpp",
            hint="name one that has llama-server: --image REF@sha256:…",
        )
    if found.choice:
        for line in lines(found.choice):
            ctx.reporter.say(line)
    if found.choice and not dry_run:
        _agree(found.choice, recipe, yes=yes)
    prepared = prepare_service(ctx.reporter, ctx.env, request, source=found.source)
    written, service = prepared.source.recipe, prepared.service
    chosen = [asdict(reason) for reason in found.choice.reasons] if found.choice else None
    more: dict[str, object] = {
        **({"chosen": chosen} if chosen else {}),
        "undone": [one.text for one in undone_by_run(written, service.ranks[0].container.command)],
    }
    if dry_run:
        at_start = prepared.read_at_start
        for line in at_start:
            ctx.reporter.say(f"read at start: {line}")
        _print_plan(ctx.reporter, service, {**more, "at_start": list(at_start)} if as_json else None)
        return
    from gb10.serving.run.fleet import open_fleet  # noqa: PLC0415 - for a start
    from gb10.serving.run.running import running  # noqa: PLC0415 - for a start
    from gb10.serving.run.watching import watch  # noqa: PLC0415 - for a start

    with open_fleet(ctx, service.hosts) as fleet, running(ctx, fleet, prepared) as watched:
        if watched is None:
            ctx.reporter.say(f"{service.name} runs already, unchanged")
        ran = (watched and watched.service) or service
        _print_endpoint(ran, {**more, "unchanged": watched is None} if as_json else None)
        if watched is None:
            return
        if request.detach:
            _watch_beside(ctx, service)
            return
        sys.stdout.flush()
        ctx.reporter.say("Ctrl-C stops it; ./build.py logs --follow shows its log")
        watch(watched, lambda: False)


def _agree(choice: Choice, word: str, *, yes: bool) -> None:
    """Ask once whether a model is served as it was shown. Raises UsageError without an answer."""
    if not choice.files.has_weights:
        hint = f"download the model into {word}; ./build.py recipe new {word} writes the recipe without it"
        raise UsageError(f"{word} has a config and no weights", hint=hint)
    if yes:
        return
    if not sys.stdin.isatty():
        hint = f"./build.py run {word} --yes starts it; ./build.py recipe new {word} writes the recipe"
        raise UsageError(f"{word} has no recipe, and nobody can be asked whether this is right", hint=hint)
    if not typer.confirm("start it so?", default=True, err=True):
        raise UsageError("not started", hint=f"./build.py recipe new {word} writes the recipe, to be changed")


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
    print(curl_line(service.endpoint, service.model, service.answers))


def _watch_beside(ctx: Context, service: Service) -> None:
    """Start the watch over several ranks as a process of its own; a single rank needs none."""
    if len(service.ranks) == 1:
        return
    log = ctx.store.root / "logs" / f"watch-{service.name}.log"
    argv = [*own_command(), "status", service.name, "--watch", "--nodes", ",".join(service.hosts)]
    spawn(argv, log=log, env=ctx.env)
    ctx.reporter.say(f"a process watches its {len(service.ranks)} ranks, and ends all when one ends; its log: {log}")
