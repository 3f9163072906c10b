"""What becomes of our patches on the releases of a new lock."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from packaging.version import Version

from gb10.errors import Gb10Error
from gb10.image.context import Context, build_architecture
from gb10.image.patches.release_files import Library
from gb10.image.patches.releases import PINS, Release, load_releases
from gb10.image.patches.selection import find_place, locked_releases, plan_patches
from gb10.image.patches.series import load_series
from gb10.image.patches.verdict import Row, outcome_of, remedy, status
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.values import used_sources
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.models.lint.engine_words import ENGINES, known_words


@dataclass(frozen=True, kw_only=True, slots=True)
class Patched:
    """One patch on the old and on the new release of its source. ``stops``: a build with the new one stops."""

    source: str
    patch: str
    release: str
    before: str
    after: str
    why: str
    stops: bool
    remedy: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """Every patch of the recipe's series, releases without a pin, and sources that could not be checked, and why."""

    patches: tuple[Patched, ...] = ()
    unpinned: tuple[tuple[str, Version, Release], ...] = ()
    unknown: tuple[str, ...] = ()


def check_series(library: Library, recipes: tuple[Recipe, Recipe], locks: tuple[Lock, Lock]) -> Checked:
    """The recipe's series on the releases of the old lock and of the new one."""
    patches, unpinned, unknown = list[Patched](), list[tuple[str, Version, Release]](), list[str]()
    for source in recipes[1].patches:
        try:
            rows = _rows(library, source, recipes, locks)
        except Gb10Error as error:
            unknown.append(f"{source}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
            continue
        if rows:
            patches += _patched(*rows)
            new = rows[1]
            if rows[0].version != new.version and not new.pinned and new.release:
                unpinned.append((source, new.version, new.release))
    return Checked(patches=tuple(patches), unpinned=tuple(unpinned), unknown=tuple(unknown))


def _rows(
    library: Library, source: str, recipes: tuple[Recipe, Recipe], locks: tuple[Lock, Lock]
) -> tuple[Row, Row] | None:
    """The rows of both locks; None for a source without patches, or that an image does not contain."""
    versions = tuple(_version(library, source, recipe, lock) for recipe, lock in zip(recipes, locks, strict=True))
    if None in versions or not load_series(library.root, source):
        return None
    wanted = [version for version in dict.fromkeys(versions) if version]
    rows = {row.version: row for row in status(library, source, wanted)}
    old, new = (rows[version] for version in versions if version)
    return old, new


def _version(library: Library, source: str, recipe: Recipe, lock: Lock) -> Version | None:
    lock = used_sources(recipe, lock)
    place = find_place(load_releases(library.root), source, lock, locked_releases(lock, "arm64"))
    return Version(place.version.public) if place else None


def _patched(old: Row, new: Row) -> Iterator[Patched]:
    before = {verdict.patch.id: verdict for verdict in old.verdicts}
    for verdict in new.verdicts:
        earlier = before.get(verdict.patch.id)
        overdue = "widen its X-Applies-To, or say in its record under `left` why not" if verdict.overdue else ""
        yield Patched(
            source=new.source,
            patch=verdict.patch.id,
            release=str(new.version),
            before=outcome_of(earlier) if earlier else "",
            after=outcome_of(verdict),
            why=verdict.why,
            stops=verdict.stops,
            remedy=remedy(verdict) if verdict.stops else overdue,
        )


ARCH: Final = "12.1f"
"""The arch whose plan is tried."""


def steps_of(ctx: Context, recipe: Recipe, lock: Lock, checked: Checked) -> Iterator[str]:
    """One sentence for each."""
    for patch in checked.patches:
        if patch.remedy:
            yield f"patches/{patch.source}/{patch.patch} on {patch.release}, {patch.after}: {patch.remedy}"
    yield from checked.unknown
    for source, version, release in checked.unpinned:
        fields = {"filename": release.filename, "sha256": release.sha256, "size": release.size}
        pin = f"{json.dumps(str(version))}: {json.dumps(fields)}"
        yield f"pin {source} {version} in patches/{PINS}: {pin}"
    yield from _of_plan(ctx, recipe, lock)
    if recipe.engine in ENGINES and known_words(recipe.engine, recipe.version) is None:
        known = "python3 -m bootstrap scripts/engine_flags.py WHEEL"
        yield f"`recipe lint` does not know {recipe.engine} {recipe.version}: {known}"


def _of_plan(ctx: Context, recipe: Recipe, lock: Lock) -> Iterator[str]:
    """Why there is no plan of the new lock yet, if so."""
    arch = parse_arch(ARCH)
    options = Options(arch=arch, platform=arch.platform, build=build_architecture())
    try:
        patches = plan_patches(ctx.catalog.patches, recipe, lock, options.target, ())
        plan_image(recipe, lock, ctx.catalog.toolkit, replace(options, patches=patches))
    except Gb10Error as error:
        yield f"plan stops: {error.message}" + (f" ({error.hint})" if error.hint else "")
