"""What one node runs in a container, whoever starts it: `run`, or a launcher that takes our files. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

CACHE: Final = ("gb10-cache", "/var/cache/gb10")
"""The volume that keeps models and compiled kernels, and where our images look for them."""
OUR_IMAGES: Final = "gb10/"
MODELS: Final = ("HF_HOME", "/var/cache/gb10/huggingface")
"""Where our images keep models. Other images are told, or they load the model into a container that is removed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeContainer:
    """A container on the node's own network, which sees its GPU, its shared memory, and the cache of models."""

    host: str
    image: str
    command: str
    """A command line for bash."""
    environment: Mapping[str, str]
    argv: tuple[str, ...] = ()
    """The words of the command, which is then started without a shell."""
    gpus: bool = True
    memory: int | None = None
    """The limit of its memory in bytes."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Folders of the node that it reads, and where it sees them."""


def node_container(
    host: str, image: str, command: str, environment: Mapping[str, str], argv: tuple[str, ...] = ()
) -> NodeContainer:
    """The container of one node. An image of others is told where the shared cache is."""
    told = environment if image.startswith(OUR_IMAGES) else {MODELS[0]: MODELS[1], **environment}
    return NodeContainer(host=host, image=image, command=command, environment=told, argv=argv)
