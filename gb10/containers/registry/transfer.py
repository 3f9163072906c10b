"""Look up, push and pull images between an engine and a registry, with the credentials of Docker's client."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import docker
from docker.errors import APIError

from gb10.containers.connection import Engine, asking
from gb10.containers.docker_answers import DistributionAnswer, EventAnswer, MoveAnswer
from gb10.containers.reference import registry_of, split_reference
from gb10.errors import PublishError

MOVING = ("Downloading", "Pushing")
WHOLE = "Pull complete"
MOVED = ("Download complete", WHOLE, "Pushed")
EXISTS = "Already exists"
PRESENT = (EXISTS, "Layer already exists")
MOUNTED = "Mounted from"
ANNOUNCED = ("Preparing", "Waiting", "Pulling fs layer")
RETRY = re.compile(r"Retrying in (\d+) second")
LOGIN = "docker login REGISTRY; or correct the reference"
AWAY = (
    "no such host",
    "name resolution",
    "nameresolution",
    "failed to resolve '",
    "name or service",
    "nodename nor servname",
    "server misbehaving",
    "connection refused",
    "no route to host",
    "unreachable",
    "timeout",
    "timed out",
    "deadline exceeded",
)
"""The engine's words when no registry answered."""
HINTS = (
    (("unauthorized", "authentication", "denied", "forbidden", "credentials"), LOGIN),
    (AWAY, "check the registry's name, port and network"),
    (("server gave http response",), "Docker takes a registry without TLS only if its insecure-registries name it"),
    (("x509", "certificate"), "Docker must trust the registry's certificate: /etc/docker/certs.d/REGISTRY/ca.crt"),
    (("not found", "unknown"), "check the name and the tag"),
)


def _nobody(*_: object) -> None:
    """The default callback: it does nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remote:
    """What a reference stands for in its registry: the manifest's digest, and the platforms that it is for."""

    digest: str
    platforms: tuple[str, ...]
    """Empty for one manifest of OCI's kind, into which Docker's classic engine does not look."""


@dataclass(kw_only=True, slots=True)
class Moves:
    """The layers of one transfer, by id, as the engine reports them; sizes in bytes, compressed as they travel."""

    on_move: Callable[[int, int, str], None] = _nobody
    """Gets the bytes moved, the bytes to move as far as known, and ``3 of 15 layers``: Docker sizes a layer late."""
    on_pause: Callable[[str], None] = _nobody
    """Called once per pause, with the time of the engine's next retry: Docker retries four times, 50 s in all."""
    on_whole: Callable[[int], None] = _nobody
    """Called with the number of complete layers of a pull, counted from the lowest."""
    layers: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    present: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    pausing: dict[str, int] = field(default_factory=dict)
    """Layers that wait for a retry, and the seconds that the engine last reported."""
    retried: set[str] = field(default_factory=set)
    """Layers that the engine tried again and that have not arrived."""
    digest: str = ""

    @property
    def bytes(self) -> int:
        """What has travelled."""
        return sum(self.done.values())

    def follow(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Read all events of an engine; raises PublishError with its text when it reports a failure."""
        failed = ""
        for event in events:
            one = EventAnswer.model_validate(event)
            failed = failed or one.failure.message or one.error
            self.note(one)
            done = len(self.moved | self.present)
            self.on_move(self.bytes, sum(self.sizes.values()), f"{done} of {len(self.layers)} layers")
        if failed:
            raise PublishError(failed, hint=hint_of(failed))

    def note(self, event: EventAnswer) -> None:
        """One event."""
        layer, status = event.id, event.status
        self.digest = event.pushed.digest or self.digest
        pause = RETRY.match(status)
        if pause:
            self._pause(layer, int(pause[1]))
            return
        self.pausing.pop(layer, None)
        self._place(layer, status, event.move)
        if status in (WHOLE, EXISTS):
            self.whole.add(layer)
            self.on_whole(len(self.whole))

    def _place(self, layer: str, status: str, detail: MoveAnswer) -> None:
        if status in (*ANNOUNCED, *MOVING, *MOVED, *PRESENT) or status.startswith(MOUNTED):
            self.layers.add(layer)
        if status in MOVING and detail.total:
            self.sizes[layer] = detail.total
            self.done[layer] = min(detail.current, self.sizes[layer])
        elif status in MOVED:
            self.done[layer] = self.sizes.get(layer, 0)
            self.moved.add(layer)
            self.retried.discard(layer)
        elif status in PRESENT or status.startswith(MOUNTED):
            self.present.add(layer)

    def _pause(self, layer: str, seconds: int) -> None:
        """The engine counts a pause down, an event a second: only the first one is news."""
        if seconds > self.pausing.get(layer, 0):
            self.on_pause(f"layer {layer} broke off: Docker tries it again in {seconds} s")
        self.pausing[layer] = seconds
        self.retried.add(layer)


def resolve(engine: Engine, reference: str) -> Remote:
    """What a reference stands for, as the registry reports it to this engine; raises PublishError, EngineError."""
    with _registry(engine, reference) as api:
        answer = api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
        found = DistributionAnswer.model_validate(answer)
    platforms = tuple(sorted({f"{one.os}/{one.architecture}" for one in found.platforms}))
    return Remote(digest=found.descriptor.digest, platforms=platforms)


def push(engine: Engine, reference: str, moves: Moves) -> None:
    """Push a tag that the engine has; the layers that the registry has, or can mount, do not travel."""
    repository, tag = split_reference(reference)
    with _registry(engine, reference) as api:
        moves.follow(api.push(repository, tag=tag, stream=True, decode=True))


def pull(engine: Engine, reference: str, platform: str, moves: Moves) -> None:
    """Pull ``repository@digest``: what the engine has of its layers does not travel, and bytes are checked."""
    with _registry(engine, reference) as api:
        moves.follow(api.pull(reference, stream=True, decode=True, platform=platform))


@contextmanager
def _registry(engine: Engine, reference: str) -> Iterator[docker.APIClient]:
    """A registry request through the engine; raises PublishError with the engine's text when the registry refuses."""
    with asking(engine) as sdk:
        try:
            yield sdk.api
        except APIError as error:
            raise registry_error(reference, str(error.explanation or error)) from error


def registry_error(reference: str, reason: str) -> PublishError:
    """The error of a request that failed for this reason: nobody answered, or the registry refused. Pure."""
    away = any(word in reason.lower() for word in AWAY)
    host = registry_of(reference) or "docker.io"
    message = f"cannot reach the registry {host}" if away else f"the registry refused {reference}"
    return PublishError(message, where=reason, hint=hint_of(reason))


def hint_of(reason: str) -> str | None:
    """What a user can do about a failed transfer, by the words of the engine or the registry. Pure."""
    return next((hint for words, hint in HINTS if any(word in reason.lower() for word in words)), None)
