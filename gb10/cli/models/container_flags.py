"""Options about containers that `run` and `recipe render --as` share."""

from typing import Annotated

import typer

from gb10.serving.run.service import LEAST, Options

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
    typer.Option("--memory", metavar="GIB", min=0.05, help="Limit of the memory of each container. Default: none."),
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
RestartOption = Annotated[bool, typer.Option("--restart", help="Docker starts it again after a crash or a reboot.")]


def options_of(
    *,
    gpus: GpusOption = True,
    memory: MemoryOption = None,
    keep_free: KeepFreeOption = LEAST / GIB,
    restart: RestartOption = False,
    cap: CapOption = None,
) -> Options:
    """How containers run."""
    limit = int(memory * GIB) if memory else None
    return Options(gpus=gpus, restart=restart, memory=limit, least=int(keep_free * GIB), cap=cap)
