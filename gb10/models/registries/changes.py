"""What an update of a registry changes: recipes and mods, and what recipes may newly do. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from gb10.core.folder_files import SCRIPT, files_digest
from gb10.models.load.loading import is_recipe, load_model_recipe
from gb10.models.powers import powers_of
from gb10.models.registries.content import SUFFIXES, Content

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
    recipes = (
        Change(kind=kind, what=f"recipe {name}", powers=_gained(before.get(name), after.get(name)))
        for name, kind in _differences(before, after)
    )
    mods = (Change(kind=kind, what=f"mod {name}") for name, kind in _differences(_mods(old), _mods(new)))
    return (*recipes, *mods)


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


def _gained(before: str | None, after: str | None) -> tuple[str, ...]:
    known = _powers(before)
    return tuple(text for text in _powers(after) if text not in known)


def _powers(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    recipe = load_model_recipe(text, "recipe.yaml")
    return tuple(dict.fromkeys(power.text for power in powers_of(recipe, recipe.mods)))
