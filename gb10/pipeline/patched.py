"""What is patched in a build: chosen by series, release and --patch when planned, applied strictly when it runs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from gb10.errors import PatchError, UsageError
from gb10.model import PatchUse
from gb10.patches.foreign import PACKAGES, Foreign, apply_foreign, find_foreign, load_foreign
from gb10.patches.releases import Releases
from gb10.patches.series import Patch, load_series
from gb10.patches.tree import Changed, open_tree
from gb10.patches.verdict import changes_of, judge_series, variants_for
from gb10.pipeline.patching import refuse, series_root
from gb10.pipeline.releases import load_releases
from gb10.pipeline.workshop import Workshop
from gb10.schema import Architecture, Lock, Recipe


def plan_patches(
    shop: Workshop, recipe: Recipe, lock: Lock, target: Architecture, by_hand: Sequence[Path]
) -> tuple[PatchUse, ...]:
    """The patches of a build: of the recipe's series those for the locked releases, then those given by hand.

    Raises PatchError and UsageError for a series or a diff that is none, or is for nothing in the image.
    """
    locked = {wheel.name: Version(wheel.version) for wheel in lock.wheels.image[target]}
    locked |= {sdist.name: Version(sdist.version) for sdist in lock.sdists.values()}
    releases = load_releases(shop)
    series = [use for source in recipe.patches for use in _from_series(shop, releases, source, locked, lock.sdists)]
    return (*series, *(use for path in by_hand for use in _by_hand(releases, path, locked)))


def _from_series(
    shop: Workshop, releases: Releases, source: str, locked: Mapping[str, Version], sources: Collection[str]
) -> Iterator[PatchUse]:
    """``sources``: the projects whose source archives are compiled; the others are there as wheels alone."""
    patches = load_series(series_root(shop), source)
    for project in releases.source(source).projects:
        if project not in locked:
            continue
        for patch in variants_for(patches, locked[project]):
            if patch.applies_to(locked[project]) and (patch.installable or project in sources):
                yield PatchUse(source=source, project=project, name=patch.name, sha256=patch.sha256,
                               installable=patch.installable)  # fmt: skip
        return


def _by_hand(releases: Releases, path: Path, locked: Mapping[str, Version]) -> Iterator[PatchUse]:
    for file in find_foreign(path):
        patch = load_foreign(file)
        project = next((name for name in releases.source(patch.source).projects if name in locked), None)
        if project is None:
            raise UsageError(f"{file} changes {patch.source}, which is not in this image",
                             hint="choose the engine whose package it changes: --engine")  # fmt: skip
        installed = any(diff.path.startswith(tuple(PACKAGES)) for diff in patch.diffs)
        yield PatchUse(source=patch.source, project=project, name=patch.name, sha256=patch.sha256,
                       path=str(file.absolute()), installable=installed)  # fmt: skip


def patched_files(shop: Workshop, source: Path, uses: Sequence[PatchUse]) -> Mapping[str, bytes | None]:
    """What the patches change in a wheel or a source archive; each is told. Raises PatchError."""
    tree = open_tree(source)
    version = (parse_wheel_filename(source.name) if tree.installed else parse_sdist_filename(source.name))[1]
    verdicts = judge_series(_ours(shop, uses), version, tree)
    refuse(verdicts, version)
    for verdict in verdicts:
        shop.talk.say(f"{verdict.patch.place}: applied to {source.name}{_moved(verdict.offsets)}")
    changes = changes_of(verdicts)
    for use in uses:
        if use.path is not None:
            applied = apply_foreign(_unchanged(use), Changed(tree, changes))
            for line in (f"{use.path}: applied to {source.name}", *applied.notes):
                shop.talk.say(line)
            changes |= applied.changes
    return changes


def _ours(shop: Workshop, uses: Sequence[PatchUse]) -> list[Patch]:
    names = {(use.source, use.name) for use in uses if use.path is None}
    series = (load_series(series_root(shop), source) for source in dict.fromkeys(source for source, _ in sorted(names)))
    return [patch for patches in series for patch in patches if (patch.source, patch.name) in names]


def _moved(offsets: Mapping[str, tuple[int, ...]]) -> str:
    parts = [f"{path} at {', '.join(f'{offset:+}' for offset in found)} lines" for path, found in offsets.items()]
    return f" ({'; '.join(parts)})" if parts else ""


def _unchanged(use: PatchUse) -> Foreign:
    """The diff that was planned; raises PatchError when the file has changed since."""
    patch = load_foreign(Path(use.path or ""))
    if patch.sha256 != use.sha256:
        raise PatchError(f"{use.name} changed while it was used", where=use.path, hint="run the command again")
    return patch
