"""How a container runs, and the same in the words of Docker's command line. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gb10.containers.reference import registry_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerOptions:
    """How a container runs. ``memory`` is its limit in bytes, ``memlock`` whether it may lock all of its memory."""

    image: str
    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Mount points by the name of a volume, or by a path of the host."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Mount points of folders of the host that it only reads; a folder that is missing is an error."""
    gpus: bool = True
    memory: int | None = None
    oom_score_adj: int = 0
    devices: tuple[str, ...] = ()
    memlock: bool = False
    restart: bool = False
    platform: str | None = None

    @property
    def pull(self) -> str:
        """When an image is pulled: never by a name without registry and digest, which is a stranger's on docker.io."""
        return "missing" if registry_of(self.image) or "@" in self.image else "never"


def run_words(options: ContainerOptions) -> tuple[str, ...]:
    """The options of ``docker run``, without the image and the command. The SDK's are in ``docker_containers``."""
    limit = str(options.memory)
    return (
        *("--name", options.name),
        *("--pull", options.pull),
        *(("--platform", options.platform) if options.platform else ()),
        *(("--gpus", "all") if options.gpus else ()),
        *("--ipc", "host"),
        *("--network", "host"),
        *(("--memory", limit, "--memory-swap", limit) if options.memory else ()),
        *("--oom-score-adj", str(options.oom_score_adj)),
        *(("--ulimit", "memlock=-1:-1") if options.memlock else ()),
        *(("--restart", "unless-stopped") if options.restart else ()),
        *(word for device in options.devices for word in ("--device", f"{device}:{device}:rwm")),
        *(word for source, target in options.volumes.items() for word in ("--volume", f"{source}:{target}")),
        *(
            word
            for source, target in options.mounts.items()
            for word in ("--mount", f"type=bind,source={source},target={target},readonly")
        ),
        *(word for name, value in options.environment.items() for word in ("--env", f"{name}={value}")),
        *(word for name, value in options.labels.items() for word in ("--label", f"{name}={value}")),
        *("--entrypoint", options.command[0]),
    )


def command_words(options: ContainerOptions) -> tuple[str, ...]:
    """The image, and what its entry point gets, as they follow ``run_words``."""
    return options.image, *options.command[1:]


def docker_call(options: ContainerOptions) -> tuple[str, ...]:
    """The call of docker that makes the container and starts it."""
    return ("docker", "run", "--detach", *run_words(options), *command_words(options))
