"""The parts of a repository of recipes, as sparkrun's ``.sparkrun/registry.yaml`` names them. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gb10.errors import UsageError
from gb10.models.load.safe_yaml import UnreadableError, read_yaml
from gb10.models.registries.content import MANIFEST, Content, is_plain
from gb10.models.registries.registry import MOST, NAME


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
