"""What is patched in a build: chosen by series, release and --patch when planned, applied strictly when it runs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from gb10.errors import PatchError, UsageError
from gb10.model import PatchUse
from gb10.patches.foreign import Foreign, apply_foreign, find_foreign, load_foreign
from gb10.patches.places import installed, placed
from gb10.patches.releases import Releases
from gb10.patches.series import Patch, load_series
from gb10.patches.tree import Changed, open_tree
from gb10.patches.verdict import changes_of, judge_series, variants_for
from gb10.pipeline.patching import refuse, series_root
from gb10.pipeline.releases import load_releases
from gb10.pipeline.workshop import Workshop
from gb10.schema import Architecture, Lock, Recipe

AGAIN = "run the command again"


def plan_patches(
    shop: Workshop, recipe: Recipe, lock: Lock, target: Architecture, by_hand: Sequence[str]
) -> tuple[PatchUse, ...]:
    """The patches of a build: of the recipe's series those for the locked releases, then those given by hand.

    Raises PatchError and UsageError for a series or a diff that is none, or is for nothing in the image.
    """
    locked = _locked(lock, target)
    releases = load_releases(shop)
    series = [use for source in recipe.patches for use in _from_series(shop, releases, source, locked, lock.sdists)]
    return (*series, *(use for text in by_hand for use in _by_hand(releases, text, locked)))


def _locked(lock: Lock, target: Architecture) -> dict[str, Version]:
    """Project -> its locked release; raises UsageError when its wheel and its source archive are of two."""
    wheels = {wheel.name: Version(wheel.version) for wheel in lock.wheels.image[target]}
    sdists = {sdist.name: Version(sdist.version) for sdist in lock.sdists.values()}
    two = [name for name, version in sdists.items() if wheels.get(name, version) != version]
    if two:
        raise UsageError(f"{two[0]} is locked as the wheel {wheels[two[0]]} and as the source {sdists[two[0]]}",
                         hint="patches are for one release: name the same in requirements and sources")  # fmt: skip
    return wheels | sdists


def _from_series(
    shop: Workshop, releases: Releases, source: str, locked: Mapping[str, Version], sources: Collection[str]
) -> Iterator[PatchUse]:
    """``sources``: the projects whose source archives are compiled; the others are there as wheels alone."""
    patches = load_series(series_root(shop), source)
    project = next((name for name in releases.source(source).projects if name in locked), None)
    for patch in variants_for(patches, locked[project]) if project else ():
        if project and patch.applies_to(locked[project]) and (patch.installable or project in sources):
            yield PatchUse(source=source, project=project, name=patch.name, sha256=patch.sha256,
                           installable=patch.installable)  # fmt: skip


def _by_hand(releases: Releases, text: str, locked: Mapping[str, Version]) -> Iterator[PatchUse]:
    """``FILE``, ``DIR``, or ``SOURCE=FILE`` where the paths in it do not tell whose it is."""
    if "://" in text:
        raise UsageError(f"--patch {text} is a URL", hint="download it, read it, and give the file")
    source, _, place = text.partition("=") if "=" in text and not Path(text).exists() else ("", "", text)
    if source:
        releases.source(source)
    for file in find_foreign(Path(place)):
        patch = load_foreign(file, source or None)
        project = next((name for name in releases.source(patch.source).projects if name in locked), None)
        if project is None:
            raise UsageError(f"{file} changes {patch.source}, which is not in this image",
                             hint="choose the engine whose package it changes: --engine")  # fmt: skip
        wheel = any(installed(placed(diff.path, patch.source, wheel=True)) for diff in patch.diffs)
        yield PatchUse(source=patch.source, project=project, name=patch.name, sha256=patch.sha256,
                       path=str(file.absolute()), installable=wheel)  # fmt: skip


def patched_files(shop: Workshop, source: Path, uses: Sequence[PatchUse]) -> Mapping[str, bytes | None]:
    """What the patches change in a wheel or a source archive; each is told. Raises PatchError."""
    tree = open_tree(source)
    version = (parse_wheel_filename(source.name) if tree.installed else parse_sdist_filename(source.name))[1]
    verdicts = judge_series(_planned(shop, uses), version, tree)
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


def _planned(shop: Workshop, uses: Sequence[PatchUse]) -> list[Patch]:
    """The very patches of the series that were planned; raises PatchError when one is not what it was."""
    ours = [use for use in uses if use.path is None]
    series = {source: load_series(series_root(shop), source) for source in {use.source for use in ours}}
    found = []
    for use in ours:
        patch = next((patch for patch in series[use.source] if patch.name == use.name), None)
        if patch is None or patch.sha256 != use.sha256:
            raise PatchError(f"patches/{use.source}/{use.name} changed while it was used", hint=AGAIN)
        found.append(patch)
    return found


def _moved(offsets: Mapping[str, tuple[int, ...]]) -> str:
    parts = [f"{path} at {', '.join(f'{offset:+}' for offset in found)} lines" for path, found in offsets.items()]
    return f" ({'; '.join(parts)})" if parts else ""


def _unchanged(use: PatchUse) -> Foreign:
    """The diff that was planned; raises PatchError when the file has changed since."""
    patch = load_foreign(Path(use.path or ""), use.source)
    if patch.sha256 != use.sha256:
        raise PatchError(f"{use.name} changed while it was used", where=use.path, hint=AGAIN)
    return patch
