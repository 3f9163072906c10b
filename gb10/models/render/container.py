"""What one node runs by its Docker: docker's words for it, and the values that `run` hands to the engine. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    gpus: bool = True
    memory: int | None = None
    """The limit of its memory in bytes."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The call of docker that runs it."""
        options = [
            *(["--gpus", "all"] if self.gpus else []),
            "--ipc",
            "host",
            "--network",
            "host",
            "-v",
            ":".join(CACHE),
        ]
        options += ["--memory", str(self.memory)] if self.memory else []
        variables = [word for key, value in self.environment.items() for word in ("-e", f"{key}={value}")]
        return ("docker", "run", "--rm", *options, *variables, self.image, "bash", "-c", self.command)


def node_container(host: str, image: str, command: str, environment: Mapping[str, str]) -> NodeContainer:
    """The container of one node. An image of others is told where the shared cache is."""
    told = environment if image.startswith(OUR_IMAGES) else {MODELS[0]: MODELS[1], **environment}
    return NodeContainer(host=host, image=image, command=command, environment=told)
