"""A model recipe with the mods that it names: ours, by their names in the community too, or folders beside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from gb10.core.checked import NotChecked
from gb10.core.folder_files import files_digest
from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.image.mods.declaration import CommunityMod, community_mods, unfit
from gb10.image.mods.read import find_mod, mod_names, read_files
from gb10.models.issue import Issue, in_order
from gb10.models.lint.engine_words import own_releases
from gb10.models.lint.lint_parts import Linted
from gb10.models.lint.rule import Rule
from gb10.models.lint.served import ImageFacts, lint_case
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.registries.recipe_file import RecipeFile, dotenv_beside, mod_in, read_text, registries, root_here

MODS = ROOT / "mods"
LISTED = 8
"""Mods that a row names."""
MODELS = ROOT / "recipes/models"


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """Engine and release of an image of ours; both are empty for an image of others."""

    engine: str = ""
    version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeMod:
    """A mod of a recipe. ``ours``: the mod of this checkout; ``beside``: its folder; ``known``: the table's answer.

    One of ours is known by its name, and then ours runs, or by its content.
    """

    written: str
    name: str
    ours: str | None
    beside: Path | None
    known: CommunityMod | None

    @property
    def replaced(self) -> str | None:
        """What is said where ours runs in place of a folder that holds something else."""
        if self.ours is None or self.beside is None or _same_as(self.beside) == self.ours:
            return None
        return f"the mod {self.name}: ours runs ({self.ours}), not the folder of the recipe, which holds something else"

    def is_left_out(self, release: Release) -> str | None:
        """Why it does not run in an image of this release; None when it does, as in each image of others."""
        return self.unneeded(release.engine, release.version) if release.version else None

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


def mods_of(recipe: ModelRecipe, file: RecipeFile) -> tuple[RecipeMod, ...]:
    """The recipe's mods in order."""
    return tuple(_mod(written, file) for written in recipe.mods)


def _mod(written: str, file: RecipeFile) -> RecipeMod:
    name = written.rstrip("/").rpartition("/")[2]
    known = _table().get(name)
    beside = _beside(written, file)
    ours = known.ours if known else name if name in mod_names(MODS) else None
    return RecipeMod(written=written, name=name, ours=ours or _same_as(beside), beside=beside, known=known)


def _same_as(folder: Path | None) -> str | None:
    """The mod of ours that a folder holds, byte for byte; its name and its declaration are nothing that runs."""
    if folder is None:
        return None
    try:
        digest = files_digest(read_files(folder.absolute()))
    except UsageError:  # it breaks the contract: whoever runs it says so
        return None
    return _digests().get(digest)


@cache
def _digests() -> dict[str, str]:
    return {find_mod(MODS, name).digest: name for name in mod_names(MODS)}


def _beside(written: str, file: RecipeFile) -> Path | None:
    """The folder of a mod: in the registry that it names, around the recipe, or in the recipe's own registry."""
    if written.startswith("@"):
        name, _, mod = written.removeprefix("@").partition("/")
        registry = next((one for one in registries() if one.name == name), None)
        return mod_in(root_here(registry), registry, mod) if registry else None
    found = file.mod(written)
    if found is None and file.registry is not None and file.root is not None:
        return mod_in(file.root, file.registry, written)
    return found


def foreign_mods(recipe: ModelRecipe, file: RecipeFile, release: Release | None = None) -> tuple[str, ...]:
    """The recipe's mods, as written, that run from a folder of somebody else in an image of this release.

    Without a release the image is not known: those that run in some image.
    """
    known = release or Release()
    return tuple(mod.written for mod in mods_of(recipe, file) if not mod.ours and not mod.is_left_out(known))


def surely_foreign(recipe: ModelRecipe, file: RecipeFile) -> tuple[str, ...]:
    """Those that run from a folder of somebody else in every image."""
    return tuple(mod.written for mod in mods_of(recipe, file) if not mod.ours and not (mod.known and mod.known.why))


def missing_mods(recipe: ModelRecipe, file: RecipeFile) -> Iterator[Issue]:
    """An error for a mod that the recipe's own checkout lacks; a note where that checkout cannot be seen."""
    ours = MODELS in file.above
    has_folder = any((folder / "mods").is_dir() for folder in file.above if ours or folder != ROOT)
    for index, mod in enumerate(mods_of(recipe, file)):
        if not mod.found:
            yield Issue(
                code="missing-mod",
                level="error" if has_folder else "note",
                file=recipe.file,
                line=recipe.line("mods", index),
                text=f"the mod {mod.written[:80]!r} is neither beside the recipe nor one of ours",
                fix="correct the path, or remove the mod",
            )


def load_file(file: RecipeFile) -> ModelRecipe:
    """The recipe of a file, with an issue for each mod that is nowhere. Raises UsageError when it cannot be read."""
    return _with_mods(load_model_recipe(read_text(file.path), file.shown), file)


def _with_mods(recipe: ModelRecipe, file: RecipeFile) -> ModelRecipe:
    return replace(recipe, issues=in_order((*recipe.issues, *missing_mods(recipe, file))))


def judged_mods(recipe: ModelRecipe, file: RecipeFile, engine: str | None, release: str) -> Iterator[Issue]:
    """For lint: a note for a mod that the image needs not or has, an error for one of ours that does not fit."""
    try:
        Version(release)
    except InvalidVersion:
        return
    for index, mod in enumerate(mods_of(recipe, file)):
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


def added_options(mods: Sequence[RecipeMod]) -> frozenset[str] | None:
    """The options that a recipe's mods add to the server; None when one of them is not ours."""
    if any(not mod.ours and not (mod.known and mod.known.why) for mod in mods):
        return None
    records = (find_mod(MODS, mod.ours).record for mod in mods if mod.ours)
    return frozenset(flag for record in records if record for flag in record.flags)


def mended_patches(mods: Sequence[RecipeMod]) -> frozenset[str]:
    """The patches of ours whose defects a recipe's mods mend."""
    records = (find_mod(MODS, mod.ours).record for mod in mods if mod.ours)
    return frozenset(patch for record in records if record for patch in record.mends)


def _note(recipe: ModelRecipe, code: str, line: int, text: str, fix: str) -> Issue:
    return Issue(code=code, level="note", file=recipe.file, line=line, text=text, fix=fix)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The release and the image that recipes are judged for, in place of what they name; and the model's files."""

    release: str | None = None
    image: ImageFacts | None = None
    weights: Path | None = None


def linted(file: RecipeFile, rules: Sequence[Rule], judged: Judged | None = None) -> Linted:
    """What lint says of a file, its mods among it: of a recipe, or of the launches of another tool.

    Raises UsageError when it cannot be read.
    """
    from gb10.models.launches.launch_forms import launches_of  # noqa: PLC0415 - for lint: `run` does without
    from gb10.models.lint.lint_launches import lint_launches  # noqa: PLC0415 - the same
    from gb10.models.lint.linting import lint  # noqa: PLC0415 - the same

    text, asked = read_text(file.path), judged or Judged()
    launches = launches_of(text, file.shown, lambda: dotenv_beside(file.path))
    if launches is not None:
        return lint_launches(launches, file.shown, rules, release=asked.release, image=asked.image)
    recipe = _with_mods(load_model_recipe(text, file.shown), file)
    case = lint_case(recipe, own_releases())
    release = asked.release or (asked.image.release if asked.image else None) or case.release
    sizes = None
    if asked.weights or (recipe.model or "").startswith("/"):
        from gb10.image.request.model_sizes import folder_sizes, local_model  # noqa: PLC0415 - a sixth of a second

        sizes = local_model(asked.weights, recipe.model or "") if asked.weights else folder_sizes(recipe)
    mods = mods_of(recipe, file)
    added, mended = added_options(mods), mended_patches(mods)
    found = lint(
        recipe, rules, release=asked.release, image=asked.image, added=added, mended=mended, sizes=sizes, case=case
    )
    return Linted(
        issues=in_order((*found.issues, *judged_mods(recipe, file, case.engine, release))),
        unchecked=(*found.unchecked, *unchecked_mods(mods)),
    )


def unchecked_mods(mods: Sequence[RecipeMod]) -> Iterator[NotChecked]:
    """The mods of which nobody said for which releases they are, and those that were not looked for."""
    nowhere = [mod.name for mod in mods if not mod.found]
    others = [mod.name for mod in mods if mod.found and not mod.ours and not mod.known]
    if nowhere:
        reason = f"{', '.join(nowhere[:LISTED])}: the folder is not beside the recipe"
        yield NotChecked(what="mods", reason=reason)
    if others:
        reason = f"{', '.join(others[:LISTED])}: somebody else's, and no release is declared"
        yield NotChecked(what="mods", reason=reason)
