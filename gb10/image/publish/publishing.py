"""Publishing: what was proven, and nothing else, pushed under its names; the one that moves comes last."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, added_tags, find_image
from gb10.containers.reference import check_reference, split_reference
from gb10.containers.registry.transfer import Moves, push, resolve
from gb10.core.reporter import Reporter
from gb10.errors import PublishError, UsageError
from gb10.image.build.stage import engine_with_images
from gb10.image.build.wheels import WheelCache
from gb10.image.context import Context
from gb10.image.inspect.attestations import Attestations, attestations_of
from gb10.image.plan.plan_record import LOCAL_ONLY
from gb10.image.proof.scans import Record, proven
from gb10.image.publish.attesting import attach_all
from gb10.image.publish.base_terms import base_of, refuse_zstd, require_republishable, say_travel
from gb10.image.publish.compressing import OTHERS, compressor
from gb10.image.publish.immutable_tags import KEYED, existing_tag
from gb10.image.publish.licences import require_licences
from gb10.image.publish.retries import not_published, patiently
from gb10.image.publish.signing import sign_image

REGISTRY = re.compile(r"localhost(:\d+)?|[^/:]*\.[^/:]*(:\d+)?|[^/:]+:\d{4,5}")
"""A name without a repository that an engine would read as one of Docker Hub's, and its port as a tag."""
BUILD = "./build.py image builds one, and proves it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A name in a registry; ``digest`` is the manifest's, ``config`` the image's own, ``bytes`` travelled."""

    reference: str
    digest: str
    config: str
    there: int
    moved: int
    bytes: int
    attached: tuple[Mapping[str, str], ...] = ()
    """What was attached to the manifest: type and digest, and the annotations."""


def publish(
    ctx: Context,
    reference: str,
    targets: Sequence[str],
    zstd: int | None = None,
    key: Path | None = None,
    *,
    attest: bool = True,
) -> tuple[Published, ...]:
    """Push the proven image ``reference`` to each target; a target without a tag gets the image's own tags.

    The engine compresses its layers, or zstd of the level ``zstd``: the image is the same, its manifest is not.
    With ``attest``, the documents of each name are attached before the next one is pushed; ``key`` signs both.

    Raises UsageError (no such image, no tags), PublishError (it was not proven; the registry refuses, or holds
    another manifest than the one that was pushed).
    """
    for target in targets:
        check_target(target)
    if key and not key.is_file():
        raise UsageError(
            f"there is no key {key}", hint="name a private ssh key, or the public half of one in ssh-agent"
        )
    engine = engine_with_images(ctx)
    if engine is None:
        raise UsageError(f"no image was built on this machine: no {reference}", hint=BUILD)
    image, record = _proven(ctx, engine, reference)
    require_publishable(image.labels.get(LOCAL_ONLY, "").split(), reference)
    require_licences(WheelCache(ctx), image.labels, reference)
    names = names_in(targets, reference, image.tags)
    base = base_of(engine, ctx.store, image)
    if base:
        require_republishable(base, image.labels)
        if zstd is not None:
            refuse_zstd(base)
        say_travel(ctx.reporter, base, names)
    attestations = attestations_of(ctx, engine, image, record.config) if attest else None
    with ExitStack() as stack:
        if zstd is not None:
            send = stack.enter_context(compressor(ctx, engine, image, record.config, zstd))
        else:
            stack.enter_context(added_tags(engine, image, names))
            send = partial(_send, ctx.reporter, engine)
        sender = _Sender(ctx=ctx, engine=engine, config=record.config, send=send, key=key, attestations=attestations)
        return tuple(map(sender.sent, names))


def _proven(ctx: Context, engine: Engine, reference: str) -> tuple[ImageInfo, Record]:
    image = find_image(engine, reference)
    if image is None:
        raise UsageError(f"{engine.name} has no image {reference}", hint=BUILD)
    record = proven(ctx.store, image.id)
    if record is None:
        raise PublishError(f"{reference} was not proven here, so it is not published", where=image.id, hint=BUILD)
    return image, record


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sender:
    """How names of one proven image are sent, and by which key they are signed."""

    ctx: Context
    engine: Engine
    config: str
    send: Callable[[str], Moves]
    key: Path | None
    attestations: Attestations | None
    attached: dict[tuple[str, str], tuple[Mapping[str, str], ...]] = field(default_factory=dict)
    """By repository and manifest: two tags of one image have the same documents."""

    def sent(self, name: str) -> Published:
        """One name, pushed unless its tag has a key and is there; then its documents are attached, and it is signed."""
        moves = existing_tag(self.ctx, self.engine, name, self.config) or self.send(name)
        place = split_reference(name)[0], moves.digest
        if self.attestations and place not in self.attached:
            self.attached[place] = attach_all(self.ctx, self.engine, self.attestations, name, moves.digest)
        if self.key:
            documents = (one["digest"] for one in self.attached.get(place, ()))
            sign_image(self.ctx, self.engine, name, (moves.digest, *documents), self.key)
        return Published(
            reference=name,
            digest=moves.digest,
            config=self.config,
            there=len(moves.present),
            moved=len(moves.moved),
            bytes=moves.bytes,
            attached=self.attached.get(place, ()),
        )


def require_publishable(rules: Sequence[str], reference: str) -> None:
    """Raise PublishError for an image with changes that a licence allows for own use only. Pure."""
    if rules:
        raise PublishError(
            f"{reference} is for this machine only, so it is not published",
            where=f"slimming rules that bar it: {', '.join(rules)} (recipes/slim.yaml has the licences)",
            hint="./build.py image --slim publishable builds one without them",
        )


def names_in(targets: Sequence[str], reference: str, tags: Sequence[str]) -> tuple[str, ...]:
    """What to push for the image ``reference``, which has these tags, in order; raises UsageError. Pure."""
    own = own_tags(reference, tags)
    return tuple(name for target in targets for name in _names(target, own))


def own_tags(reference: str, tags: Sequence[str]) -> list[str]:
    """The tags that `image` gave an image: with the key, and the one that moves; of any repository if of no other.

    The tag with the key comes first: if a push breaks off, the moving tag still names a whole image. Pure.
    """
    repository = split_reference(reference)[0]
    named = [split_reference(tag) for tag in tags]
    mine = [tag for place, tag in named if place == repository]
    here = mine if any(map(KEYED.search, mine)) else [tag for _, tag in named]
    keyed = list(dict.fromkeys(tag for tag in here if KEYED.search(tag)))
    return keyed + [tag for tag in dict.fromkeys(here) if any(KEYED.sub("", other) == tag for other in keyed)]


def check_target(target: str) -> None:
    """Raise UsageError for a target that no registry takes, before the image is looked up. Pure."""
    if REGISTRY.fullmatch(target):
        raise UsageError(
            f"{target} names a registry and no repository",
            hint=f"write {target}/NAME[:TAG]; Docker Hub's is docker.io/{target}",
        )
    check_reference(target)


def _names(target: str, own: Sequence[str]) -> list[str]:
    """What to push for a target: itself, or, without a tag, the image's own tags there."""
    check_target(target)
    if ":" in target.rpartition("/")[2]:
        return [check_reference(target)]
    if not own:
        raise UsageError(f"{target} names no tag, and the image has none of its own", hint=f"write {target}:TAG")
    return [check_reference(f"{target}:{tag}") for tag in own]


def _send(reporter: Reporter, engine: Engine, name: str) -> Moves:
    """The moves of a push by the engine itself, after which the registry holds what was pushed."""
    with reporter.task(name) as task, not_published(name):
        moves = patiently(reporter, task, lambda moves: push(engine, name, moves))
    found = resolve(engine, name)
    if found.digest != moves.digest:
        raise PublishError(
            f"{name} is not what was pushed", where=f"pushed {moves.digest}\nfound  {found.digest}", hint=OTHERS
        )
    return moves
