"""Registries are added, updated and removed: the user's file of them, and what the store keeps for it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from gb10.core.folder_files import SCRIPT, files_digest
from gb10.core.host import Host
from gb10.errors import UsageError
from gb10.models.load.loading import is_recipe, load_model_recipe
from gb10.models.load.safe_yaml import UnreadableError, read_yaml
from gb10.models.recipe_privileges import powers_of
from gb10.models.registries.content import (
    MANIFEST,
    SECTION,
    SUFFIXES,
    Content,
    OriginContent,
    content_of_folder,
    fetch_origin,
    is_plain,
    root_of,
    store_content,
)
from gb10.models.registries.origin import Origin
from gb10.models.registries.registry import MOST, NAME, Registry, read_registries, write_registries

Kind = Literal["added", "removed", "changed"]
SIGNS: Final[Mapping[Kind, str]] = {"added": "+", "removed": "-", "changed": "~"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """``powers``: what a recipe may do that its last version did not."""

    kind: Kind
    what: str
    powers: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The change for people."""
        return (f"  {SIGNS[self.kind]} {self.what}", *(f"      now: {power}" for power in self.powers))


def changes_of(old: Content, new: Content, folder: str | None) -> tuple[Change, ...]:
    """The changes in a registry's folder of recipes, and in all mods beside it."""
    before, after = _recipes(old, folder), _recipes(new, folder)
    changes = []
    for name, kind in _differences(before, after):
        known = _powers(before.get(name))
        gained = tuple(power for power in _powers(after.get(name)) if power not in known)
        changes.append(Change(kind=kind, what=f"recipe {name}", powers=gained))
    changes += [Change(kind=kind, what=f"mod {name}") for name, kind in _differences(_mods(old), _mods(new))]
    return tuple(changes)


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, Kind]]:
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield name, "added"
        elif name not in after:
            yield name, "removed"
        elif before[name] != after[name]:
            yield name, "changed"


def _recipes(content: Content, folder: str | None) -> dict[str, str]:
    """The texts of the recipes by their path."""
    texts = {
        name: file.content.decode("utf-8", "replace")
        for name, file in content.files.items()
        if name.endswith(SUFFIXES) and (folder is None or PurePosixPath(name).is_relative_to(folder))
    }
    return {name: text for name, text in texts.items() if is_recipe(text)}


def _mods(content: Content) -> dict[str, str]:
    """The digests of the mods by their folder."""
    folders = [PurePosixPath(name).parent for name in content.files if PurePosixPath(name).name == SCRIPT]
    return {
        str(folder): files_digest(
            {name: file for name, file in content.files.items() if PurePosixPath(name).is_relative_to(folder)}
        )
        for folder in folders
    }


def _powers(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    recipe = load_model_recipe(text, "recipe.yaml")
    return tuple(dict.fromkeys(power.text for power in powers_of(recipe, recipe.mods)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One registry of a repository: its folders of recipes and mods. A part that is not visible is not listed."""

    name: str
    recipes: str | None = None
    mods: str | None = None
    visible: bool = True


def parts_of(content: Content, name: str, where: str) -> tuple[Part, ...]:
    """The parts that a manifest names; without one the whole as one part. Raises UsageError for a broken manifest."""
    file = content.files.get(str(MANIFEST))
    if file is None:
        return (Part(name=name),)
    try:
        document = read_yaml(file.content.decode("utf-8")).value
    except (UnreadableError, UnicodeDecodeError) as error:
        raise _broken(where, str(error)) from error
    listed = document.get("registries") if isinstance(document, Mapping) else None
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST:
        raise _broken(where, "it has no list 'registries'")
    parts = tuple(_part(one, where) for one in listed)
    if len({part.name for part in parts}) < len(parts):
        raise _broken(where, "two of its registries have one name")
    return tuple(part for part in parts if part.recipes)


def _part(value: object, where: str) -> Part:
    name = value.get("name") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(name, str) or re.fullmatch(NAME, name) is None:
        raise _broken(where, "a registry has no name of letters, digits, . _ and -")
    folders = dict(_folders(value, where))
    return Part(name=name, visible=value.get("visible") is not False, **folders)


def _folders(value: Mapping[object, object], where: str) -> Iterator[tuple[str, str | None]]:
    for key in ("recipes", "mods"):
        given = value.get(key)
        folder = str(given).strip("/").removeprefix("./") if given else None
        if folder and not is_plain(folder):
            raise _broken(where, f"the folder of its {key} leads out of it: {folder[:80]!r}")
        yield key, folder


def _broken(where: str, why: str) -> UsageError:
    return UsageError(f"{MANIFEST} of {where} cannot be read: {why}", hint="--name NAME takes it as one registry")


LOCK = "registries-file"


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateOptions:
    """How registries are added or updated. ``name``: one registry, whatever the manifest of the repository says."""

    name: str | None = None
    ref: str | None = None
    trust: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdatedRegistry:
    """A registry after the update; ``old`` is its pin before."""

    registry: Registry
    old: str
    changes: tuple[Change, ...]


def add_registries(host: Host, origin: Origin, wish: UpdateOptions) -> tuple[tuple[Registry, ...], OriginContent]:
    """The registries of an origin, added. Raises UsageError for a name that is taken, FetchError."""
    fetched = fetch_origin(host, origin, wish.ref)
    parts = (Part(name=wish.name),) if wish.name else parts_of(fetched.content, origin.name, origin.source)
    registries_made = tuple(_registry(origin, wish, fetched, part) for part in parts)
    with host.store.locked(LOCK):
        known = read_registries(host.env)
        _refuse_taken(known, registries_made)
        if not wish.dry_run:
            store_content(host, fetched)
            write_registries(host.env, (*known, *registries_made))
    return registries_made, fetched


def _registry(origin: Origin, wish: UpdateOptions, fetched: OriginContent, part: Part) -> Registry:
    return Registry(
        name=part.name,
        kind=origin.kind,
        source=origin.source,
        ref=wish.ref,
        pin=fetched.pin,
        recipes=part.recipes,
        mods=part.mods,
        visible=part.visible,
        trusted=wish.trust,
    )


def _refuse_taken(known: Iterable[Registry], registries_made: Iterable[Registry]) -> None:
    names = {one.name: one for one in known}
    for one in registries_made:
        if one.name in names:
            existing = names[one.name]
            same = existing.origin == one.origin
            raise UsageError(
                f"there is a registry @{one.name} already",
                where=existing.source,
                hint=f"./build.py recipe add --update @{one.name} moves it" if same else "give another: --name NAME",
            )


def update_registries(host: Host, chosen: Sequence[Registry], wish: UpdateOptions) -> tuple[UpdatedRegistry, ...]:
    """The chosen registries at what their origins hold now; parts of one repository move together. Raises FetchError.

    A registry whose content changed is not trusted any more, unless ``wish`` says so.
    """
    found: list[UpdatedRegistry] = []
    for origin in dict.fromkeys(one.origin for one in chosen):
        found += _moved(host, [one for one in read_registries(host.env) if one.origin == origin], wish)
    if not wish.dry_run:
        with host.store.locked(LOCK):
            new = {one.registry.name: one.registry for one in found}
            write_registries(host.env, tuple(new.get(one.name, one) for one in read_registries(host.env)))
        _drop_unused(host, (one.old for one in found))
    return tuple(found)


def _moved(host: Host, parts: Sequence[Registry], wish: UpdateOptions) -> Iterator[UpdatedRegistry]:
    first = parts[0]
    fetched = fetch_origin(host, Origin(kind=first.kind, source=first.source, name=first.name), first.ref)
    if not wish.dry_run:
        store_content(host, fetched)
    for part in parts:
        same = part.pin == fetched.pin
        old = content_of_folder(root_of(host, part)) if not same else fetched.content
        new = part.model_copy(update={"pin": fetched.pin, "trusted": wish.trust or (part.trusted and same)})
        yield UpdatedRegistry(registry=new, old=part.pin, changes=changes_of(old, fetched.content, part.recipes))


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
            with host.store.locked(f"{SECTION}-{pin}"):
                host.store.discard(host.store.entry(SECTION, pin))
