"""What the planned patches change in a wheel or a source archive: applied strictly when the build runs."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from gb10.errors import PatchError
from gb10.image.patches.foreign import Applied, Foreign, apply_foreign, load_foreign
from gb10.image.patches.places import placed
from gb10.image.patches.releases import PINS, load_releases, told_version
from gb10.image.patches.series import Patch, load_series
from gb10.image.patches.source_tree import Below, Changed, Tree, open_tree
from gb10.image.patches.verdict import changes_of, judge_series, refuse
from gb10.image.plan.options import PatchUse

AGAIN: Final = "run the command again"


def patched_files(
    root: Path, source: Path, uses: Sequence[PatchUse], tell: Callable[[str], None]
) -> Mapping[str, bytes | None]:
    """What the patches change in a wheel or a source archive; ``tell`` gets a line for each. Raises PatchError."""
    tree = open_tree(source)
    changes: dict[str, bytes | None] = {}
    for folder in dict.fromkeys(use.folder for use in uses):
        own = [use for use in uses if use.folder == folder]
        part = _part(root, Changed(tree, changes), source.name, own[0])
        start = f"{folder}/" if folder else ""
        changes |= {start + path: content for path, content in _changes(root, part, own, tell).items()}
    return changes


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """Files that are patched as one release: all of an archive or a wheel, or what it bundles in a folder."""

    tree: Tree
    version: Version
    label: str


def _part(root: Path, tree: Tree, file: str, use: PatchUse) -> _Part:
    """The part that a patch is for; raises PatchError when what is bundled does not tell its release."""
    if not use.folder:
        sdist = f"{file.removesuffix('.gz')}.gz"  # what comes from git is a plain tar
        version = (parse_wheel_filename(file) if tree.installed else parse_sdist_filename(sdist))[1]
        return _Part(tree=tree, version=version, label=file)
    told = load_releases(root).source(use.source).told
    if told is None:
        raise PatchError(f"patches/{PINS} changed while it was used", hint=AGAIN)
    below, label = Below(tree, use.folder), f"{file}, {use.folder}"
    return _Part(tree=below, version=told_version(use.source, told, below, label), label=label)


def _changes(root: Path, part: _Part, uses: Sequence[PatchUse], tell: Callable[[str], None]) -> dict[str, bytes | None]:
    """The changed files of one part, by their paths in it.

    In the order of the uses: the diffs of a whole commit come before the series, which is judged on what they leave.
    """
    planned = _planned(root, uses)
    first = [*takewhile(lambda use: use.path is not None, uses)] if planned else []
    changes: dict[str, bytes | None] = {}
    for use in first:
        changes |= _by_hand(use, Changed(part.tree, changes), part, (), tell)
    part = replace(part, tree=Changed(part.tree, changes)) if first else part
    verdicts = judge_series(planned, part.version, part.tree)
    refuse(verdicts, part.version)
    for verdict in verdicts:
        tell(f"{verdict.patch.place}: applied to {part.label}{_moved(verdict.offsets)}")
    changes |= changes_of(verdicts)
    for use in uses[len(first) :]:
        if use.path is not None:
            changes |= _by_hand(use, Changed(part.tree, changes), part, planned, tell)
    return changes


def _by_hand(
    use: PatchUse, tree: Tree, part: _Part, planned: Sequence[Patch], tell: Callable[[str], None]
) -> Mapping[str, bytes | None]:
    """What one diff by hand changes in the tree."""
    applied = _apply(use, tree, part, planned)
    for line in (f"{use.taken.path if use.taken else use.name}: applied to {part.label}", *applied.notes):
        tell(line)
    return applied.changes


def _apply(use: PatchUse, tree: Tree, part: _Part, planned: Sequence[Patch]) -> Applied:
    """One diff by hand on what the patches before it left. Raises PatchError, which names those of ours it meets."""
    patch = _unchanged(use)
    try:
        return apply_foreign(patch, tree, halved=use.compiled)
    except PatchError as error:
        met = _met(patch, part, planned, halved=use.compiled)
        if not met and use.taken is None:
            raise
        raise _meeting(use, error, met) from error


def _met(patch: Foreign, part: _Part, planned: Sequence[Patch], *, halved: bool) -> tuple[Patch, ...]:
    """Our patches without which a diff applies: one where one is enough, else all that change its files.

    None when it does not apply to the release as it is either: then ours are not the reason.
    """
    paths = {placed(diff.path, patch.layout, wheel=part.tree.installed) for diff in patch.diffs}
    near = [
        ours
        for ours in planned
        if paths & {placed(path, ours.layout, wheel=part.tree.installed) for path in ours.paths}
    ]

    def applies_without(gone: Collection[Patch]) -> bool:
        left = [ours for ours in planned if ours not in gone]
        try:
            apply_foreign(
                patch, Changed(part.tree, changes_of(judge_series(left, part.version, part.tree))), halved=halved
            )
        except PatchError:
            return False
        return True

    if not near or not applies_without(near):
        return ()
    return next(((ours,) for ours in near if applies_without(_with_needing(ours, planned))), tuple(near))


def _with_needing(ours: Patch, planned: Sequence[Patch]) -> list[Patch]:
    """A patch, and those that need it."""
    return [ours, *(other for other in planned if f"{ours.source}/{ours.id}" in other.record.needs)]


def _meeting(use: PatchUse, error: PatchError, met: Sequence[Patch]) -> PatchError:
    what = use.taken.path if use.taken else use.name
    names = [f"{patch.source}/{patch.id}" for patch in met]
    there = f"\nours: {chr(10).join(f'{patch.place}: {patch.header.subject}' for patch in met)}" if met else ""
    own = f"changes lines that our patch {names[0]} changes, too" if len(names) == 1 else "meets patches of ours"
    without = "build without it: " + " ".join(f"--without-patch {name}" for name in names) if met else ""
    again = f"the series of {use.source} is applied first: take back in the checkout what it does" if use.taken else ""
    again = again or f"or change the diff so that it fits what ours leaves: ./build.py patches show {names[0]}"
    hints = (without, again, f"./build.py patches status --source {use.source} lists them" if use.taken else "")
    return PatchError(
        f"{what} {own if met else 'changes what patches of this build change, too'}",
        where=f"{error.where}{there}",
        hint="\n".join(filter(None, hints)),
    )


def _planned(root: Path, uses: Sequence[PatchUse]) -> list[Patch]:
    """The very patches of the series that were planned; raises PatchError when one is not what it was."""
    ours = [use for use in uses if use.path is None]
    series = {source: load_series(root, source) for source in {use.source for use in ours}}
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


def diffs_by_hand(uses: Sequence[PatchUse]) -> dict[str, bytes]:
    """The bytes of the diffs that were given by hand, by their sha256; raises PatchError when one has changed."""
    found = {use.sha256: (use, Path(use.path).read_bytes()) for use in uses if use.path is not None}
    for sha256, (use, text) in found.items():
        if hashlib.sha256(text).hexdigest() != sha256:
            raise PatchError(f"{use.name} changed while it was used", where=use.path, hint=AGAIN)
    return {sha256: text for sha256, (_, text) in found.items()}


def _unchanged(use: PatchUse) -> Foreign:
    """The diff that was planned; raises PatchError when the file has changed since."""
    patch = load_foreign(Path(use.path or ""), {use.source: use.layout}, use.source)
    if patch.sha256 != use.sha256:
        raise PatchError(f"{use.name} changed while it was used", where=use.path, hint=AGAIN)
    return patch
