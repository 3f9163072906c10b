"""Receiving: one node pulls an image, keeps what arrived if that breaks off, and gives it its name."""

from collections.abc import Sequence
from dataclasses import dataclass

from gb10.containers.connection import Engine
from gb10.containers.engine_host import engine_host
from gb10.containers.images import ImageInfo, find_image, require_image, tag_image
from gb10.containers.registry.holding import Holder
from gb10.containers.registry.transfer import Moves, pull
from gb10.core.digest import digest
from gb10.core.machine import ARCHITECTURES
from gb10.core.reporter import Reporter, Task
from gb10.errors import EngineError, PublishError
from gb10.image.publish.keyed import KEYED
from gb10.image.publish.retries import FULL, patiently, tells

ROOM = "make room there (docker system df shows what takes it); what had arrived was given back"
AWAY = "see whether that machine is up and Docker runs there"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pulled:
    """A node that has the image; ``bytes`` that travelled, compressed."""

    host: str
    id: str
    """As its engine names it: in containerd's store otherwise than in the classic one."""
    layers: str
    """One digest over the layers' own digests: the same for one image in every kind of store."""
    there: int | None
    moved: int | None
    bytes: int | None
    """None, and the two before, where the node does not tell: containerd under K3s."""
    seconds: float


def platform_of(engine: Engine) -> str:
    """What images the node's machine runs without an emulator."""
    return platform_on(engine_host(engine).machine)


def platform_on(machine: str) -> str:
    """What images a machine runs, by the kernel's name for it. Pure."""
    return f"linux/{ARCHITECTURES.get(machine, machine)}"


def check_platform(reference: str, host: str, platform: str, platforms: Sequence[str]) -> None:
    """Raise PublishError for a node of another machine than the image. Pure."""
    if platform not in platforms:
        raise PublishError(
            f"{reference} is for {', '.join(platforms)}, {host} is {platform}",
            hint=f"--platform {platforms[0]} takes it all the same",
        )


def receive(reporter: Reporter, task: Task, name: str, tag: str | None, holding: Holder) -> Pulled:
    """Pull ``repository@digest`` to the node of ``holding``, and tag it. Raises PublishError."""
    engine = holding.engine
    before = find_image(engine, tag) if tag else None
    moves = _moved(reporter, task, name, holding)
    image = require_image(engine, name)
    if before:
        _tell_newer(reporter, task.name, before, image)
    if tag:
        tag_image(engine, name, (tag,))
    return Pulled(
        host=task.name,
        id=image.id,
        layers=digest(list(image.diff_ids)),
        there=len(moves.there),
        moved=len(moves.moved),
        bytes=moves.bytes,
        seconds=round(task.elapsed(), 1),
    )


def _tell_newer(reporter: Reporter, host: str, before: ImageInfo, image: ImageInfo) -> None:
    """A note for a node whose image of that name is newer than the one that it gets."""
    if before.id != image.id and before.created > image.created:
        others = [tag for tag in before.tags if KEYED.search(tag)]
        reporter.say(
            f"{host}: had a newer image under this name, of {before.created[:10]}; this one is of "
            f"{image.created[:10]}. The newer one stays as {', '.join(others) or before.id[:19]}"
        )


def _moved(reporter: Reporter, task: Task, name: str, holding: Holder) -> Moves:
    """Pull; what arrived is held until all of it has, and given back when the disk is full."""
    try:
        moves = patiently(
            reporter,
            task,
            lambda moves: pull(holding.engine, name, holding.platform, moves),
            lambda count: _hold(reporter, task, holding, count),
        )
        holding.drop()
    except PublishError as error:
        if not tells(error, FULL):
            raise
        holding.drop()
        raise PublishError(f"the disk of {task.name} is full", where=error.message, hint=ROOM) from error
    except EngineError as error:
        raise PublishError("its engine, or the way to it, broke off", where=error.where, hint=AWAY) from error
    return moves


def _hold(reporter: Reporter, task: Task, holding: Holder, count: int) -> None:
    try:
        holding.hold(count)
    except EngineError as error:
        reporter.say(f"{task.name}: the layers that arrived cannot be held: {error.where}")
