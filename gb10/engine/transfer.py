"""Images between an engine and a registry: asked, pushed, pulled; credentials are those of Docker's client."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import docker
from docker.errors import APIError

from gb10.engine.connection import Engine, asking
from gb10.engine.reference import split_reference
from gb10.errors import PublishError

MOVING = ("Downloading", "Pushing")
MOVED = ("Download complete", "Pull complete", "Pushed")
THERE = ("Already exists", "Layer already exists")
MOUNTED = "Mounted from"
LOGIN = "docker login REGISTRY; or correct the reference"
OnMove = Callable[[int, int], None]
"""Bytes that have moved so far, and bytes that are to move as far as is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remote:
    """What a reference stands for in its registry: the manifest's digest, and the platforms that it is for."""

    digest: str
    platforms: tuple[str, ...]


@dataclass(kw_only=True, slots=True)
class Moves:
    """The layers of one transfer, by id, as the engine tells; sizes in bytes, compressed as they travel."""

    sizes: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    there: set[str] = field(default_factory=set)
    digest: str = ""

    @property
    def bytes(self) -> int:
        """What has travelled."""
        return sum(self.done.values())

    def note(self, event: Mapping[str, Any]) -> None:
        """One event; raises PublishError in the engine's words when it tells of a failure."""
        if "error" in event:
            raise PublishError(str(event.get("errorDetail", {}).get("message") or event["error"]))
        layer, status = str(event.get("id", "")), str(event.get("status", ""))
        detail = event.get("progressDetail") or {}
        self.digest = event.get("aux", {}).get("Digest", self.digest)
        if status in MOVING and detail.get("total"):
            self.sizes[layer] = int(detail["total"])
            self.done[layer] = min(int(detail["current"]), self.sizes[layer])
        elif status in MOVED:
            self.done[layer] = self.sizes.get(layer, 0)
            self.moved.add(layer)
        elif status in THERE or status.startswith(MOUNTED):
            self.there.add(layer)


def resolve(engine: Engine, reference: str) -> Remote:
    """What a reference stands for, as this engine is told by the registry; raises PublishError, EngineError."""
    with _registry(engine, reference) as api:
        found: dict[str, Any] = api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
    platforms = tuple(sorted({f"{one['os']}/{one['architecture']}" for one in found["Platforms"]}))
    return Remote(digest=found["Descriptor"]["digest"], platforms=platforms)


def push(engine: Engine, reference: str, on_move: OnMove) -> Moves:
    """Push a tag that the engine has; the layers that the registry has, or can mount, do not travel."""
    repository, tag = split_reference(reference)
    with _registry(engine, reference) as api:
        return _follow(api.push(repository, tag=tag, stream=True, decode=True), on_move)


def pull(engine: Engine, reference: str, platform: str, on_move: OnMove) -> Moves:
    """Pull ``repository@digest``: what the engine has of its layers does not travel, and bytes are checked."""
    with _registry(engine, reference) as api:
        return _follow(api.pull(reference, stream=True, decode=True, platform=platform), on_move)


def _follow(events: Iterable[Mapping[str, Any]], on_move: OnMove) -> Moves:
    moves = Moves()
    for event in events:
        moves.note(event)
        on_move(moves.bytes, sum(moves.sizes.values()))
    return moves


@contextmanager
def _registry(engine: Engine, reference: str) -> Iterator[docker.APIClient]:
    """The engine, asked to talk with a registry; raises PublishError in the engine's words when that one refuses."""
    with asking(engine) as sdk:
        try:
            yield sdk.api
        except APIError as error:
            raise PublishError(f"the registry refused {reference}", where=str(error.explanation or error),
                               hint=LOGIN) from error  # fmt: skip
