"""What `bench compare` and `bench matrix` launch: a side or a row of a command line as a launcher."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gb10.cli.models.container_flags import GIB, GpusOption, ImageOption, KeepFreeOption, MemoryOption, options_of
from gb10.cli.models.recipe_files import find_recipe, load_file
from gb10.cli.models.recipe_weights import weights_of
from gb10.cli.models.run_mods import mods_to_run
from gb10.cli.models.run_options import SetOption, VariantOption, wanted_of
from gb10.cli.models.run_service import service_from
from gb10.cli.models.serving import NodesOption
from gb10.cli.models.wanted_service import Wanted
from gb10.core.journal import Journal
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.serving.run.running import Wish
from gb10.serving.run.service import LEAST, Options
from gb10.serving.trial.launch_journal import MakeLauncher
from gb10.serving.trial.launcher import ENV, Command, Launcher, by_command, by_recipe
from gb10.serving.trial.matrix import ARGS, IMAGE, VARIANT

KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
Parameters = Mapping[str, str]

RecipeOption = Annotated[
    str | None, typer.Option("--recipe", metavar="FILE|NAME", help="Start servers by this model recipe.")
]
LaunchOption = Annotated[
    str | None,
    typer.Option("--launch", metavar="COMMAND", help="Start servers by this command; {port} is a free port."),
]
EndpointOption = Annotated[
    str,
    typer.Option("--endpoint", metavar="URL", help="Where a server of --launch answers."),
]
WaitOption = Annotated[
    int, typer.Option("--wait", metavar="SECONDS", min=1, help="How long a server may take to be healthy.")
]
TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Start what others wrote: a bundle's command, a registry's recipe. Read it first."),
]
ENDPOINT: Final = "http://127.0.0.1:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """How servers are started: by a command, or a recipe as `run` does it."""

    wanted: Wanted
    options: Options
    recipe: str | None
    launch: str | None
    endpoint: str
    wait: int

    @property
    def document(self) -> dict[str, Any]:
        """All that decides what a server is, but for a side's own parameters."""
        request = self.wanted.request
        return {
            "recipe": self.recipe,
            "launch": self.launch,
            "endpoint": self.endpoint,
            "nodes": self.wanted.nodes,
            "image": self.wanted.image,
            "variant": request.variant,
            "set": [list(pair) for pair in request.overrides],
        }


def starting_of(
    *,
    recipe: RecipeOption = None,
    launch: LaunchOption = None,
    endpoint: EndpointOption = ENDPOINT,
    wait: WaitOption = 1800,
    nodes: NodesOption = None,
    overrides: SetOption = None,
    variant: VariantOption = None,
    image: ImageOption = None,
    gpus: GpusOption = True,
    memory: MemoryOption = None,
    keep_free: KeepFreeOption = LEAST / GIB,
    trust: TrustOption = False,
) -> Starting:
    """How a command line wants servers to be started. Raises UsageError."""
    if recipe and launch:
        raise UsageError("--recipe and --launch are two ways to start a server", hint="leave one out")
    return Starting(
        wanted=wanted_of(nodes=nodes, overrides=overrides, variant=variant, image=image, trust=trust),
        options=options_of(gpus=gpus, memory=memory, keep_free=keep_free, restart=False),
        recipe=recipe,
        launch=launch,
        endpoint=endpoint,
        wait=wait,
    )


def parameters_of(text: str) -> dict[str, str]:
    """``KEY=VALUE KEY='two words'``; a word without ``=`` is an image. Raises UsageError. Pure."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"a quotation mark has no partner in {text!r}", where=str(error)) from error
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=") if KEY.match(word) and "=" in word else (IMAGE, "=", word)
        if not equals or KEY.fullmatch(key) is None or key in found:
            raise UsageError(f"not a setting: {word!r}", hint="write KEY=VALUE KEY=VALUE, each key once, or an image")
        found[key] = value
    return found


def launcher_of(ctx: Context, starting: Starting, parameters: Parameters, service: str, logs: Path) -> MakeLauncher:
    """The launcher of a side or a row. Raises UsageError for parameters that cannot be."""
    if starting.recipe is not None:
        return _by_recipe(ctx, starting, starting.recipe, parameters, service=service, logs=logs)
    if starting.launch is None:
        raise UsageError("nothing says how servers are started", hint="--recipe NAME, or --launch COMMAND")
    command = Command(
        template=starting.launch, parameters=parameters, url=starting.endpoint, patience=float(starting.wait)
    )
    by_command(ctx, command, logs / "none.log", lambda *_: None)

    def make(journal: Journal, name: str) -> Launcher:
        def begun(pid: int, started: int) -> None:
            journal.append_object({"kind": "begun", "pid": pid, "started": started})

        return by_command(ctx, command, logs / f"{name}.log", begun)

    return make


def _by_recipe(
    ctx: Context, starting: Starting, recipe: str, parameters: Parameters, *, service: str, logs: Path
) -> MakeLauncher:
    path = find_recipe(recipe)
    loaded = load_file(path)
    own = {name: value for name, value in parameters.items() if name not in (IMAGE, VARIANT, ARGS)}
    unknown = sorted(name for name in own if not name.startswith(ENV) and name.partition(".")[0] not in loaded.defaults)
    if unknown:
        hint = f"its parameters: {', '.join(loaded.defaults)}; args='…' gives the server more arguments"
        raise UsageError(f"{loaded.name} has no parameter {unknown[0]!r}", hint=hint)
    base = starting.wanted.request
    overrides = (*base.overrides, *own.items())
    request = replace(base, overrides=overrides, variant=parameters.get(VARIANT) or base.variant)
    image = parameters.get(IMAGE) or starting.wanted.image
    wanted = replace(starting.wanted, request=request, image=image, name=service, weights=weights_of(path), file=path)
    made, placing = service_from(ctx, loaded, wanted.given(shlex.split(parameters.get(ARGS, ""))), starting.options)
    wish = Wish(
        mods=partial(mods_to_run, ctx.reporter, loaded, path, trust=wanted.trust),
        patience=starting.wait,
        place=placing.place,
        meet=placing.meet,
    )
    return lambda journal, name: by_recipe(ctx, made, wish, logs / name)
