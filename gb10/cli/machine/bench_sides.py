"""The options that say how `bench compare`, `bench matrix` and `bench replay` start servers."""

from dataclasses import replace
from typing import Annotated, Final

import typer

from gb10.cli.models.options import (
    GIB,
    GpusOption,
    ImageOption,
    KeepFreeOption,
    MemoryOption,
    NodesOption,
    SetOption,
    VariantOption,
    request_of,
    settings_of,
)
from gb10.errors import UsageError
from gb10.serving.benchmark.launcher import Starting
from gb10.serving.run.service import LEAST

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
        request=replace(
            request_of(nodes=nodes, overrides=overrides, variant=variant, image=image, trust=trust),
            containers=settings_of(gpus=gpus, memory=memory, keep_free=keep_free),
            patience=wait,
        ),
        recipe=recipe,
        launch=launch,
        endpoint=endpoint,
    )
