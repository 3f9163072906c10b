"""A served model: its ranks and what each node runs. Pure."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from gb10.core.files import digest
from gb10.errors import UsageError
from gb10.image.plan.plan_record import NAMESPACE
from gb10.models.memory.memory_limits import with_memory_cap
from gb10.models.render.container import NodeContainer, node_container
from gb10.models.render.rendered import RenderedRecipe
from gb10.models.render.topology import api_port
from gb10.serving.run.service_nodes import Node

NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,60}")
SERVED: Final = re.compile(r"--(?:served-model-name|alias)[=\s]+[\"']?([^\s\"']+)")
SHARE: Final = re.compile(r"--(?:gpu-memory-utilization|mem-fraction-static)[=\s]+[\"']?(0?\.\d{1,6}|1(?:\.0{1,6})?)\b")
LEAST: Final = 2 << 30
OOM_SCORE: Final = 500
"""The kernel ends a server before the node's own services: these have 0 or less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How a service runs, beside its recipe. ``least`` is the memory in bytes that a node must keep free."""

    gpus: bool = True
    restart: bool = False
    memory: int | None = None
    """Limit of each container in bytes."""
    least: int = LEAST
    cap: bool | None = None
    """Whether PyTorch's memory is capped; None where its release is known to take a cap."""
    torch: float | None = None
    """The cap: the part of a node's memory that PyTorch may take."""


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
    options: Options
    meeting: tuple[int, ...] = ()
    """The ports by which the ranks meet."""
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
        found = SHARE.search(self.ranks[0].container.command) if self.options.gpus else None
        return float(found[1]) if found else 0.0

    @property
    def digest(self) -> str:
        """Equal for services that run the same: it moves with everything that a person asked for.

        What gb10 finds on the nodes is not in it: an address that moved makes no other service of one that runs.
        """
        if self.asked:
            return self.asked
        ranks = [[rank.node.host, *rank.node.devices, _as_data(rank.container)] for rank in self.ranks]
        options = self.options
        return digest([ranks, list(self.mods), options.restart, options.least])

    @property
    def endpoint(self) -> str:
        """``http://HEAD:PORT``."""
        client = self.ranks[0].node.client or self.ranks[0].node.address
        return f"http://{f'[{client}]' if ':' in client else client}:{self.port}"


def _as_data(container: NodeContainer) -> dict[str, object]:
    """A container as it counts into a digest: words only where there are some."""
    found = asdict(container)
    return found if container.argv else {name: value for name, value in found.items() if name != "argv"}


def service_of(
    *,
    name: str,
    model: str | None,
    rendered: RenderedRecipe,
    nodes: Sequence[Node],
    mods: Sequence[str],
    options: Options,
) -> Service:
    """The service of a recipe that was rendered for the addresses of ``nodes``.

    Raises UsageError when the recipe does not say what a node runs.
    """
    if NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} cannot be the name of a service", hint="use letters, digits, _, . and - (--name)")
    containers = rendered.containers or _of_scripts(rendered)
    if not containers:
        raise UsageError(f"{name} names no image", hint="name one: --image REF")
    command = rendered.serve or rendered.script or ""
    found = SERVED.search(command)
    return Service(
        name=name,
        model=found[1] if found else model or name,
        runtime=rendered.runtime,
        port=api_port(rendered.serve or rendered.script or "", rendered.runtime),
        meeting=rendered.meeting,
        ranks=tuple(
            _rank(number, node, container, options)
            for number, (node, container) in enumerate(zip(nodes, containers, strict=False))
        ),
        mods=tuple(mods),
        options=options,
    )


def _rank(number: int, node: Node, container: NodeContainer, options: Options) -> Rank:
    environment = with_memory_cap({**node.environment, **container.environment, **node.own}, options.torch)
    changed = replace(container, environment=environment, gpus=options.gpus, memory=options.memory)
    return Rank(number=number, node=node, container=changed)


def _of_scripts(rendered: RenderedRecipe) -> tuple[NodeContainer, ...]:
    """The containers of a recipe of version 1, whose scripts hold the environment."""
    image = rendered.image
    return tuple(node_container(rank.host, image, rank.command, {}) for rank in rendered.ranks) if image else ()


def curl_line(endpoint: str, model: str) -> str:
    """A request that a person can paste."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}]})
    return f"curl {endpoint}/v1/chat/completions -H 'Content-Type: application/json' -d {shlex.quote(body)}"


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
        "memory": str(service.options.memory or 0),
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
