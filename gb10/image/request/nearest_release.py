"""Of a commit of an engine: the release whose wheel it is built on, the one with the nearest compiled sources."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from packaging.version import Version

from gb10.core.fields import Model
from gb10.core.files import digest
from gb10.core.store import note_use
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.moves import Demand
from gb10.image.lock.offered import Offered, demanded, links_of
from gb10.image.patches.places import installed
from gb10.image.patches.release_files import Library, open_release
from gb10.image.patches.releases import load_releases
from gb10.image.patches.source_tree import Tree
from gb10.image.patches.write import Difference, compare
from gb10.image.recipe.image_recipe import Layout, Recipe
from gb10.image.request.checkouts import GitCommit, open_commit
from gb10.image.request.commit_requirements import Wanted, differences, required
from gb10.image.request.commit_wheels import CommitWheel, Found, nearest_wheel
from gb10.sources.git.history import History, history

SECTION: Final = "nearest"
FILE: Final = "release.json"
MOST_COMPARED: Final = 3
"""Releases whose files are compared with the commit's."""
MOST_ASKED: Final = 12
"""Releases whose requirements are compared, where no history says which are near."""
LEAST_SHARED: Final = 0.2
"""Of a release's files: a tree that shares less is of another project."""


class Nearest(Model):
    """A release, and the words why it is the nearest."""

    release: str
    why: str
    requirements: tuple[str, ...] = ()
    """What the commit requires otherwise than the release, or beyond it."""
    otherwise: tuple[str, ...] = ()
    """The same, each with what the release requires, for people."""
    wheel: CommitWheel | None = None
    """The wheel of a commit, where it is nearer than that of every release; ``release`` is its version."""


def nearest_release(ctx: Context, recipe: Recipe, named: GitCommit) -> Nearest:
    """The release of the engine that a commit is nearest to; the store keeps the answer.

    The history of the repository names the candidates, else the requirements do. Of these, and of the wheels of single
    commits that an index has, the one with the fewest differing compiled files is taken. Where that index cannot be
    asked, the answer is not kept. Raises UsageError for a commit of another project, or one without requirements;
    FetchError.
    """
    inputs = [recipe.engine, named.commit, recipe.version, recipe.python, recipe.commit_wheels]
    note = ctx.store.entry(SECTION, digest(inputs)) / FILE
    with ctx.store.locked(f"nearest-{note.parent.name}", ctx.reporter.waiting_for(str(named))):
        if note.is_file():
            note_use(note)
            return Nearest.model_validate_json(note.read_bytes())
        layout = load_releases(ctx.catalog.patches).source(recipe.engine).layout
        asked = nearest_wheel(ctx, recipe, named, layout)
        found = _nearest(ctx, recipe, named, asked.best)
        if asked.why_none:
            ctx.reporter.say(f"wheels of commits are not known: {asked.why_none}; the next plan asks again")
            return found

        def write(work: Path) -> None:
            (work / FILE).write_text(found.model_dump_json(by_alias=True), encoding="utf-8")

        ctx.store.replace(note.parent, write)
    return found


def _nearest(ctx: Context, recipe: Recipe, named: GitCommit, own: Found | None) -> Nearest:
    worktree, tree, _ = open_commit(ctx, recipe.engine, named)
    wanted = required(tree, str(named), recipe.python)
    offered = links_of(ctx, recipe, Version(recipe.version))
    releases = offered.final_releases()
    with ctx.reporter.task(f"history of {named}"):
        past = history(ctx.store, ctx.env, named.url, named.commit, releases)
    near = [one.release for one in past.distances]
    if not near:
        ctx.reporter.say(f"{named}: {past.why_none}; the releases with the same requirements are compared")
        near = _alike(ctx, offered, releases, wanted)
    layout = load_releases(ctx.catalog.patches).source(recipe.engine).layout
    rows = [
        (release, compare(layout, _opened(ctx, recipe, release), tree, worktree.files, bundled=worktree.modules))
        for release in near[:MOST_COMPARED]
    ]
    best, found = min(rows, key=lambda row: (len(compiled_of(row[1], layout)), len(row[1].differ)))
    distance = len(compiled_of(found, layout)), len(found.differ)
    if own and (len(own.compiled), len(own.compiled) + len(own.installed)) < distance:
        return _on_commit(ctx, recipe, own, wanted, _compared(rows, layout))
    if len(found.differ) > found.known * (1 - LEAST_SHARED):
        raise UsageError(
            f"{named} is no {recipe.engine}: {len(found.differ):,} of {found.known:,} files of {best} differ",
            hint=f"name a commit of {recipe.engine}, or of a fork of it",
        )
    other = differences(_required(ctx, offered, best), wanted.demands)
    return Nearest(
        release=str(best),
        why=_why(past, best, rows, layout),
        requirements=tuple(f"{one.project}{one.after.wants}{one.after.specifier}" for one in other),
        otherwise=tuple(map(str, other)),
    )


def _on_commit(ctx: Context, recipe: Recipe, own: Found, wanted: Wanted, compared: str) -> Nearest:
    """The wheel of a commit as the nearest, and what the commit to build requires otherwise."""
    base = GitCommit(url=own.wheel.git, commit=own.wheel.commit)
    _, tree, _ = open_commit(ctx, recipe.engine, base)
    other = differences(required(tree, str(base), recipe.python).demands, wanted.demands)
    far = f"of {base}, {own.back} commits before" if own.back else "of this commit"
    differ = f"{len(own.compiled)} compiled and {len(own.installed)} installed files differ; {compared}"
    return Nearest(
        release=own.wheel.version,
        why=f"{far}: {differ}",
        requirements=tuple(f"{one.project}{one.after.wants}{one.after.specifier}" for one in other),
        otherwise=tuple(map(str, other)),
        wheel=own.wheel,
    )


def _required(ctx: Context, offered: Offered, release: Version) -> tuple[Demand, ...]:
    """What a release requires: by the same files as the commit, where its source archive has them."""
    recipe = offered.recipe
    tree = _opened(ctx, recipe, release)
    if tree.installed:
        return demanded(ctx, offered, release)
    return required(tree, f"{recipe.engine} {release}", recipe.python).demands


def _opened(ctx: Context, recipe: Recipe, release: Version) -> Tree:
    releases = load_releases(ctx.catalog.patches)
    library = Library(root=ctx.catalog.patches, store=ctx.store, env=ctx.env, reporter=ctx.reporter)
    return open_release(library, releases, recipe.engine, release).tree


def compiled_of(found: Difference, layout: Layout) -> tuple[str, ...]:
    """The compiled files that differ, also those that only the release has."""
    gone = (path for path in found.gone if not installed(path, layout))
    return tuple(sorted({*found.compiled, *gone}))


def _alike(ctx: Context, offered: Offered, releases: Sequence[Version], wanted: Wanted) -> list[Version]:
    """The releases, those first that require the most of what the commit requires; of equals the newer one."""
    asked = sorted(releases, reverse=True)[:MOST_ASKED]
    with ctx.reporter.task(f"requirements of {len(asked)} releases"), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(partial(demanded, ctx, offered), asked))
    own = {(one.project, str(one.specifier)) for one in wanted.demands}
    shared = {
        release: len(own & {(one.project, str(one.specifier)) for one in demands if not one.extra})
        for release, demands in zip(asked, found, strict=True)
    }
    return sorted(asked, key=lambda release: (shared[release], release), reverse=True)


def _why(past: History, best: Version, rows: Iterable[tuple[Version, Difference]], layout: Layout) -> str:
    """In words: the distance in commits, and what differs from each release that was compared."""
    one = next((one for one in past.distances if one.release == best), None)
    way = f"{one.ahead} commits after its merge base with {one.tag}, {one.behind} only there; " if one else ""
    return f"{way}{_compared(rows, layout)}"


def _compared(rows: Iterable[tuple[Version, Difference]], layout: Layout) -> str:
    return "; ".join(
        f"of {release} {len(compiled_of(found, layout))} compiled and {len(found.installed)} installed files differ"
        for release, found in rows
    )
