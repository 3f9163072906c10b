"""What a plan is of, asked on a command line: the options of every verb that makes a plan, written once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from gb10.cli.common import ArchOption, EngineOption
from gb10.errors import UsageError
from gb10.request.planning import Request

T = TypeVar("T")
PlatformOption = Annotated[
    str | None,
    typer.Option("--platform", help="Image platform; default: linux/arm64 for 12.1*, linux/amd64 for 12.0*."),
]
OverlayOption = Annotated[
    Path | None, typer.Option("--overlay", help="Directory copied over the image's root as its last, small layer.")
]
PatchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--patch",
        metavar="FILE|DIR",
        help="A diff (as of a pull request), applied strictly; repeatable.\n"
        "SOURCE=FILE where its paths do not tell whose it is.",
    ),
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="NAME=DIR",
        help="A local checkout of a source's locked release; what it changes counts.\nRepeatable: vllm=../vllm.",
    ),
]
RefOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ref",
        metavar="NAME=VERSION",
        help="Another release of a source, resolved once; repeatable.\n`--NAME-ref VERSION` is the same.",
    ),
]
ModOption = Annotated[
    list[str] | None,
    typer.Option("--mod", metavar="DIR|ZIP|NAME", help="A mod baked in as a layer of its own; repeatable, in order."),
]
ModNetworkOption = Annotated[
    bool, typer.Option("--mod-network", help="Let mods without a mod.yaml use the network (recorded).")
]
TargetsOption = Annotated[
    str | None,
    typer.Option(
        "--targets",
        metavar="A,B",
        help="CMake targets of the engine's own project to compile here, or `all`; the rest stays upstream's wheel.",
    ),
]
KernelsOption = Annotated[
    str | None,
    typer.Option("--kernels", metavar="SET", help="FlashInfer's kernels to compile: core (the recipe's), moe, all."),
]
ForModelOption = Annotated[
    str | None,
    typer.Option(
        "--for-model",
        metavar="NAME[@COMMIT]|DIR",
        help="FlashInfer's kernels that this model asks for, by its config.json here or on the hub.",
    ),
]


def asks_for(ask: Callable[..., Request]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Give a verb the options of ``ask`` before its own; it gets what they say as its parameter ``asked``."""
    options = signature(ask).parameters

    def decorate(verb: Callable[..., T]) -> Callable[..., T]:
        @wraps(verb)
        def run(**given: Any) -> T:  # noqa: ANN401 what a command line gives
            return verb(asked=ask(**{name: given.pop(name) for name in options}), **given)

        own = (parameter for name, parameter in signature(verb).parameters.items() if name != "asked")
        told = Signature([*options.values(), *own])
        run.__signature__ = told  # type: ignore[attr-defined]
        run.__annotations__ = {name: parameter.annotation for name, parameter in told.parameters.items()}
        return run

    return decorate


def releases(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VERSION`` by name; raises UsageError for anything else, and for a name that comes twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, version = text.partition("=")
        if not name or not version or name in found:
            problem = f"names {name} twice" if name in found else "needs a source and its release"
            raise UsageError(f"--ref {text} {problem}", hint="write --ref NAME=VERSION, for example --ref vllm=0.34.0")
        found[name] = version
    return found


def of_wheels(
    *,
    engine: EngineOption = "vllm",
    arch: ArchOption = "12.1f",
    platform: PlatformOption = None,
    patch: PatchOption = None,
    source: SourceOption = None,
    ref: RefOption = None,
    targets: TargetsOption = None,
    kernels: KernelsOption = None,
    for_model: ForModelOption = None,
) -> Request:
    """What decides the wheels."""
    named = tuple(part.strip() for part in targets.split(",")) if targets is not None else ()
    return Request(
        engine=engine,
        arch=arch,
        platform=platform,
        patches=tuple(patch or ()),
        sources=tuple(source or ()),
        refs=releases(ref or ()),
        targets=named,
        kernels=kernels,
        model=for_model,
    )


@asks_for(of_wheels)
def of_image(
    *, asked: Request, overlay: OverlayOption = None, mod: ModOption = None, mod_network: ModNetworkOption = False
) -> Request:
    """What decides the image: its wheels, and what is laid over them."""
    return replace(asked, overlay=overlay, mods=tuple(mod or ()), mod_network=mod_network)
