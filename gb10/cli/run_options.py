"""The options of `run`: what of a recipe, and how."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from gb10.cli.serving import NodesOption, nodes_named
from gb10.errors import UsageError
from gb10.models.render.rendered import RenderRequest
from gb10.serve.members import nodes_of
from gb10.serve.service import LEAST, Options

GIB = 1 << 30
ImageOption = Annotated[
    str | None, typer.Option("--image", metavar="REF", help="Run this image in place of the recipe's.")
]
NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the service. Default: the recipe's.")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a command line wants of a recipe."""

    hosts: tuple[str, ...]
    request: RenderRequest
    image: str | None
    name: str | None

    def given(self, arguments: Sequence[str]) -> "Wanted":
        """The same with more arguments of the engine."""
        return replace(self, request=replace(self.request, arguments=tuple(arguments)))


def wanted_of(
    *,
    nodes: NodesOption = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter of the recipe. Repeatable.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option("--variant", metavar="NAME", help="A variant of the recipe; recipe show lists them.")
    ] = None,
    image: ImageOption = None,
    name: NameOption = None,
) -> Wanted:
    """What is run; raises UsageError."""
    hosts = nodes_named(nodes)
    request = RenderRequest(
        nodes=tuple(node.address for node in nodes_of(hosts)) if hosts else (),
        overrides=tuple(_override(one) for one in overrides or ()),
        variant=variant,
    )
    return Wanted(hosts=hosts, request=request, image=image, name=name)


def options_of(
    *,
    gpus: Annotated[
        bool, typer.Option("--gpus/--no-gpus", help="Whether containers see the GPU. Without: engines for the CPU.")
    ] = True,
    memory: Annotated[
        float | None,
        typer.Option("--memory", metavar="GIB", min=0.05, help="Limit of the memory of each container. Default: none."),
    ] = None,
    keep_free: Annotated[
        float,
        typer.Option("--keep-free", metavar="GIB", min=0.01, help="End the server when less memory is left."),
    ] = LEAST / GIB,
    restart: Annotated[
        bool, typer.Option("--restart", help="Docker starts it again after a crash or a reboot.")
    ] = False,
) -> Options:
    """How containers run."""
    limit = int(memory * GIB) if memory else None
    return Options(gpus=gpus, restart=restart, memory=limit, least=int(keep_free * GIB))


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """How `run` behaves: ``wait`` in seconds."""

    replace: bool
    wait: int
    detach: bool


def manner_of(
    *,
    replaced: Annotated[
        bool, typer.Option("--replace", help="Stop the service of this name first, when it runs otherwise.")
    ] = False,
    wait: Annotated[
        int, typer.Option("--wait", metavar="SECONDS", min=1, help="How long it may take to be healthy.")
    ] = 7200,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when the endpoint answers.")] = False,
) -> Manner:
    """How the verb itself behaves."""
    return Manner(replace=replaced, wait=wait, detach=detach)


def _override(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {text!r} has no value", hint="write --set KEY=VALUE")
    return key, value
