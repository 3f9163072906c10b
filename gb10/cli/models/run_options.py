"""The options of `run`: what of a recipe, and how."""

from dataclasses import dataclass
from typing import Annotated

import typer

from gb10.cli.models.container_flags import ImageOption, NameOption
from gb10.cli.models.recipe_files import override
from gb10.cli.models.recipe_trust import TrustOption
from gb10.cli.models.serving import NodesOption
from gb10.cli.models.wanted_service import Wanted
from gb10.models.render.rendered import RenderRequest

SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter of the recipe. Repeatable.")
]
VariantOption = Annotated[
    str | None, typer.Option("--variant", metavar="NAME", help="A variant of the recipe; recipe show lists them.")
]


def wanted_of(
    *,
    nodes: NodesOption = None,
    overrides: SetOption = None,
    variant: VariantOption = None,
    image: ImageOption = None,
    name: NameOption = None,
    trust: TrustOption = False,
) -> Wanted:
    """What is run; raises UsageError."""
    request = RenderRequest(overrides=tuple(override(one) for one in overrides or ()), variant=variant)
    return Wanted(hosts=(), nodes=nodes, request=request, image=image, name=name, trust=trust)


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
