"""A service as other launchers take it: the container of each node with its first process inside, no gb10. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gb10.containers.container_options import ContainerOptions
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.rendered import RenderedRecipe
from gb10.serving.run.service import SECRETS, Rank, Service, container_options

HUB: Final = "HF_TOKEN"
HUB_PLACE: Final = f"{SECRETS}/{HUB}"
"""Where the first process looks for the token; an empty file is none."""
HUB_FILE: Final = "HF_TOKEN_FILE"
"""The variable with a file of the node that holds the token."""
NO_FILE: Final = "/dev/null"
RAILS: Final = ("enp1s0f0np0", "enP2p1s0f0np0")
"""The two halves of a Spark's first fast port, as DGX OS names them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fabric:
    """How Kubernetes reaches the fast link.

    ``resource`` is what a device plugin offers for RDMA; without one pods are privileged. With a resource, or with
    ``functions``, they have their own network, and a virtual function of each of ``rails``; else the node's network.
    """

    resource: str | None = None
    functions: bool = False
    rails: tuple[str, ...] = RAILS

    @property
    def own_network(self) -> bool:
        """Whether a pod has a network of its own, with virtual functions."""
        return self.functions or self.resource is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file of a form; ``host`` is the node that needs it, None for one that is not for a node alone."""

    name: str
    text: str
    host: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """A service and what its forms are made of."""

    service: Service
    containers: tuple[ContainerOptions, ...]
    """The containers of the ranks, as ``run`` starts them, but with their first process inline."""
    recipe: ModelRecipe
    rendered: RenderedRecipe
    arguments: tuple[str, ...]
    """What was added to the engine's command."""
    templates: Mapping[str, str] = field(repr=False)
    fabric: Fabric
    left_out: tuple[str, ...] = ()
    """Files that its command names and that are not mounted: the image must hold them."""

    @property
    def ranks(self) -> tuple[tuple[Rank, ContainerOptions], ...]:
        """Each rank with its container."""
        return tuple(zip(self.service.ranks, self.containers, strict=True))

    def title(self, rank: Rank) -> str:
        """A line for people, which ends no comment."""
        place = " ".join(rank.node.host.split())
        return f"{self.service.name}: rank {rank.number} of {len(self.containers)}, on {place}"


def containers_of(service: Service, script: str) -> tuple[ContainerOptions, ...]:
    """The containers of a service; ``script`` is the text of their first process."""
    return tuple(inline(container_options(service, rank), script) for rank in service.ranks)


def inline(options: ContainerOptions, script: str) -> ContainerOptions:
    """A container whose first process needs no file: the shell gets its text."""
    shell, *rest = options.command
    return replace(options, command=(shell, "-c", without_comments(script), *rest))


def without_comments(script: str) -> str:
    """A shell script without the lines that only people read."""
    return "\n".join(line for line in script.splitlines() if not line.lstrip().startswith("#")) + "\n"
