"""The options that make a request, the same for every verb with a plan; see ``values`` for the completed ones."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar, get_args

import typer

from gb10.cli.typer_click import get_current_context
from gb10.cli.values import (
    ArchOption,
    EngineOption,
    KernelsOption,
    ModOption,
    PlatformOption,
    TrustOption,
    WithoutOption,
    WithoutPatchOption,
    completer,
    model_recipes,
)
from gb10.cli.verb import inject
from gb10.errors import UsageError
from gb10.image.plan.catalog import DEFAULT_ENGINE, ROOT, Catalog
from gb10.image.recipe.slim_rules import Extent
from gb10.image.request.image_request import Request

T = TypeVar("T")
OverlayOption = Annotated[
    Path | None,
    typer.Option("--overlay", metavar="DIR", help="Copy this directory over the image's root, in a layer of its own."),
]
PatchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--patch",
        metavar="FILE|DIR|URL",
        help="Apply a diff, for example of a pull request; no fuzz. Repeatable.\n"
        "SOURCE=FILE names the source when the paths in the diff do not. A URL is fetched once;\n"
        "URL#sha256=… pins what it must hold.",
    ),
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="NAME=DIR",
        help="Build from your checkout of a source: its changes against the locked release. Repeatable.\n"
        "NAME=git:URL@COMMIT takes the commit of a repository.",
    ),
]
RefOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ref",
        metavar="NAME=VERSION",
        help="Use another release of a source; torch and FlashInfer follow an engine's. Repeatable.\n"
        "`--NAME-ref VERSION` is the same.\n"
        "vllm=git:URL@COMMIT: any commit of the engine, on the wheel of the nearest release.",
    ),
]
ModNetworkOption = Annotated[
    bool,
    typer.Option("--mod-network", help="Let mods from outside mods/ use the network; the image records it."),
]
SlimOption = Annotated[
    str,
    typer.Option(
        "--slim",
        metavar="EXTENT",
        help="Leave out what a GB10 never uses, by recipes/slim.yaml: publishable, all or none.\n"
        "all: also what licences allow for own use only; `publish` refuses the image.\n"
        "`--no-slim` is the same as `--slim none`.",
    ),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE",
        autocompletion=completer(model_recipes),
        help="What this model recipe needs: release, layers, mods, pull requests, kernels.\n"
        "Or another builder's .recipe file of KEY=VALUE lines: engine and releases.",
    ),
]
TargetsOption = Annotated[
    str | None,
    typer.Option(
        "--targets",
        metavar="A,B",
        help="Compile these CMake targets of the engine, or `all`; the rest is upstream's wheel.",
    ),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="NAME@sha256:…",
        help="Build on this image of others, as it is, with --patch, --mod and --overlay above it.\n"
        "NAME:TAG is resolved once, and its digest printed.",
    ),
]
ForModelOption = Annotated[
    str | None,
    typer.Option(
        "--for-model",
        metavar="NAME[@COMMIT]|DIR",
        help="Have the kernels of this model ready, by its config.json: what the engine\n"
        "would compile at its start and at the first request.",
    ),
]
ServedWithOption = Annotated[
    list[str] | None,
    typer.Option(
        "--served-with",
        metavar="NAME=VALUE",
        help="With --for-model: an option of the engine that changes its kernels, for example\n"
        "kv_cache_dtype=fp8. Repeatable.",
    ),
]


def with_image_options(ask: Callable[..., Request]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add the options of ``ask`` before a verb's own; the verb gets the request as its parameter ``asked``."""
    return inject("asked", ask, first=True)


def releases(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VERSION`` by name; raises UsageError for anything else, and for a name that comes twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, version = text.partition("=")
        if not name or not version or name in found:
            from gb10.image.lock.lockfile import load_recipe  # noqa: PLC0415 - for an error

            locked = load_recipe(Catalog(ROOT).recipe(DEFAULT_ENGINE))  # a release that exists
            problem = f"names {name} twice" if name in found else "needs a source and its release"
            raise UsageError(
                f"--ref {text} {problem}",
                hint=f"write --ref NAME=VERSION, for example --ref {locked.engine}={locked.version}",
            )
        found[name] = version
    return found


def of_wheels(
    *,
    engine: EngineOption = DEFAULT_ENGINE,
    arch: ArchOption = "12.1f",
    platform: PlatformOption = None,
    patch: PatchOption = None,
    without_patch: WithoutPatchOption = None,
    source: SourceOption = None,
    ref: RefOption = None,
    targets: TargetsOption = None,
    kernels: KernelsOption = None,
    for_model: ForModelOption = None,
    served_with: ServedWithOption = None,
) -> Request:
    """The request for the wheels."""
    named = tuple(part.strip() for part in targets.split(",")) if targets is not None else ()
    return Request(
        engine=engine,
        arch=arch,
        platform=platform,
        patches=tuple(patch or ()),
        without_patches=tuple(without_patch or ()),
        sources=tuple(source or ()),
        refs=releases(ref or ()),
        targets=named,
        kernels=kernels,
        model=for_model,
        served_with=tuple(served_with or ()),
    )


@with_image_options(of_wheels)
def of_image(
    *,
    asked: Request,
    overlay: OverlayOption = None,
    mod: ModOption = None,
    mod_network: ModNetworkOption = False,
    without: WithoutOption = None,
    slim: SlimOption = "publishable",
    recipe: RecipeOption = None,
    trust: TrustOption = False,
    from_: FromOption = None,
) -> Request:
    """The request for the image: its wheels, and the layers on top of them."""
    extent: Extent | None = next((one for one in get_args(Extent) if slim == one), None)
    if extent is None:
        raise UsageError(f"unknown value of --slim: {slim!r}", hint=f"valid: {', '.join(get_args(Extent))}")
    if from_ and recipe:
        raise UsageError("--from excludes --recipe", hint="--from keeps what the image holds; leave out one of them")
    if recipe:
        from gb10.image.request.from_model_recipe import with_recipe  # noqa: PLC0415 - model recipes, for this option

        asked = with_recipe(asked, recipe, _say, trust=trust)
    left = tuple(dict.fromkeys((*asked.without, *(without or ()))))
    mods = (*asked.mods, *(mod or ()))
    asked = replace(asked, overlay=overlay, mods=mods, mod_network=mod_network, without=left, slim=extent)
    if not from_:
        return asked
    engine = get_current_context().get_parameter_source("engine")  # a default says nothing of what the user wants
    return replace(asked, base=from_, named_engine=engine is not None and engine.name == "COMMANDLINE")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
