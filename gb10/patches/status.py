"""Patching: every patch held against releases; which of them apply, and what they change."""

import difflib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from gb10.errors import EmptySelectionError, PatchError, UsageError
from gb10.patches.release_files import Library, Opened, open_folder, open_release
from gb10.patches.releases import Release, load_releases
from gb10.patches.series import Patch, load_series, sources
from gb10.patches.verdict import Verdict, judge_series

LISTED = "./build.py patches status lists them"
NOW = {
    "not-applicable": "plan and tree disagree: take another release, or widen its X-Applies-To",
    "already-upstream": "end its X-Applies-To before this release",
    "superseded": "end its X-Applies-To before this release",
    "conflict": "./build.py patches refresh {name} --tree DIR, or end its X-Applies-To before this release",
    "unknown-shape": "read the file, then teach the probe this shape",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One release and what becomes of every patch of its source."""

    source: str
    version: Version
    pinned: bool
    verdicts: tuple[Verdict, ...]
    release: Release | None = None


def releases_in_words(count: int) -> str:
    """``1 release``, ``2 releases``. Pure."""
    return "1 release" if count == 1 else f"{count} releases"


def status(library: Library, source: str, versions: Sequence[Version], tree: Path | None = None) -> tuple[Row, ...]:
    """The rows of a source: the pinned releases, or the requested ones. Raises PatchError, FetchError, UsageError."""
    patches = load_series(library.root, source)
    if not patches:
        raise EmptySelectionError(
            f"the series of {source} is empty",
            where=f"patches/{source}/series",
            hint="its README.md explains why there is no patch",
        )
    releases = load_releases(library.root)
    if tree is not None:
        return tuple(_row(patches, open_folder(tree, releases, source, version)) for version in versions)
    wanted = versions or sorted(map(Version, releases.source(source).releases))
    with (
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
        library.reporter.task(f"{source}: {releases_in_words(len(wanted))}") as task,
    ):

        def row(version: Version) -> Row:
            made = _row(patches, open_release(library, releases, source, version))
            library.reporter.advance(task, 1)
            return made

        return tuple(pool.map(row, wanted))


def _row(patches: Iterable[Patch], opened: Opened) -> Row:
    verdicts = judge_series(patches, opened.version, opened.tree)
    return Row(
        source=opened.source,
        version=opened.version,
        pinned=opened.pinned,
        verdicts=verdicts,
        release=opened.release,
    )


def troubles(rows: Iterable[Row]) -> tuple[str, ...]:
    """What a maintainer must mend: patches that stop a build, defects that no range covers."""
    found = []
    for row in rows:
        for verdict in row.verdicts:
            if verdict.stops or verdict.overdue:
                found.append(
                    f"{verdict.patch.place} on {row.source} {row.version}: {outcome_of(verdict)}\n  {verdict.why}"
                )
    return tuple(found)


def outcome_of(verdict: Verdict) -> str:
    """The word for a verdict: its outcome, or ``overdue`` when no range covers the defect."""
    return "overdue" if verdict.overdue else verdict.outcome


def refuse(verdicts: Iterable[Verdict], version: Version) -> None:
    """Raise PatchError for the first patch that was planned for this release and does not do its work there."""
    for verdict in verdicts:
        if verdict.outcome != "applies":
            patch = verdict.patch
            raise PatchError(
                f"{patch.place} on {patch.source} {version}: {verdict.outcome}",
                where=f"{verdict.why}\nX-Applies-To: {patch.header.get('X-Applies-To')}",
                hint=remedy(verdict),
            )


def remedy(verdict: Verdict) -> str:
    """What a maintainer does about a patch that stops a build."""
    absent = verdict.outcome == "unknown-shape" and verdict.probe.answer == "absent"
    return NOW["superseded" if absent else verdict.outcome].format(name=f"{verdict.patch.source}/{verdict.patch.name}")


def find_patches(root: Path, name: str) -> tuple[Patch, ...]:
    """The variants that ``[SOURCE/]NNNN-slug`` names, or the one of a file's name. Raises UsageError."""
    source, _, own = name.removeprefix("patches/").rpartition("/")
    known = [patch for each in ([source] if source else sources(root)) for patch in load_series(root, each)]
    found = tuple(patch for patch in known if own in (patch.id, patch.name, patch.name.removesuffix(".patch")))
    if found and len({patch.source for patch in found}) == 1:
        return found
    names = sorted({f"{patch.source}/{patch.id}" for patch in found or known})
    close = list(names) if found else difflib.get_close_matches(name, names, n=3, cutoff=0.3)
    what = "several sources have a patch" if found else "there is no patch"
    raise UsageError(f"{what} {name!r}", hint=f"did you mean {' or '.join(close)}?" if close else LISTED)
