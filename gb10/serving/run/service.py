"""A served model: its ranks, what each node runs, and the options of its containers. Pure."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from gb10.containers.container_options import ContainerOptions, HostAccess
from gb10.containers.reference import NAMESPACE
from gb10.core.files import digest
from gb10.errors import UsageError
from gb10.models.load.model_recipe import Answers
from gb10.models.memory.estimating import capped
from gb10.models.render.nodes import api_port
from gb10.models.render.rendered import CACHE, NodeContainer, RenderedRecipe, node_container
from gb10.serving.run.service_nodes import Node

NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,60}")
SERVED: Final = re.compile(r"--(?:served-model-name|alias)[=\s]+[\"']?([^\s\"']+)")
SHARE: Final = re.compile(r"--(?:gpu-memory-utilization|mem-fraction-static)[=\s]+[\"']?(0?\.\d{1,6}|1(?:\.0{1,6})?)\b")
"""What a server answers, as the last part of its path."""
POOLS: Final = re.compile(
    r"(?<![\w-])--(?:runner[=\s]+[\"']?pooling|is-embedding|embeddings?|convert[=\s]+[\"']?embed"
    r"|task[=\s]+[\"']?(?:embed\w*|reward))(?![\w-])"
)
RANKS: Final = re.compile(
    r"(?<![\w-])--(?:rerank(?:ing)?|convert[=\s]+[\"']?classify|task[=\s]+[\"']?(?:classify|score))(?![\w-])"
    r"|classifier_from_token|ForSequenceClassification"
)
"""Options of vLLM, SGLang and llama.cpp for models that pool; vLLM's --hf-overrides name models that rank."""
LEAST: Final = 2 << 30
OOM_SCORE: Final = 500
"""The kernel ends a server before the node's own services: these have 0 or less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerSettings:
    """How the containers of a service run, beside their recipe. ``least`` is the memory in bytes that stays free."""

    gpus: bool = True
    restart: bool = False
    memory: int | None = None
    """Limit of each container in bytes."""
    least: int = LEAST
    host: HostAccess = field(default_factory=HostAccess)
    """What the recipe asks of the nodes: folders, devices, rights, limits."""
    torch: float | None = None
    """The cap of PyTorch's memory: the part of a node's memory that it may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """One node's part. Rank 0 is the head, which answers requests."""

    number: int
    node: Node
    container: NodeContainer


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """A model on one node or several."""

    name: str
    model: str
    """What a request calls it."""
    runtime: str
    port: int
    ranks: tuple[Rank, ...]
    mods: tuple[str, ...]
    settings: ContainerSettings
    meeting: tuple[int, ...] = ()
    """The ports by which the ranks meet."""
    answers: Answers = "chat"
    """By the options of its command; after its start by what it answered."""
    asked: str | None = None
    """The digest of the service as it was asked for, before what was found on its nodes came to it."""

    @property
    def image(self) -> str:
        """The image of every rank."""
        return self.ranks[0].container.image

    @property
    def hosts(self) -> tuple[str, ...]:
        """How the nodes are reached, the head first."""
        return tuple(rank.node.host for rank in self.ranks)

    @property
    def share(self) -> float:
        """The part of a node's memory that its command claims; zero when it names none."""
        found = SHARE.search(self.ranks[0].container.command) if self.settings.gpus else None
        return float(found[1]) if found else 0.0

    @property
    def digest(self) -> str:
        """Equal for services that run the same: it moves with everything that a person asked for.

        What gb10 finds on the nodes is not in it: an address that moved makes no other service of one that runs.
        """
        if self.asked:
            return self.asked
        ranks = []
        for rank in self.ranks:
            container = asdict(rank.container)
            if not rank.container.argv:  # words only where there are some
                del container["argv"]
            ranks.append([rank.node.host, *rank.node.devices, container])
        settings = self.settings
        host = [] if settings.host == HostAccess() else [asdict(settings.host)]
        return digest([ranks, list(self.mods), settings.restart, settings.least, *host])

    @property
    def endpoint(self) -> str:
        """``http://HEAD:PORT``."""
        client = self.ranks[0].node.client or self.ranks[0].node.address
        return f"http://{f'[{client}]' if ':' in client else client}:{self.port}"


def service_of(
    *,
    name: str,
    model: str | None,
    rendered: RenderedRecipe,
    nodes: Sequence[Node],
    mods: Sequence[str],
    settings: ContainerSettings,
    answers: Answers | None = None,
) -> Service:
    """The service of a recipe that was rendered for the addresses of ``nodes``; ``answers`` is what the recipe says.

    Raises UsageError when the recipe does not say what a node runs.
    """
    if NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} cannot be the name of a service", hint="use letters, digits, _, . and - (--name)")
    containers, image = rendered.containers, rendered.image
    if not containers and image:  # of version 1, whose scripts hold the environment
        containers = tuple(node_container(rank.host, image, rank.command, {}) for rank in rendered.ranks)
    if not containers:
        raise UsageError(f"{name} names no image", hint="name one: --image REF")
    command = rendered.serve or rendered.script or ""
    found = SERVED.search(command)
    ranks = []
    for number, (node, container) in enumerate(zip(nodes, containers, strict=False)):
        environment = capped({**node.environment, **container.environment, **node.own}, settings.torch)
        changed = replace(container, environment=environment, gpus=settings.gpus, memory=settings.memory)
        ranks.append(Rank(number=number, node=node, container=changed))
    return Service(
        name=name,
        model=found[1] if found else model or name,
        runtime=rendered.runtime,
        port=api_port(rendered.serve or rendered.script or "", rendered.runtime),
        meeting=rendered.meeting,
        answers=answers or ("rerank" if RANKS.search(command) else "embeddings" if POOLS.search(command) else "chat"),
        ranks=tuple(ranks),
        mods=tuple(mods),
        settings=settings,
    )


def curl_line(endpoint: str, model: str, answers: Answers = "chat") -> str:
    """A request that a person can paste."""
    if answers == "audio/transcriptions":
        return f"curl {endpoint}/v1/{answers} -F {shlex.quote(f'model={model}')} -F file=@speech.wav"
    asked: dict[Answers, dict[str, object]] = {
        "chat": {"messages": [{"role": "user", "content": "Hello"}]},
        "embeddings": {"input": ["Hello"]},
        "rerank": {"query": "Hello", "documents": ["Good morning", "Goodbye"]},
    }
    body = json.dumps({"model": model, **asked[answers]})
    path = "chat/completions" if answers == "chat" else answers
    return f"curl {endpoint}/v1/{path} -H 'Content-Type: application/json' -d {shlex.quote(body)}"


MOST_NODES: Final = 64
LONGEST: Final = 255
"""Characters of a node's name."""
SHARE_LABEL: Final = re.compile(r"[01]\.\d{1,6}")
SERVICE: Final = f"{NAMESPACE}.service"
"""The label with a service's name; the names of the others begin with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """What the labels of a container say. Another program may have written them: what is broken is empty or -1."""

    service: str
    rank: int
    hosts: tuple[str, ...]
    model: str
    runtime: str
    endpoint: str
    digest: str
    memory: int
    """The limit of the container in bytes; 0 is none."""
    share: float
    """The part of the node's memory that its command claims; 0 is unknown."""


def container_name(service: Service, rank: Rank) -> str:
    """``gb10-NAME-0``."""
    return f"gb10-{service.name}-{rank.number}"


def labels_of(service: Service, rank: Rank) -> dict[str, str]:
    """All that `stop`, `status` and `logs` must know of a rank."""
    fields = {
        "rank": str(rank.number),
        "hosts": json.dumps(service.hosts),
        "model": service.model,
        "runtime": service.runtime,
        "endpoint": service.endpoint,
        "digest": service.digest,
        "memory": str(service.settings.memory or 0),
        "share": str(service.share),
    }
    return {SERVICE: service.name, **{f"{SERVICE}.{name}": value for name, value in fields.items()}}


def read_labels(labels: Mapping[str, str]) -> Labels:
    """The labels of a container as values."""
    own = {name.removeprefix(f"{SERVICE}."): value for name, value in labels.items()}
    return Labels(
        service=labels.get(SERVICE, ""),
        rank=_number(own.get("rank"), -1),
        hosts=_hosts(own.get("hosts")),
        model=own.get("model", ""),
        runtime=own.get("runtime", ""),
        endpoint=own.get("endpoint", ""),
        digest=own.get("digest", ""),
        memory=_number(own.get("memory"), 0),
        share=float(share) if SHARE_LABEL.fullmatch(share := own.get("share", "")) else 0.0,
    )


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else otherwise


def _hosts(text: str | None) -> tuple[str, ...]:
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return ()
    if not isinstance(found, list) or len(found) > MOST_NODES or not all(isinstance(one, str) for one in found):
        return ()
    return tuple(one[:LONGEST] for one in found)


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


def server_line(command: Sequence[str]) -> str:
    """The server of a container's command as one text for bash, which gives it the same words."""
    _, *server = command[command.index(LAUNCH) + 1 :]
    return shlex.join(server[1:]) if server[0] == "--" else server[0]


def container_options(service: Service, rank: Rank) -> ContainerOptions:
    """How the container of a rank runs. Pure."""
    settings, node, argv = service.settings, rank.node, rank.container.argv
    server = ("--", *argv) if argv else (rank.container.command,)  # words that no shell reads, or one text for bash
    return ContainerOptions(
        image=rank.container.image,
        name=container_name(service, rank),
        command=("bash", LAUNCH, str(settings.least >> 10), *server),
        environment=rank.container.environment,
        labels=labels_of(service, rank),
        volumes=dict([CACHE]),
        mounts=rank.container.mounts,
        gpus=rank.container.gpus,
        memory=rank.container.memory,
        oom_score_adj=OOM_SCORE,
        devices=node.devices,
        memlock=bool(node.devices),
        restart=settings.restart,
        host=settings.host,
    )
