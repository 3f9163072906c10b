"""Wheels of single commits, on the index that a recipe names for them (``commit-wheels``): found, kept, locked."""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from packaging.version import Version

from gb10.core.fields import ARCHITECTURES, COMMIT_PLACE, Commit, IndexUrl, Model, Release
from gb10.errors import FetchError
from gb10.image.context import Context
from gb10.image.lock.kept_files import OwnIndex, stored_links
from gb10.image.lock.relock import LABEL
from gb10.image.lock.resolver import best_wheel, platform_of
from gb10.image.patches.release_files import version_of
from gb10.image.patches.write import counted
from gb10.image.recipe.image_recipe import COMMIT_WHEELS, Layout, NamedIndex, Recipe, Source
from gb10.image.request.checkouts import GitCommit
from gb10.sources.git.history import Ancestor, ancestors
from gb10.sources.index.client import open_index_session
from gb10.sources.index.page import HERE, Link

MOST_BACK: Final = 64
"""Commits before the one that is built whose wheels count."""
STREAMS: Final = 8


class CommitWheel(Model):
    """The wheels of one commit, one for each platform, and the repository that has the commit."""

    commit: Commit
    version: Release
    index: IndexUrl
    git: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The wheel of a commit, and the files that the commit to build has otherwise than the one of the wheel."""

    wheel: CommitWheel
    back: int
    installed: tuple[str, ...]
    compiled: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitWheelSearch:
    """What an index of commits has. ``why_none``: why it could not be asked; then only what was kept of it counts."""

    best: Found | None = None
    why_none: str = ""


def nearest_wheel(ctx: Context, recipe: Recipe, named: GitCommit, layout: Layout) -> CommitWheelSearch:
    """Of the wheels of a commit and of those before it, the one with the fewest compiled files that differ."""
    template = recipe.commit_wheels
    if template is None:
        return CommitWheelSearch()
    try:
        with ctx.reporter.task(f"commits before {named}"):
            past = ancestors(ctx.store, ctx.env, named.url, named.commit, MOST_BACK)
    except FetchError as error:
        return CommitWheelSearch(why_none=error.message)
    urls = {one.commit: template.replace(COMMIT_PLACE, one.commit) for one in past}
    session = open_index_session(ctx.env)

    def links_of(one: Ancestor) -> tuple[Link, ...]:
        return OwnIndex(session, urls[one.commit], ctx.store, forgets=True).links(recipe.engine)

    why_none = ""
    with ctx.reporter.task(f"wheels of {len(past)} commits"), ThreadPoolExecutor(STREAMS) as pool:
        try:
            first = [links_of(one) for one in past[:1]]  # an index that does not answer is asked once
            pages = [*first, *pool.map(links_of, past[1:])]
        except FetchError as error:
            pool.shutdown(cancel_futures=True)
            why_none = error.message
            pages = [stored_links(ctx.store, urls[one.commit], recipe.engine) for one in past]
    rows = []
    for one, links in zip(past, pages, strict=True):
        version = newest_version(recipe, links)
        if version:
            wheel = CommitWheel(commit=one.commit, version=version, index=urls[one.commit], git=named.url)
            installed, compiled = counted(layout, one.differ)
            rows.append(Found(wheel=wheel, back=one.back, installed=installed, compiled=compiled))
    best = min(rows, key=lambda row: (len(row.compiled), len(row.installed), row.back), default=None)
    return CommitWheelSearch(best=best, why_none=why_none)


def newest_version(recipe: Recipe, links: Iterable[Link]) -> str | None:
    """The newest version of a page that has a wheel for each platform of the image, built for its CUDA."""
    found: dict[Version, list[str]] = {}
    for link in links:
        version = version_of(link)
        if version is not None and link.filename.endswith(".whl") and not link.yanked:
            found.setdefault(version, []).append(link.filename)
    good = [version for version, names in found.items() if _fits(recipe, version, names)]
    return str(max(good)) if good else None


def _fits(recipe: Recipe, version: Version, names: Sequence[str]) -> bool:
    labels = [LABEL.match(part) for part in re.split(r"[._-]", version.local or "")]
    cuda = {f"{label[1]}.{label[2]}" for label in labels if label}
    platforms = (platform_of(recipe.base.suite, recipe.python, name) for name in ARCHITECTURES)
    return cuda <= {recipe.cuda} and all(best_wheel(names, platform) for platform in platforms)


def keep_wheels(ctx: Context, recipe: Recipe, wheel: CommitWheel) -> None:
    """Fetch the wheels that the lock will name, once, into the store, where they stay. Raises FetchError."""
    index = OwnIndex(open_index_session(ctx.env), wheel.index, ctx.store, forgets=True)
    own = {link.filename: link for link in index.links(recipe.engine) if str(version_of(link)) == wheel.version}
    platforms = (platform_of(recipe.base.suite, recipe.python, name) for name in ARCHITECTURES)
    for name in dict.fromkeys(best_wheel(own, platform) for platform in platforms):
        if name and not own[name].url.startswith(f"{HERE}:"):
            with ctx.reporter.task(f"fetch {name}", own[name].size or 0) as task:
                index.keep(recipe.engine, own[name], partial(ctx.reporter.advance, task))


def with_commit_wheel(recipe: Recipe, wheel: CommitWheel) -> Recipe:
    """The recipe with the index of a commit, and the commit as the source of what is compiled. Pure."""
    index = NamedIndex(url=wheel.index, packages=(recipe.engine,))
    own = _with_source(recipe, Source(git=wheel.git, commit=wheel.commit))
    return own.model_copy(update={"indexes": {**recipe.indexes, COMMIT_WHEELS: index}})


def without_commit_wheel(recipe: Recipe) -> Recipe:
    """A recipe that was saved with the wheel of a commit, as one whose wheel is a release's. Pure."""
    if COMMIT_WHEELS not in recipe.indexes:
        return recipe
    own = _with_source(recipe, Source(sdist=f"{recipe.engine}=={Version(recipe.version).public}"))
    return own.model_copy(
        update={"indexes": {name: index for name, index in recipe.indexes.items() if name != COMMIT_WHEELS}}
    )


def _with_source(recipe: Recipe, source: Source) -> Recipe:
    """The recipe with another source of its engine, if it has one."""
    named = {name: source if recipe.project(name) == recipe.engine else own for name, own in recipe.sources.items()}
    return recipe.model_copy(update={"sources": named})
