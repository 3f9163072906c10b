"""Pulling: one image to several engines at once; only missing layers travel, and it is the same one everywhere."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from gb10.build.stage import ready_engine
from gb10.engine.connection import Engine
from gb10.engine.engine_host import engine_host
from gb10.engine.images import find_image, require_image, tag_image
from gb10.engine.node import reached
from gb10.engine.reference import registry_of, split_digest, split_reference
from gb10.engine.registry.holding import Holder, holder, layers_in, remote_config
from gb10.engine.registry.transfer import Moves, Remote, pull, resolve
from gb10.errors import EngineError, Gb10Error, PublishError
from gb10.host.host import Host
from gb10.host.talk import Talk, Task
from gb10.recipe.machine import ARCHITECTURES
from gb10.ship.retries import FULL, patiently, tells
from gb10.workshop import Workshop

LOCAL = "this machine"
ROOM = "make room there (docker system df shows what takes it); what had arrived was given back"
AWAY = "see whether that machine is up and Docker runs there"
LOCAL_NAME = (
    "{reference} names no registry, so docker.io is asked; if it is a local name, as gb10 gives its images:\n"
    "publish it first, then pull REGISTRY/{reference}"
)
AGAIN = "run the command again: only missing layers travel"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pulled:
    """A node that has the image; ``id`` as its engine names it, ``bytes`` that travelled, compressed."""

    host: str
    id: str
    there: int
    moved: int
    bytes: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Pull:
    """What was pulled: the manifest, the nodes that have it, and the error of each one that does not."""

    remote: Remote
    nodes: tuple[Pulled, ...]
    failed: Mapping[str, Gb10Error]

    def require_all(self) -> None:
        """Raise PublishError that names the nodes that failed, or that have different images."""
        if self.failed:
            lines = (f"{host}: {error.message}" + _within(error) for host, error in self.failed.items())
            raise PublishError(
                f"{len(self.failed)} of {len(self.failed) + len(self.nodes)} nodes do not have the image",
                where="\n".join(lines),
                hint="\n".join((*sorted({error.hint for error in self.failed.values() if error.hint}), AGAIN)),
            )
        if len({node.id for node in self.nodes}) > 1:
            raise PublishError(
                "the nodes do not have the same image",
                where="\n".join(f"{node.host}: {node.id}" for node in self.nodes),
                hint="do they keep images in the same kind of store? docker info: driver-type",
            )


def _within(error: Gb10Error) -> str:
    return f" ({error.where})" if error.where else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """One manifest: ``name`` by its digest, the requested reference, and the requested platform, if any."""

    name: str
    reference: str
    tagged: bool
    """Whether the reference has a tag, which each node then gives it."""
    remote: Remote
    platform: str | None


def pull_everywhere(
    shop: Workshop, reference: str, hosts: Sequence[str], platform: str | None
) -> tuple[Remote, tuple[Pulled, ...]]:
    """The image of ``reference`` on every node; raises PublishError as ``Pull.require_all``."""
    done = pull_from_each(shop, reference, hosts, platform)
    done.require_all()
    return done.remote, done.nodes


def pull_from_each(shop: Workshop, reference: str, hosts: Sequence[str], platform: str | None) -> Pull:
    """The image of ``reference`` on every node (this machine without any), and the nodes that failed.

    The tag is resolved once, so all nodes get the same digest.
    """
    nodes = tuple(hosts) or (LOCAL,)
    wanted = _resolved(shop, nodes, reference, platform)
    with ThreadPoolExecutor(len(nodes)) as pool:
        running = {host: pool.submit(_pull_one, shop, host, wanted) for host in nodes}
    return Pull(
        remote=wanted.remote,
        nodes=tuple(work.result() for work in running.values() if not work.exception()),
        failed=_failed(running),
    )


def _resolved(shop: Workshop, nodes: Sequence[str], reference: str, platform: str | None) -> Wanted:
    """The manifest by the first node that can be reached; raises the error of the last one when none can."""
    for node in nodes[:-1]:
        with suppress(EngineError), _engine(shop, node) as engine:
            return _wanted(shop, engine, reference, platform)
    with _engine(shop, nodes[-1]) as last:
        return _wanted(shop, last, reference, platform)


def _wanted(host: Host, first: Engine, reference: str, platform: str | None) -> Wanted:
    repository, digest = split_digest(reference)
    if not digest:
        repository, tag = split_reference(reference)
        reference = f"{repository}:{tag}"
    remote = _found(first, reference)
    if not remote.platforms:
        config = remote_config(host.store, host.env, f"{repository}@{remote.digest}")
        remote = replace(remote, platforms=(f"{config['os']}/{config['architecture']}",))
    return Wanted(
        name=f"{repository}@{remote.digest}", reference=reference, tagged=not digest, remote=remote, platform=platform
    )


def _found(engine: Engine, reference: str) -> Remote:
    """What the registry has; for a name without a registry the error says where that name leads."""
    try:
        return resolve(engine, reference)
    except PublishError as error:
        if registry_of(reference):
            raise
        hint = "\n".join(filter(None, (error.hint, LOCAL_NAME.format(reference=reference))))
        raise PublishError(error.message, where=error.where, hint=hint) from error


@contextmanager
def _engine(shop: Workshop, host: str) -> Iterator[Engine]:
    if host == LOCAL:
        yield ready_engine(shop)
        return
    with reached(host) as engine:
        yield engine


def _pull_one(shop: Workshop, host: str, wanted: Wanted) -> Pulled:
    with _engine(shop, host) as engine, shop.talk.task(host) as task:
        platform = wanted.platform or _platform(engine)
        if platform not in wanted.remote.platforms:
            raise PublishError(
                f"{wanted.reference} is for {', '.join(wanted.remote.platforms)}, {host} is {platform}",
                hint=f"--platform {wanted.remote.platforms[0]} takes it all the same",
            )
        moves = _moved(shop, engine, task, platform, wanted)
        image = require_image(engine, wanted.name)
        if wanted.tagged:
            tag_image(engine, wanted.name, (wanted.reference,))
    return Pulled(
        host=host,
        id=image.id,
        there=len(moves.there),
        moved=len(moves.moved),
        bytes=moves.bytes,
        seconds=round(task.elapsed(), 1),
    )


def _moved(host: Host, engine: Engine, task: Task, platform: str, wanted: Wanted) -> Moves:
    """Pull; what arrived is held until all of it has, and given back when the disk is full."""
    holding = _holder(host, engine, task, platform, wanted)
    try:
        moves = patiently(
            host.talk,
            task,
            lambda moves: pull(engine, wanted.name, platform, moves),
            lambda count: _hold(host.talk, task, holding, count),
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


def _holder(host: Host, engine: Engine, task: Task, platform: str, wanted: Wanted) -> Holder:
    """What holds the layers that arrive, or holds none where the engine keeps them itself or has them all."""
    layers: tuple[str, ...] = ()
    if not engine.containerd and find_image(engine, wanted.name) is None:
        try:
            layers = layers_in(remote_config(host.store, host.env, wanted.name), platform)
        except EngineError as error:
            host.talk.say(
                f"{task.name}: should this pull break off, the next one begins anew: {error.message}, {error.where}"
            )
    return holder(engine, wanted.remote.digest, platform, layers)


def _hold(talk: Talk, task: Task, holding: Holder, count: int) -> None:
    try:
        holding.hold(count)
    except EngineError as error:
        talk.say(f"{task.name}: the layers that arrived cannot be held: {error.where}")


def _platform(engine: Engine) -> str:
    """What images the node's machine runs without an emulator."""
    machine = engine_host(engine).machine
    return f"linux/{ARCHITECTURES.get(machine, machine)}"


def _failed(running: dict[str, Future[Pulled]]) -> dict[str, Gb10Error]:
    """The error of every node that failed; bugs are raised as they are."""
    failed: dict[str, Gb10Error] = {}
    for host, work in running.items():
        error = work.exception()
        if isinstance(error, Gb10Error):
            failed[host] = error
        elif error:
            raise error
    return failed
