"""Pulling through the head: it has the image, or reaches the registry; the nodes get the layers they lack by ssh."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine, engine_host
from gb10.containers.head.session import Node, Session, node_of, on_host, on_this_machine
from gb10.containers.images import ImageInfo, drop_names, find_image, passing_tag, require_image, tag_image
from gb10.containers.node import ADDRESS, engine_at, reached
from gb10.containers.reference import check_reference, registry_of, split_digest
from gb10.containers.registry.holding import holder
from gb10.containers.registry.transfer import Remote, push
from gb10.core.files import digest as digest_of
from gb10.core.reporter import Reporter
from gb10.core.ssh import HERE
from gb10.errors import EngineError, PublishError, UsageError
from gb10.image.context import Context
from gb10.image.publish.pulling import (
    LOCAL,
    Pull,
    Pulled,
    check_platform,
    engine_of,
    on_nodes,
    platform_of,
    platform_on,
    pull_from_each,
    receive,
)
from gb10.image.publish.retries import patiently

PASSING: Final = "gb10-passing"
"""The repository in the head's registry. One for all images: so layers are found again."""
WORD: Final = re.compile(r"[a-z0-9]+(?:/[a-z0-9]+){1,2}")
ABSENT: Final = (
    "it names no registry, and the head's Docker has no such image: build it there (./build.py image),\n"
    "or name a published one: REGISTRY/NAME:TAG"
)
OWN: Final = "the head's Docker must run on the head itself, where its 127.0.0.1 is the registry's (no Docker Desktop)"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadPull:
    """What is wanted: an image of the head, or of a registry that it reaches, on the hosts.

    ``platform`` is the one that the user named, ``k3s`` whether the hosts run K3s in place of Docker.
    """

    reference: str
    head: str
    hosts: Sequence[str]
    platform: str | None = None
    signers: Path | None = None
    k3s: bool = False

    @property
    def others(self) -> tuple[str, ...]:
        """The hosts beside the head, which has the image."""
        return tuple(host for host in self.hosts if host != self.head)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Those that are reached by ssh; raises UsageError for one that cannot be."""
        nodes = tuple(node_of(host, k3s=self.k3s) for host in self.others if not host.startswith(ADDRESS))
        if len(nodes) < len(self.others) and (self.head != HERE or self.k3s):
            raise UsageError("a socket is of this machine, not of the head", hint="name nodes as the head reaches them")
        return nodes


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What the head offers: its image, by the digest of a manifest in its registry."""

    wanted: HeadPull
    image: ImageInfo
    digest: str
    session: Session


def pull_via_head(ctx: Context, asked: HeadPull) -> Pull:
    """The image on every node, under its own name.

    Raises UsageError, EngineError (the head), PublishError, VerifyError; what a node lacks is in the result.
    """
    wanted = replace(asked, reference=_with_tag(asked.reference))
    nodes = wanted.nodes
    if not wanted.others:
        raise UsageError("--via-head needs a node", hint="name those that the head reaches: --host me@spark-2")
    with engine_of(ctx, LOCAL if wanted.head == HERE else wanted.head) as engine:
        signer = _fetched(ctx, engine, wanted)
        image = require_image(engine, wanted.reference)
        with (
            on_this_machine(ctx.store, ctx.env, engine_host(engine).machine, nodes)
            if wanted.head == HERE
            else on_host(ctx.store, ctx.env, wanted.head, nodes)
        ) as session:
            digest = _pushed(ctx.reporter, engine, image, session.port)
            offer = Offer(wanted=wanted, image=image, digest=digest, session=session)
            receive_one = partial(_imported if wanted.k3s else _received, ctx.reporter, offer)
            done, failed = on_nodes(wanted.others, receive_one)
            if not failed and (why := session.done()):
                ctx.reporter.say(f"the nodes have the image, but the head's cache grows: {why}")
    return Pull(remote=Remote(digest=digest, platforms=(image.platform,)), nodes=done, failed=failed, signer=signer)


def _with_tag(reference: str) -> str:
    """The reference with its tag: a digest is no name that a node could have without the registry. Pure."""
    if split_digest(reference)[1]:
        raise UsageError(
            "--via-head needs a tag, which the image then has on the nodes",
            where=reference,
            hint="a digest names it in its registry only; write REGISTRY/NAME:TAG",
        )
    return check_reference(reference)


def _fetched(ctx: Context, engine: Engine, wanted: HeadPull) -> str:
    """Let the head pull what it lacks, and what must be signed; who signed it."""
    reference, head = wanted.reference, wanted.head
    if find_image(engine, reference) and not wanted.signers:
        return ""
    if registry_of(reference) is None:
        hint = "only an image of a registry is signed: publish it" if wanted.signers else ABSENT
        raise UsageError(f"{reference} cannot be taken from a registry", where=f"head: {head}", hint=hint)
    done = pull_from_each(ctx, reference, [LOCAL if head == HERE else head], wanted.platform, wanted.signers)
    done.require_all()
    return done.signer


def _pushed(reporter: Reporter, engine: Engine, image: ImageInfo, port: int) -> str:
    """The digest of the image's manifest in the head's registry, once it is there."""
    _forget(engine)
    with passing_tag(engine, f"127.0.0.1:{port}/{PASSING}:image") as tag, reporter.task("head: compress") as task:
        tag_image(engine, image.id, (tag,))
        try:
            return patiently(reporter, task, lambda moves: push(engine, tag, moves)).digest
        except PublishError as error:
            raise PublishError(
                "the head's Docker cannot fill the registry beside it", where=error.message, hint=OWN
            ) from error


def _received(reporter: Reporter, offer: Offer, host: str) -> Pulled:
    reference = offer.wanted.reference
    with _at(offer, host) as (engine, port), reporter.task(host) as task:
        platform = offer.wanted.platform or platform_of(engine)
        check_platform(reference, host, platform, (offer.image.platform,))
        name = f"127.0.0.1:{port}/{PASSING}@{offer.digest}"
        lacking = not engine.containerd and find_image(engine, name) is None
        holding = holder(engine, offer.digest, platform, offer.image.diff_ids if lacking else ())
        pulled = receive(reporter, task, name, reference, holding)
        found = find_image(engine, reference)
        if found is None or found.diff_ids != offer.image.diff_ids:
            raise PublishError(f"{host} has another image under {reference}", where=found.id if found else "none")
        _forget(engine)
    return pulled


def _imported(reporter: Reporter, offer: Offer, host: str) -> Pulled:
    """The image in the containerd of a node with K3s, which checks every byte by the digest."""
    node, name = _node(offer, host), offer.wanted.reference
    if registry_of(name) is None:
        name = f"docker.io/{name}" if "/" in name else f"docker.io/library/{name}"
    if WORD.fullmatch(offer.image.platform) is None:  # it becomes a word of a command; references are checked
        raise PublishError(f"the image is for no platform: {offer.image.platform!r}")
    with reporter.task(host) as task:
        way = offer.session.way(node)
        platform = offer.wanted.platform or platform_on(way.machine)
        check_platform(offer.wanted.reference, host, platform, (offer.image.platform,))
        source = f"127.0.0.1:{way.port}/{PASSING}@{offer.digest}"
        offer.session.take(node, offer.image.platform, source, name)
    layers = digest_of(list(offer.image.diff_ids))
    seconds = round(task.elapsed(), 1)
    return Pulled(host=host, id=offer.digest, layers=layers, there=None, moved=None, bytes=None, seconds=seconds)


def _node(offer: Offer, host: str) -> Node:
    return next(one for one in offer.session.nodes if one.host == host)


@contextmanager
def _at(offer: Offer, host: str) -> Iterator[tuple[Engine, int]]:
    """A node's engine, and the port by which that reaches the head's registry."""
    if host.startswith(ADDRESS):
        with reached(host) as engine:
            yield engine, offer.session.port
        return
    way = offer.session.way(_node(offer, host))
    yield engine_at(host, way.engine), way.port


def _forget(engine: Engine) -> None:
    """Remove the names that images had in a head's registry, of pulls that broke off, too."""
    with suppress(EngineError):  # they do no harm, and the next pull removes them
        drop_names(engine, f"/{PASSING}")
