"""Retaining: which images of a repository may go, by number or age; nothing goes that a tag or a node still needs."""

import json
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.docker_containers import containers_with
from gb10.containers.node import reached
from gb10.containers.registry.referrers import (
    CREATED,
    GONE,
    TAG,
    Descriptor,
    Referrers,
    digest_of,
    open_referrers,
    tag_of,
    write_index,
)
from gb10.core.host import Host
from gb10.errors import PublishError
from gb10.image.publish.compressing import config_in
from gb10.image.publish.immutable_tags import KEYED

AT_ONCE: Final = 8
FORBIDDEN: Final = ("unsupported", "not allowed", "405", "denied", "forbidden")
ALLOW: Final = (
    "a registry must allow deletion (Debian's: storage.delete.enabled; others: a role), and then collect garbage"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What is kept: the newest ``number`` images, or those younger than ``age``."""

    number: int | None = None
    age: timedelta | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """An image of a repository: its tags, when it was published, and why it is kept; without a reason it may go."""

    digest: str
    config: str
    tags: tuple[str, ...]
    published: str
    """The earliest time that something attached to it tells; empty when nothing does."""
    part_of: str = ""
    """The tag of an index that lists it."""
    why: str = ""
    deleted: bool = False


def retention(found: Sequence[Held], rule: Rule, used: Mapping[str, str], now: datetime) -> tuple[Held, ...]:
    """The images, newest first, each with the reason why it is kept, if any. Pure.

    ``used``: the node that uses an image, by the digest of its manifest or config.
    """
    ordered = sorted(found, key=lambda one: one.published, reverse=True)
    return tuple(replace(one, why=_why(one, place, rule, used, now)) for place, one in enumerate(ordered))


def _why(one: Held, place: int, rule: Rule, used: Mapping[str, str], now: datetime) -> str:
    others = [tag for tag in one.tags if not KEYED.search(tag)]
    node = used.get(one.digest) or used.get(one.config)
    if others or one.part_of:
        return f"also named {', '.join(others)}" if others else f"part of {one.part_of}"
    if node:
        return f"used on {node}"
    if not one.published:
        return "nothing tells when it was published"
    if rule.number is not None and place < rule.number:
        return f"one of the newest {rule.number}"
    if rule.age is not None and now - datetime.fromisoformat(one.published) < rule.age:
        return f"younger than {rule.age.days} days"
    return ""


def retain(
    host: Host, engine: Engine, repository: str, rule: Rule, nodes: Collection[str], *, delete: bool
) -> tuple[Held, ...]:
    """The images of a repository that have a tag with a key, judged; those that may go are deleted if asked.

    Raises PublishError, also when the registry forbids it, and EngineError for a node that cannot be asked.
    """
    used = dict[str, str]()
    for node in nodes:
        with reached(node) as nodes_engine:
            used |= dict.fromkeys((container.image for container in containers_with(nodes_engine)), node)
    with open_referrers(host.store, host.env, engine, repository) as place:
        tags = place.skopeo.tags(place.repository, place.access)
        texts = _texts(place, [tag for tag in tags if not TAG.fullmatch(tag)])
        found = retention(_held(place, texts), rule, used, datetime.now(UTC))
        if not delete:
            return found
        going = {one.digest for one in found if not one.why}
        keep = {digest_of(text) for text in texts.values()} - going
        for digest in going:
            _delete(place, digest, keep)
        # A deletion that broke off left lists of what is attached to manifests that are gone.
        for digest in (tag.replace("-", ":") for tag in tags if TAG.fullmatch(tag)):
            if place.text(f"{place.repository}@{digest}", GONE) is None:  # a refusal for another reason is raised
                _delete(place, digest, keep)
        return tuple(replace(one, deleted=one.digest in going) for one in found)


def _texts(place: Referrers, tags: Sequence[str]) -> dict[str, str]:
    """The manifests by tag; a tag that was deleted meanwhile has none."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        texts = pool.map(lambda tag: place.text(f"{place.repository}:{tag}"), tags)
        return {tag: text for tag, text in zip(tags, texts, strict=True) if text is not None}


def _held(place: Referrers, texts: Mapping[str, str]) -> list[Held]:
    """What has a tag with a key."""
    by_digest: dict[str, list[str]] = {}
    for tag, text in texts.items():
        by_digest.setdefault(digest_of(text), []).append(tag)
    keyed = {digest: tuple(sorted(tags)) for digest, tags in by_digest.items() if any(map(KEYED.search, tags))}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        times = pool.map(lambda digest: published(place.of(digest)), keyed)
        listed = listing(texts)
        return [
            Held(
                digest=digest,
                config=config_in(texts[tags[0]]),
                tags=tags,
                part_of=listed.get(digest, ""),
                published=time,
            )
            for (digest, tags), time in zip(keyed.items(), times, strict=True)
        ]


def listing(texts: Mapping[str, str]) -> dict[str, str]:
    """By manifest the tag of an index that lists it: an image for several platforms needs its parts. Pure."""
    return {str(one["digest"]): tag for tag, text in texts.items() for one in json.loads(text).get("manifests") or ()}


def published(attached: Sequence[Descriptor]) -> str:
    """The earliest time of what is attached to an image, in UTC; empty when nothing tells one. Pure."""
    times = []
    for one in attached:
        try:
            found = datetime.fromisoformat(one.annotations.get(CREATED, ""))
        except ValueError:
            continue
        times.append((found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC))
    return min(times).isoformat(timespec="seconds") if times else ""


def _delete(place: Referrers, digest: str, keep: Collection[str]) -> None:
    """Delete a manifest, then what is attached to it, and to that: a document has signatures of its own."""
    attached = place.of(digest)
    _delete_manifest(place, f"{place.repository}@{digest}")
    for own in attached:
        if own.digest not in keep and _belongs(place, own.digest, digest):
            _delete(place, own.digest, keep)
    for former in superseded(attached):
        _delete_manifest(place, f"{place.repository}@{former}")
    if attached:
        _delete_manifest(place, f"{place.repository}:{tag_of(digest)}")


def superseded(attached: Sequence[Descriptor]) -> list[str]:
    """The lists before the present one: a registry keeps each, without a tag, and all that it names. Pure."""
    return [digest_of(write_index(tuple(attached[:count]))) for count in range(1, len(attached))]


def _belongs(place: Referrers, referrer: str, digest: str) -> bool:
    """Whether a manifest says that it belongs to another: who may push may list anything in an index."""
    text = place.text(f"{place.repository}@{referrer}")
    subject = json.loads(text).get("subject") if text else None
    return isinstance(subject, dict) and subject.get("digest") == digest


def _delete_manifest(place: Referrers, name: str) -> None:
    if place.text(name) is None:
        return
    try:
        place.skopeo.delete(name, place.access)
    except PublishError as error:
        forbidden = any(word in error.message.lower() for word in FORBIDDEN)
        raise PublishError(
            f"{name} is not deleted", where=error.message, hint=ALLOW if forbidden else error.hint
        ) from error
