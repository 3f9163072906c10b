"""Pulling: one image to several engines at once; only missing layers travel, and it is the same one everywhere."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gb10.containers.connection import Engine, engine_host
from gb10.containers.images import ImageInfo, find_image, require_image, tag_image
from gb10.containers.node import reached
from gb10.containers.reference import registry_of, split_digest, split_reference
from gb10.containers.registry.holding import Holder, holder, layers_in, remote_config
from gb10.containers.registry.transfer import Moves, Remote, pull, resolve
from gb10.core.files import digest
from gb10.core.host import Host
from gb10.core.machine import ARCHITECTURES
from gb10.core.reporter import Reporter, Task
from gb10.errors import FULL_DISK, EngineError, Gb10Error, PublishError
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from gb10.image.publish.immutable_tags import KEYED
from gb10.image.publish.retries import patiently, tells
from gb10.image.publish.signing import check_signers, require_signer

FREE_DISK = "make room there (docker system df shows what takes it); what had arrived was given back"
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
        there=len(moves.present),
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
        if not tells(error, FULL_DISK):
            raise
        holding.drop()
        raise PublishError(f"the disk of {task.name} is full", where=error.message, hint=FREE_DISK) from error
    except EngineError as error:
        raise PublishError("its engine, or the way to it, broke off", where=error.where, hint=AWAY) from error
    return moves


def _hold(reporter: Reporter, task: Task, holding: Holder, count: int) -> None:
    try:
        holding.hold(count)
    except EngineError as error:
        reporter.say(f"{task.name}: the layers that arrived cannot be held: {error.where}")


LOCAL = "this machine"
LOCAL_NAME = (
    "{reference} names no registry, so docker.io is asked; if it is a local name, as gb10 gives its images:\n"
    "publish it first, then pull REGISTRY/{reference}"
)
AGAIN = "run the command again: only missing layers travel"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pull:
    """What was pulled: the manifest, the nodes that have it, and the error of each one that does not."""

    remote: Remote
    nodes: tuple[Pulled, ...]
    failed: Mapping[str, Gb10Error]
    signer: str = ""
    """Who signed it, where that was required."""

    def require_all(self) -> None:
        """Raise PublishError that names the nodes that failed, or that have different images."""
        if self.failed:
            lines = (f"{host}: {error.message}" + _within(error) for host, error in self.failed.items())
            raise PublishError(
                f"{len(self.failed)} of {len(self.failed) + len(self.nodes)} nodes do not have the image",
                where="\n".join(lines),
                hint="\n".join((*sorted({error.hint for error in self.failed.values() if error.hint}), AGAIN)),
            )
        if len({node.layers for node in self.nodes}) > 1:
            raise PublishError(
                "the nodes do not have the same image",
                where="\n".join(f"{node.host}: {node.id}, layers {node.layers[:12]}" for node in self.nodes),
                hint=f"remove it on those nodes, and pull it anew; {AGAIN}",
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
    signer: str


def pull_everywhere(
    ctx: Context, reference: str, hosts: Sequence[str], platform: str | None
) -> tuple[Remote, tuple[Pulled, ...]]:
    """The image of ``reference`` on every node; raises PublishError as ``Pull.require_all``."""
    done = pull_from_each(ctx, reference, hosts, platform)
    done.require_all()
    return done.remote, done.nodes


def pull_from_each(
    ctx: Context, reference: str, hosts: Sequence[str], platform: str | None, signers: Path | None = None
) -> Pull:
    """The image of ``reference`` on every node (this machine without any), and the nodes that failed.

    The tag is resolved once, so all nodes get the same digest. Raises VerifyError, before any node pulls, unless a key
    of the file ``signers`` signed it.
    """
    nodes = tuple(hosts) or (LOCAL,)
    if signers:
        check_signers(signers)
    wanted = _resolved(ctx, nodes, reference, platform, signers)
    done, failed = on_nodes(nodes, partial(_pull_one, ctx, wanted))
    return Pull(remote=wanted.remote, nodes=done, failed=failed, signer=wanted.signer)


def on_nodes(nodes: Sequence[str], work: Callable[[str], Pulled]) -> tuple[tuple[Pulled, ...], Mapping[str, Gb10Error]]:
    """The work on every node at the same time: who has the image, and the errors of the others."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        running = {host: pool.submit(work, host) for host in nodes}
    return tuple(one.result() for one in running.values() if not one.exception()), _failed(running)


def _resolved(ctx: Context, nodes: Sequence[str], reference: str, platform: str | None, signers: Path | None) -> Wanted:
    """The manifest by the first node that can be reached; raises the error of the last one when none can."""
    for node in nodes[:-1]:
        with suppress(EngineError), engine_of(ctx, node) as engine:
            return _wanted(ctx, engine, reference, platform, signers)
    with engine_of(ctx, nodes[-1]) as last:
        return _wanted(ctx, last, reference, platform, signers)


def _wanted(host: Host, first: Engine, reference: str, platform: str | None, signers: Path | None) -> Wanted:
    repository, named = split_digest(reference)
    if not named:
        repository, tag = split_reference(reference)
        reference = f"{repository}:{tag}"
    remote = _found(first, reference)
    name = f"{repository}@{remote.digest}"
    signer = require_signer(host, first, name, signers) if signers else ""
    if not remote.platforms:
        config = remote_config(host.store, host.env, name)
        remote = replace(remote, platforms=(f"{config['os']}/{config['architecture']}",))
    return Wanted(name=name, reference=reference, tagged=not named, remote=remote, platform=platform, signer=signer)


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
def engine_of(ctx: Context, host: str) -> Iterator[Engine]:
    """The engine of a node, or of this machine (LOCAL). Raises EngineError, UsageError."""
    if host == LOCAL:
        yield ready_engine(ctx)
        return
    with reached(host) as engine:
        yield engine


def _pull_one(ctx: Context, wanted: Wanted, host: str) -> Pulled:
    with engine_of(ctx, host) as engine, ctx.reporter.task(host) as task:
        platform = wanted.platform or platform_of(engine)
        check_platform(wanted.reference, host, platform, wanted.remote.platforms)
        layers = _layers(ctx, engine, task, platform, wanted)
        holding = holder(engine, wanted.remote.digest, platform, layers)
        tag = wanted.reference if wanted.tagged else None
        return receive(ctx.reporter, task, wanted.name, tag, holding)


def _layers(host: Host, engine: Engine, task: Task, platform: str, wanted: Wanted) -> tuple[str, ...]:
    """The layers to hold while they arrive: none where the engine keeps them itself or has them all."""
    if engine.containerd or find_image(engine, wanted.name) is not None:
        return ()
    try:
        return layers_in(remote_config(host.store, host.env, wanted.name), platform)
    except EngineError as error:
        host.reporter.say(
            f"{task.name}: should this pull break off, the next one begins anew: {error.message}, {error.where}"
        )
        return ()


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
