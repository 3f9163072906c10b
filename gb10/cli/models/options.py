"""Options about services that `run`, benchmarks and `recipe render --as` share, and what they become."""

from collections.abc import Sequence
from typing import Annotated

import typer

from gb10.cli.values import override
from gb10.errors import UsageError
from gb10.models.choose.choosing import ENGINES, PURPOSES, ChoiceRequest
from gb10.models.render.rendered import RenderRequest
from gb10.serving.run.prepare_service import ServiceRequest
from gb10.serving.run.service import ContainerSettings

NodesOption = Annotated[
    str | None,
    typer.Option(
        "--nodes", metavar="A,B", help="Nodes by ssh ([USER@]NAME), the head first; or @CLUSTER. Default: this machine."
    ),
]


SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter of the recipe. Repeatable.")
]
VariantOption = Annotated[
    str | None, typer.Option("--variant", metavar="NAME", help="A variant of the recipe; recipe show lists them.")
]


GIB = 1 << 30
ImageOption = Annotated[
    str | None, typer.Option("--image", metavar="REF", help="Run this image in place of the recipe's.")
]
NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the service. Default: the recipe's.")
]
GpusOption = Annotated[
    bool, typer.Option("--gpus/--no-gpus", help="Whether containers see the GPU. Without: engines for the CPU.")
]
MemoryOption = Annotated[
    float | None,
    typer.Option(
        "--memory",
        metavar="GIB",
        min=0.05,
        help="Limit of the memory of each container. Default: what the model is known to take.",
    ),
]
KeepFreeOption = Annotated[
    float,
    typer.Option("--keep-free", metavar="GIB", min=0.01, help="End the server when less memory is left."),
]
CapOption = Annotated[
    bool | None,
    typer.Option(
        "--torch-cap/--no-torch-cap",
        help="Cap PyTorch's memory. Default: where the image's release can.",
    ),
]
AllowPathOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-path", metavar="DIR", help="A folder of the nodes that a recipe of others may get. Repeatable."
    ),
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="KEY=VALUE", help="What else it may get of the host, as the error lists it. Repeatable."
    ),
]
IgnoreOption = Annotated[
    bool, typer.Option("--ignore-unsupported", help="Start without what the recipe asks for and gb10 cannot do.")
]
RestartOption = Annotated[bool, typer.Option("--restart", help="Docker starts it again after a crash or a reboot.")]


PurposeOption = Annotated[
    str, typer.Option("--for", metavar="USE", help=f"Of a model without a recipe: {', '.join(PURPOSES)}.")
]


def choice_request(*, purpose: str, engine: str | None = None, nodes: int | None = None) -> ChoiceRequest:
    """How a model without a recipe is used; raises UsageError for an unknown use or engine."""
    if purpose not in PURPOSES:
        raise UsageError(f"--for {purpose}: no such use", hint=f"known: {', '.join(PURPOSES)}")
    if engine not in (None, *ENGINES):
        raise UsageError(f"no engine {engine!r}", hint=f"known: {', '.join(ENGINES)}")
    return ChoiceRequest(purpose=purpose, engine=engine, nodes=nodes)


def settings_of(*, gpus: bool, memory: float | None, keep_free: float, restart: bool = False) -> ContainerSettings:
    """How containers run."""
    limit = int(memory * GIB) if memory else None
    return ContainerSettings(gpus=gpus, restart=restart, memory=limit, least=int(keep_free * GIB))


def request_of(
    *,
    nodes: str | None = None,
    overrides: Sequence[str] | None = None,
    variant: str | None = None,
    image: str | None = None,
    trust: bool = False,
    allow: Sequence[str] | None = None,
    allow_paths: Sequence[str] | None = None,
    ignore_unsupported: bool = False,
) -> ServiceRequest:
    """What is run; raises UsageError."""
    render = RenderRequest(overrides=tuple(map(override, overrides or ())), variant=variant)
    relative = next((one for one in allow_paths or () if not one.startswith("/")), None)
    if relative:
        raise UsageError(f"--allow-path {relative}: a folder of the nodes", hint="write its absolute path there")
    return ServiceRequest(
        nodes=nodes,
        render=render,
        image=image,
        trust=trust,
        allow=tuple(allow or ()),
        allow_paths=tuple(one.rstrip("/") or "/" for one in allow_paths or ()),
        ignore_unsupported=ignore_unsupported,
    )
