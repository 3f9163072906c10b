"""Services as the labels of their containers tell of them. Anybody may have written a label. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gb10.image.plan.labels import NAMESPACE
from gb10.serving.run.service import Rank, Service

MOST_NODES: Final = 64
LONGEST: Final = 255
"""Characters of a node's name."""
SHARE: Final = re.compile(r"[01]\.\d{1,6}")
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
        share=float(share) if SHARE.fullmatch(share := own.get("share", "")) else 0.0,
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
