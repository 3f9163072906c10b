"""How a container runs, and the same in the words of Docker's command line. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gb10.containers.reference import registry_of


@dataclass(frozen=True, kw_only=True, slots=True)
class HostMount:
    """A folder or file of the host, by its absolute path, or a named volume of its engine, and where it is seen."""

    source: str
    target: str
    read_only: bool = False
    optional: bool = False
    """Whether it is left out where the node does not have it: then the image may hold it."""

    @property
    def is_volume(self) -> bool:
        """Whether the source is the name of a volume, which the engine makes when it is missing."""
        return not self.source.startswith("/")


@dataclass(frozen=True, kw_only=True, slots=True)
class HostAccess:
    """What a container gets of its host beside the GPU, the network and shared memory, in Docker's own terms.

    ``devices`` are ``/dev/a:/dev/b:rwm``, ``ulimits`` soft and hard limits by name (-1: none), ``shm_size`` bytes.
    """

    mounts: tuple[HostMount, ...] = ()
    devices: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    privileged: bool = False
    user: str = ""
    ulimits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ipc: str = "host"
    shm_size: int | None = None
    cpuset: str = ""
    hostname: str = ""
    extra_hosts: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def own_shared_memory(self) -> int | None:
        """The size of a container's own shared memory; None where it has the node's, or Docker's default."""
        return None if self.ipc == "host" else self.shm_size


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
    host: HostAccess = field(default_factory=HostAccess)
    """What a recipe asks of the host besides."""

    @property
    def all_devices(self) -> tuple[str, ...]:
        """``/dev/a:/dev/b:rwm`` of each device: those of the network, and the recipe's."""
        return tuple(dict.fromkeys((*(f"{one}:{one}:rwm" for one in self.devices), *self.host.devices)))

    @property
    def ulimits(self) -> Mapping[str, tuple[int, int]]:
        """Soft and hard limits by name. A limit of the recipe wins over what RDMA needs."""
        return {**({"memlock": (-1, -1)} if self.memlock else {}), **self.host.ulimits}

    @property
    def all_labels(self) -> Mapping[str, str]:
        """The recipe's labels; one of ours wins over one of the same name."""
        return {**self.host.labels, **self.labels}

    @property
    def binds(self) -> tuple[HostMount, ...]:
        """Folders and files of the host; one that is missing is an error."""
        ours = (HostMount(source=source, target=target, read_only=True) for source, target in self.mounts.items())
        return (*ours, *(mount for mount in self.host.mounts if not mount.is_volume))

    @property
    def named_volumes(self) -> tuple[HostMount, ...]:
        """Volumes of the engine, which it makes when they are missing."""
        ours = (HostMount(source=source, target=target) for source, target in self.volumes.items())
        return (*ours, *(mount for mount in self.host.mounts if mount.is_volume))

    @property
    def pull(self) -> str:
        """When an image is pulled: never by a name without registry and digest, which is a stranger's on docker.io."""
        return "missing" if registry_of(self.image) or "@" in self.image else "never"


def run_options(options: ContainerOptions) -> tuple[tuple[str, ...], ...]:
    """The options of ``docker run``, each with its value, without the image and the command.

    The SDK's are in ``docker_containers``.
    """
    limit, host = str(options.memory), options.host
    return (
        ("--name", options.name),
        ("--pull", options.pull),
        *((("--platform", options.platform),) if options.platform else ()),
        *((("--gpus", "all"),) if options.gpus else ()),
        ("--ipc", host.ipc),
        *((("--shm-size", str(host.own_shared_memory)),) if host.own_shared_memory else ()),
        ("--network", "host"),
        *((("--memory", limit), ("--memory-swap", limit)) if options.memory else ()),
        ("--oom-score-adj", str(options.oom_score_adj)),
        *(("--ulimit", f"{name}={soft}:{hard}") for name, (soft, hard) in options.ulimits.items()),
        *((("--restart", "unless-stopped"),) if options.restart else ()),
        *((("--privileged",),) if host.privileged else ()),
        *((("--user", host.user),) if host.user else ()),
        *((("--cpuset-cpus", host.cpuset),) if host.cpuset else ()),
        *((("--hostname", host.hostname),) if host.hostname else ()),
        *(("--cap-add", one) for one in host.cap_add),
        *(("--security-opt", one) for one in host.security_opt),
        *(("--add-host", f"{name}:{address}") for name, address in host.extra_hosts.items()),
        *(("--device", device) for device in options.all_devices),
        *(("--volume", f"{one.source}:{one.target}{':ro' * one.read_only}") for one in options.named_volumes),
        *(
            ("--mount", f"type=bind,source={one.source},target={one.target}{',readonly' * one.read_only}")
            for one in options.binds
        ),
        *(("--env", f"{name}={value}") for name, value in options.environment.items()),
        *(("--label", f"{name}={value}") for name, value in options.all_labels.items()),
        ("--entrypoint", options.command[0]),
    )


def run_words(options: ContainerOptions) -> tuple[str, ...]:
    """The options of ``docker run`` as words."""
    return tuple(word for option in run_options(options) for word in option)


def command_words(options: ContainerOptions) -> tuple[str, ...]:
    """The image, and what its entry point gets, as they follow ``run_words``."""
    return options.image, *options.command[1:]


def docker_call(options: ContainerOptions) -> tuple[str, ...]:
    """The call of docker that makes the container and starts it."""
    return ("docker", "run", "--detach", *run_words(options), *command_words(options))
