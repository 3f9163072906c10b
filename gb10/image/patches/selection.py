"""Which patches a build has: those of the recipe's series for the locked releases, and those given by hand."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.version import Version

from gb10.core.fields import Architecture
from gb10.errors import UsageError
from gb10.image.patches.diff import check_diff, check_size
from gb10.image.patches.foreign import find_foreign, load_foreign
from gb10.image.patches.places import Layout, harmless, installed, placed
from gb10.image.patches.releases import PINS, Releases, load_releases
from gb10.image.patches.series import load_series
from gb10.image.patches.verdict import variants_for
from gb10.image.plan.compiles import kernel_set
from gb10.image.plan.options import PatchUse
from gb10.image.plan.values import CUTLASS_FOLDER, Toolkit, used_sources
from gb10.image.recipe.image_recipe import WHOLE, Recipe
from gb10.image.recipe.kernel_sets import entries
from gb10.image.recipe.locked import Lock, LockedPart

CODE: Final = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
NAMED: Final = 5
OF_COMMIT: Final = re.compile(r"0\+g[0-9a-f]{12}")
"""The version of a source from git that a commit pins."""
"""Files that a message names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where an image's lock has a source: a project's files, or the folder in which a compiled archive bundles it."""

    project: str
    version: Version
    folder: str = ""


def plan_patches(
    root: Path,
    recipe: Recipe,
    lock: Lock,
    target: Architecture,
    by_hand: Sequence[str],
    *,
    toolkit: Toolkit | None = None,
    without: Collection[str] = (),
) -> tuple[PatchUse, ...]:
    """The patches of a build: of the recipe's series those for the locked releases, then those given by hand.

    A bundled source's series is for wheels that are compiled over it: without one it is not planned. With ``toolkit``,
    which has the kernel sets, a patch of modules that this build does not compile is not planned either. ``without``:
    patches of a series that are left out, as SOURCE/NNNN-slug.

    Raises PatchError and UsageError for a series or a diff that is none, or is for nothing in the image.
    """
    lock = used_sources(recipe, lock)
    locked = locked_releases(lock, target)
    releases = load_releases(root).with_own(recipe.whole_sources)
    places = {source: find_place(releases, source, lock, locked) for source in recipe.patches}
    modules = _modules(recipe, toolkit) if toolkit else None
    series = [use for source, place in places.items() for use in _from_series(root, source, lock, place, modules)]
    series = [use for use in series if use.patch not in without]
    hand = [use for text in by_hand for use in _by_hand(releases, text, lock, locked)]
    over = {recipe.project(wheel.cutlass_source) for wheel in recipe.built.values() if wheel.method != "aot"}
    return (*(use for use in series if not use.folder or use.project in over), *_useful(hand, recipe, over))


def _useful(uses: Iterable[PatchUse], recipe: Recipe, over: Collection[str]) -> tuple[PatchUse, ...]:
    """Patches given by hand, each marked when this build compiles what it changes. Raises UsageError for a vain one."""
    built = recipe.built.values()
    named = [name for wheel in built if wheel.method == "source" for name in (wheel.source, *wheel.handed_in)]
    projects = {recipe.project(name) for name in named}
    marked = tuple(replace(use, compiled=use.compiled and use.project in projects) for use in uses)
    _check_compiled(marked, over)
    _check_used(marked, {recipe.project(wheel.source) for wheel in built if wheel.method in ("aot", *WHOLE)})
    return marked


def _check_compiled(uses: Sequence[PatchUse], over: Collection[str]) -> None:
    """Raise UsageError for a patch of a bundled source that nothing is compiled over: it would change nothing."""
    for use in uses:
        if use.folder and use.project not in over:
            raise UsageError(
                f"{use.source} lies in the archive of {use.project}, and nothing is compiled over it here",
                hint=f"do not patch {use.source}, or add a wheel of method extension",
            )


def _check_used(uses: Sequence[PatchUse], compiled_whole: Collection[str]) -> None:
    """Raise UsageError for a diff with files that would change nothing here, and be recorded all the same."""
    for use in uses:
        if use.compiled or use.folder or use.project in compiled_whole:
            continue
        vain = [path for path in compiled_files(use) if not use.installable or Path(path).suffix in CODE]
        if vain or not use.installable:
            what = f"what is compiled of {use.source}: {', '.join(vain[:NAMED])}" if vain else "nothing of the image"
            raise UsageError(
                f"{use.name} changes {what}",
                where=f"{use.path}\nupstream's wheel is compiled already, so this would have no effect",
                hint="compile the part that it changes: --targets NAME (`plan --targets NAME` names the known ones);\n"
                "or leave these files out of the diff",
            )


def compiled_files(use: PatchUse) -> list[str]:
    """The files of a diff given by hand that no wheel holds, without tests and docs."""
    if not use.path or use.layout is None:
        return []
    diffs = load_foreign(Path(use.path), {use.source: use.layout}, use.source).diffs
    paths = [diff.path for diff in diffs if not harmless(diff.path)]
    return [path for path in paths if not _is_installed(path, use.layout, wheel=True)]


def locked_releases(lock: Lock, target: Architecture) -> dict[str, Version]:
    """Project -> its locked release; raises UsageError when its wheel and its source archive are of two."""
    wheels = {wheel.name: Version(wheel.version) for wheel in lock.wheels.image[target]}
    sdists = {
        sdist.name: Version(sdist.version)
        for sdist in lock.sdists.values()
        if sdist.name not in wheels or not OF_COMMIT.fullmatch(sdist.version)  # a commit is of no release
    }
    two = [name for name, version in sdists.items() if wheels.get(name, version).public != version.public]
    if two:
        raise UsageError(
            f"{two[0]} is locked as the wheel {wheels[two[0]]} and as the source {sdists[two[0]]}",
            hint="patches are for one release: name the same in requirements and sources",
        )
    return wheels | sdists


def find_place(releases: Releases, source: str, lock: Lock, locked: Mapping[str, Version]) -> Place | None:
    """None for a source that is not in the image; raises UsageError when no pin states what an archive bundles."""
    known = releases.source(source)
    if source in lock.sdists:
        return Place(project=source, version=locked[source])
    if known.projects:
        project = next((name for name in known.projects if name in locked), None)
        return Place(project=project, version=locked[project]) if project else None
    for sdist in lock.sdists.values():
        if isinstance(sdist, LockedPart) and source == BUNDLED and sdist.cutlass:
            return Place(project=sdist.name, version=Version(sdist.cutlass), folder=CUTLASS_FOLDER)
        if found := known.bundled(sdist.sha256):
            return Place(project=sdist.name, version=found[0], folder=found[1])
    archives = ", ".join(sdist.filename for sdist in lock.sdists.values()) or "none"
    raise UsageError(
        f"no pin states which source archive of this image bundles {source}",
        where=f"source archives: {archives}",
        hint=f"name one as a release of {source} in patches/{PINS}, or do not patch it",
    )


def _modules(recipe: Recipe, toolkit: Toolkit) -> set[str] | None:
    """The modules of FlashInfer's that a build compiles; None when a group is among them, which can make any."""
    sets = [kernel_set(wheel, toolkit) or {} for wheel in recipe.built.values() if wheel.method == "aot"]
    if any(kernels.get("group") for kernels in sets):
        return None
    return {entry["name"] for kernels in sets for entry in entries(kernels)}


def _from_series(
    root: Path, source: str, lock: Lock, place: Place | None, modules: set[str] | None
) -> Iterator[PatchUse]:
    """Of a project that is there as a wheel alone, and not compiled, only what a wheel holds."""
    patches = load_series(root, source)
    for patch in variants_for(patches, place.version) if place else ():
        own = patch.record.modules
        if own and modules is not None and modules.isdisjoint(own):
            continue
        if place and patch.applies_to(place.version) and (patch.installable or place.project in lock.sdists):
            yield PatchUse(
                source=source,
                project=place.project,
                name=patch.name,
                sha256=patch.sha256,
                installable=patch.installable and not place.folder,
                compiled=not patch.installable,
                folder=place.folder,
            )


def _by_hand(releases: Releases, text: str, lock: Lock, locked: Mapping[str, Version]) -> Iterator[PatchUse]:
    """``FILE``, ``DIR``, or ``SOURCE=FILE`` where the paths in it do not show which source it changes."""
    source, _, place = text.partition("=") if "=" in text and not Path(text).exists() else ("", "", text)
    if source:
        releases.source(source)
    for file in find_foreign(Path(place)):
        check_size(file.stat().st_size, file.name)
        check_diff(file.read_bytes(), file.name)
        patch = load_foreign(file, releases.layouts, source or None)
        at = find_place(releases, patch.source, lock, locked)
        if at is None:
            raise UsageError(
                f"{file} changes {patch.source}, which is not in this image",
                hint="choose the engine whose package it changes: --engine",
            )
        paths = [diff.path for diff in patch.diffs if not harmless(diff.path)]
        wheel = any(_is_installed(path, patch.layout, wheel=True) for path in paths)
        compiled = not all(_is_installed(path, patch.layout, wheel=False) for path in paths)
        yield PatchUse(
            source=patch.source,
            project=at.project,
            name=patch.name,
            sha256=patch.sha256,
            path=str(file.absolute()),
            layout=releases.source(patch.source).layout,
            installable=wheel and not at.folder,
            compiled=compiled,
            folder=at.folder,
        )


def _is_installed(path: str, layout: Layout, *, wheel: bool) -> bool:
    return installed(placed(path, layout, wheel=wheel), layout)


BUNDLED: Final = "cutlass"
NUMBER: Final = re.compile(r"[a-z0-9-]+/\d{4}")


def left_out(root: Path, names: Sequence[str], planned: Sequence[PatchUse]) -> tuple[str, ...]:
    """The planned patches that go with these, as SOURCE/NNNN-slug: each that is named, and those that need one of them.

    A name is SOURCE/NNNN, with or without the rest. Raises UsageError for one that is not planned.
    """
    ours = {use.patch for use in planned if use.path is None}
    gone = {_planned_patch(name, ours) for name in names}
    needs = {
        f"{patch.source}/{patch.id}": patch.record.needs
        for use in ours
        for patch in load_series(root, use.partition("/")[0])
    }
    while more := {name for name in ours - gone if not gone.isdisjoint(needs[name])}:
        gone |= more
    return tuple(sorted(gone))


def require_stand_in(recipe: Recipe, gone: Collection[str], planned: Sequence[PatchUse]) -> None:
    """Raise UsageError when kernels of ours would be compiled without what a patch adds, and nothing in its place."""
    extensions = {name: wheel for name, wheel in recipe.built.items() if wheel.method == "extension"}
    by_hand = {use.source for use in planned if use.path is not None}
    for name in gone:
        source = name.partition("/")[0]
        if extensions and source == BUNDLED and source not in by_hand:
            raise UsageError(
                f"--without-patch {name}: {', '.join(extensions)} cannot be compiled without what it adds",
                hint=f"give the change that takes its place: --patch {source}=DIFF",
            )


def _planned_patch(name: str, ours: Collection[str]) -> str:
    """The one patch that a name means."""
    wanted = name.removeprefix("patches/").removesuffix("/").removesuffix(".patch").partition("@")[0]
    found = [one for one in ours if wanted in (one, one.partition("/")[2])]
    found = found or [one for one in ours if NUMBER.fullmatch(wanted) and one.startswith(f"{wanted}-")]
    if len(found) == 1:
        return found[0]
    what = "several patches are called so" if found else "this build has no such patch of ours"
    raise UsageError(
        f"--without-patch {name}: {what}",
        hint=f"it has {', '.join(sorted(found or ours)) or 'none'}",
    )
