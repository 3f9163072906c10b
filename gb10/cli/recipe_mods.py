"""The mods that a model recipe names: ours, by their names in the community too, or folders beside the recipe."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from gb10.host.data_root import ROOT
from gb10.models.issue import Issue
from gb10.models.load.model_recipe import ModelRecipe
from gb10.mods.community import CommunityMod, community_mods
from gb10.mods.declaration import unfit
from gb10.mods.lookup import find_mod, mod_names

MODS = ROOT / "mods"
MODELS = ROOT / "recipes/models"
DEEPEST = 6
"""Folders above a recipe in which its mods are looked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeMod:
    """A mod of a recipe. ``ours``: the mod of this checkout; ``beside``: its folder; ``known``: the table's answer."""

    written: str
    name: str
    ours: str | None
    beside: Path | None
    known: CommunityMod | None

    @property
    def found(self) -> bool:
        """Whether it is known at all; one of a registry (``@…``) is the launcher's to find."""
        return self.written.startswith("@") or any((self.ours, self.beside, self.known))

    def unneeded(self, engine: str, version: str) -> str | None:
        """Why an image of this release needs no such mod; None when it does."""
        if self.known and self.known.why and self.known.holds(engine, version):
            return self.known.why
        reason = self.unfit(engine, version)
        return reason if reason and reason.startswith("already upstream") else None

    def unfit(self, engine: str, version: str) -> str | None:
        """Why our mod is not for this release; None when it is, or when it is not ours."""
        record = find_mod(MODS, self.ours).record if self.ours else None
        return unfit(record, engine, version) if record else None


@cache
def _table() -> dict[str, CommunityMod]:
    return community_mods(MODS)


def mods_of(recipe: ModelRecipe, path: Path) -> tuple[RecipeMod, ...]:
    """The recipe's mods in order; ``path`` is its file."""
    return tuple(_mod(written, path) for written in recipe.mods)


def _mod(written: str, path: Path) -> RecipeMod:
    name = written.rstrip("/").rpartition("/")[2]
    known = _table().get(name)
    ours = known.ours if known else name if name in mod_names(MODS) else None
    folders = [] if written.startswith("@") else [folder / written for folder in path.absolute().parents[:DEEPEST]]
    return RecipeMod(written=written, name=name, ours=ours, beside=next(filter(_exists, folders), None), known=known)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long for a file system
        return False


def added_options(mods: Sequence[RecipeMod]) -> frozenset[str] | None:
    """The options that a recipe's mods add to the server; None when one of them is not ours."""
    if any(not mod.ours and not (mod.known and mod.known.why) for mod in mods):
        return None
    records = (find_mod(MODS, mod.ours).record for mod in mods if mod.ours)
    return frozenset(flag for record in records if record for flag in record.flags)


def missing_mods(recipe: ModelRecipe, path: Path) -> Iterator[Issue]:
    """An error for a mod that the recipe's own checkout lacks; a note where that checkout cannot be seen."""
    above = path.absolute().parents[:DEEPEST]
    ours = MODELS in above
    has_folder = any((folder / "mods").is_dir() for folder in above if ours or folder != ROOT)
    for index, mod in enumerate(mods_of(recipe, path)):
        if not mod.found:
            yield Issue(
                code="missing-mod",
                level="error" if has_folder else "note",
                file=recipe.file,
                line=recipe.line("mods", index),
                text=f"the mod {mod.written[:80]!r} is neither beside the recipe nor one of ours",
                fix="correct the path, or remove the mod",
            )


def judged_mods(recipe: ModelRecipe, path: Path, engine: str | None, release: str) -> Iterator[Issue]:
    """For lint: a note for a mod that the image needs not or has, an error for one of ours that does not fit."""
    try:
        Version(release)
    except InvalidVersion:
        return
    for index, mod in enumerate(mods_of(recipe, path)):
        line, engine_name = recipe.line("mods", index), engine or ""
        reason = mod.unneeded(engine_name, release)
        unfitting = mod.unfit(engine_name, release)
        if reason:
            yield _note(recipe, "mod-not-needed", line, f"the mod {mod.name} is not needed: {reason}", "remove it")
        elif unfitting:
            text, fix = f"the mod {mod.name} does not fit: {unfitting}", "remove it, or take another release"
            yield Issue(code="mod-unfit", level="error", file=recipe.file, line=line, text=text, fix=fix)
        elif mod.ours and (recipe.container or "").startswith("gb10/"):
            text = f"the mod {mod.name} is baked into an image of ours by --recipe or --mod {mod.ours}"
            yield _note(recipe, "mod-baked", line, text, "build the image with it: ./build.py image --recipe FILE")


def _note(recipe: ModelRecipe, code: str, line: int, text: str, fix: str) -> Issue:
    return Issue(code=code, level="note", file=recipe.file, line=line, text=text, fix=fix)
