"""What a node runs for a service: one container, and the files of its first process.

``run`` starts exactly this, and the files of ``recipe render --as`` say exactly this to other launchers.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gb10.containers.container_options import ContainerOptions
from gb10.models.render.container import CACHE, NodeContainer
from gb10.serving.run.service import OOM_SCORE, Rank, Service, container_name, labels_of

FOLDER: Final = "/gb10/run"
LAUNCH: Final = f"{FOLDER}/launch.sh"
SECRETS: Final = "/gb10/secrets"
"""Each file is a variable of the server alone: its name, and its first line."""
SCRIPT: Final = Path(__file__).with_name("launch.sh")


def launch_files() -> dict[str, tuple[bytes, int]]:
    """The files of a container whose server waits for its mods: content and mode by path."""
    return {LAUNCH: (SCRIPT.read_bytes(), 0o755), f"{FOLDER}/hold": (b"", 0o444)}


def secret_files(secrets: Mapping[str, str]) -> dict[str, tuple[bytes, int]]:
    """The files of variables that only the server sees: its user alone may read them."""
    return {f"{SECRETS}/{name}": (f"{value}\n".encode(), 0o400) for name, value in secrets.items()}


def server_words(container: NodeContainer) -> tuple[str, ...]:
    """The server as the first process takes it: words that no shell reads, or one text for bash."""
    return ("--", *container.argv) if container.argv else (container.command,)


def server_line(command: Sequence[str]) -> str:
    """The server of a container's command as one text for bash, which gives it the same words."""
    _, *server = command[command.index(LAUNCH) + 1 :]
    return shlex.join(server[1:]) if server[0] == "--" else server[0]


def container_options(service: Service, rank: Rank) -> ContainerOptions:
    """How the container of a rank runs. Pure."""
    options, node = service.options, rank.node
    return ContainerOptions(
        image=rank.container.image,
        name=container_name(service, rank),
        command=("bash", LAUNCH, str(options.least >> 10), *server_words(rank.container)),
        environment=rank.container.environment,
        labels=labels_of(service, rank),
        volumes=dict([CACHE]),
        mounts=rank.container.mounts,
        gpus=rank.container.gpus,
        memory=rank.container.memory,
        oom_score_adj=OOM_SCORE,
        devices=node.devices,
        memlock=bool(node.devices),
        restart=options.restart,
    )
