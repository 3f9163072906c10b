"""``--ref ENGINE=git:URL@COMMIT``: any commit of an engine, as a difference to the wheel of the nearest release."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from packaging.version import Version

from gb10.core.fields import Architecture
from gb10.errors import PatchError
from gb10.image.context import Context
from gb10.image.patches.diff import MOST_BYTES
from gb10.image.patches.series import load_series
from gb10.image.patches.source_tree import Changed, Tree
from gb10.image.patches.verdict import judge_series
from gb10.image.patches.write import Both, compare
from gb10.image.plan.options import Taken
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.checkout_files import Released, change_notes
from gb10.image.request.checkouts import (
    COMPILED,
    INSTALLED,
    GitCommit,
    OwnSource,
    open_commit,
    released_source,
    store_diff,
)

UPSTREAM: Final = ("already-upstream", "superseded")
"""Outcomes of our patches that a commit needs no more."""
SOME: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitChange:
    """What a commit changes of the release whose wheel it is built on."""

    own: OwnSource
    released: Released
    tree: Tree
    """The release with the commit's files."""
    files: Tree
    """The commit's own files."""
    installed: tuple[str, ...]
    compiled: tuple[str, ...]


def change_of_commit(ctx: Context, recipe: Recipe, lock: Lock, target: Architecture, named: GitCommit) -> CommitChange:
    """The changes as diffs in the store, and what cannot be taken, printed.

    Raises PatchError for a changed file that is no text, UsageError, FetchError.
    """
    released = released_source(ctx, recipe, lock, target, recipe.engine)
    checkout, files, links = open_commit(ctx, recipe.engine, named)
    bundled = (*released.bundled, *checkout.modules)
    found = compare(released.layout, released.tree, files, checkout.files, bundled=bundled)
    both = {**found.installed, **found.compiled}
    binary = [path for path, sides in both.items() if any(b"\0" in (side or b"") for side in sides)]
    if binary:
        raise PatchError(
            f"{named} changes files of {released} that are not text",
            where="\n".join(binary[:SOME]),
            hint="name another commit, or add these files with --overlay DIR",
        )
    for line in change_notes(released, checkout, found, derived=True):
        ctx.reporter.say(line)
    gone = sorted({*found.gone} - links)
    if gone:
        ctx.reporter.say(f"{released}: {len(gone):,} files that the commit lacks stay in the image ({_some(gone)})")
    parts = ((INSTALLED, found.installed), (COMPILED, found.compiled))
    diffs = (store_diff(ctx.store, name, chunk) for name, changed in parts for chunk in _chunks(changed))
    return CommitChange(
        own=OwnSource(source=recipe.engine, diffs=tuple(diffs), taken=Taken(path=str(checkout), commit=named.commit)),
        released=released,
        tree=Changed(released.tree, {path: after for path, (_, after) in both.items()}),
        files=files,
        installed=tuple(sorted(found.installed)),
        compiled=tuple(sorted(found.compiled)),
    )


def _chunks(changed: Mapping[str, Both]) -> Iterator[dict[str, Both]]:
    """The changes in parts, each small enough for one diff."""
    total, numbered = 0, list[tuple[int, str]]()
    for path, sides in sorted(changed.items()):
        total += 2 * sum(len(side or b"") for side in sides) + 1000  # each line once more, with its mark
        numbered.append((total // MOST_BYTES, path))
    for _, part in groupby(numbered, key=lambda one: one[0]):
        yield {path: changed[path] for _, path in part}


def no_longer_needed(ctx: Context, change: CommitChange, recipe: Recipe) -> tuple[str, ...]:
    """Patches of ours for the release that the commit has already, as SOURCE/NNNN-slug; each is printed."""
    version = Version(recipe.version)
    verdicts = judge_series(load_series(ctx.catalog.patches, recipe.engine), version, change.tree)
    gone = [one for one in verdicts if one.patch.applies_to(version) and one.outcome in UPSTREAM]
    for one in gone:
        ctx.reporter.say(f"{one.patch.place} is not applied: {one.why}")
    return tuple(f"{recipe.engine}/{one.patch.id}" for one in gone)


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (", …" if len(paths) > 3 else "")
