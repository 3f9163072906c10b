"""Registries are added, updated and removed: the user's file of them, and what the store keeps for it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gb10.core.host import Host
from gb10.errors import UsageError
from gb10.models.registries.changes import Change, changes_of
from gb10.models.registries.content import content_of_folder
from gb10.models.registries.manifest import Part, parts_of
from gb10.models.registries.origin import Origin
from gb10.models.registries.registry import Registry, read_registries, write_registries
from gb10.models.registries.taking import ROOM, Taken, keep, root_of, take

LOCK = "registries-file"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """How registries are added or updated. ``name``: one registry, whatever the manifest of the repository says."""

    name: str | None = None
    ref: str | None = None
    trust: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A registry after the update; ``old`` is its pin before."""

    registry: Registry
    old: str
    changes: tuple[Change, ...]


def add_registries(host: Host, origin: Origin, wish: Wish) -> tuple[tuple[Registry, ...], Taken]:
    """The registries of an origin, added. Raises UsageError for a name that is taken, FetchError."""
    taken = take(host, origin, wish.ref)
    parts = (Part(name=wish.name),) if wish.name else parts_of(taken.content, origin.name, origin.source)
    made = tuple(_registry(origin, wish, taken, part) for part in parts)
    with host.store.locked(LOCK):
        known = read_registries(host.env)
        _refuse_taken(known, made)
        if not wish.dry_run:
            keep(host, taken)
            write_registries(host.env, (*known, *made))
    return made, taken


def _registry(origin: Origin, wish: Wish, taken: Taken, part: Part) -> Registry:
    return Registry(
        name=part.name,
        kind=origin.kind,
        source=origin.source,
        ref=wish.ref,
        pin=taken.pin,
        recipes=part.recipes,
        mods=part.mods,
        visible=part.visible,
        trusted=wish.trust,
    )


def _refuse_taken(known: Iterable[Registry], made: Iterable[Registry]) -> None:
    names = {one.name: one for one in known}
    for one in made:
        if one.name in names:
            there = names[one.name]
            same = there.origin == one.origin
            raise UsageError(
                f"there is a registry @{one.name} already",
                where=there.source,
                hint=f"./build.py recipe add --update @{one.name} moves it" if same else "give another: --name NAME",
            )


def update_registries(host: Host, chosen: Sequence[Registry], wish: Wish) -> tuple[Moved, ...]:
    """The chosen registries at what their origins hold now; parts of one repository move together. Raises FetchError.

    A registry whose content changed is not trusted any more, unless ``wish`` says so.
    """
    found: list[Moved] = []
    for origin in dict.fromkeys(one.origin for one in chosen):
        found += _moved(host, [one for one in read_registries(host.env) if one.origin == origin], wish)
    if not wish.dry_run:
        with host.store.locked(LOCK):
            new = {one.registry.name: one.registry for one in found}
            write_registries(host.env, tuple(new.get(one.name, one) for one in read_registries(host.env)))
        _drop_unused(host, (one.old for one in found))
    return tuple(found)


def _moved(host: Host, parts: Sequence[Registry], wish: Wish) -> Iterator[Moved]:
    first = parts[0]
    taken = take(host, Origin(kind=first.kind, source=first.source, name=first.name), first.ref)
    if not wish.dry_run:
        keep(host, taken)
    for part in parts:
        same = part.pin == taken.pin
        old = content_of_folder(root_of(host, part)) if not same else taken.content
        new = part.model_copy(update={"pin": taken.pin, "trusted": wish.trust or (part.trusted and same)})
        yield Moved(registry=new, old=part.pin, changes=changes_of(old, taken.content, part.recipes))


def remove_registry(host: Host, registry: Registry) -> None:
    """Forget a registry, and what only it kept."""
    with host.store.locked(LOCK):
        kept = tuple(one for one in read_registries(host.env) if one.name != registry.name)
        write_registries(host.env, kept)
    _drop_unused(host, [registry.pin])


def _drop_unused(host: Host, pins: Iterable[str]) -> None:
    used = {one.pin for one in read_registries(host.env)}
    for pin in dict.fromkeys(pins):
        if pin not in used:
            with host.store.locked(f"{ROOM}-{pin}"):
                host.store.discard(host.store.entry(ROOM, pin))
