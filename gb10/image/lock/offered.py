"""What an index offers of an engine: the release to propose, and a release's files, opened."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gb10.core.fetch import redact
from gb10.core.fields import ARCHITECTURES, requirement_name
from gb10.core.files import Artifact
from gb10.core.host import Host
from gb10.core.machine import MACHINES
from gb10.core.store import Store
from gb10.errors import FetchError, UsageError
from gb10.image.context import Context
from gb10.image.lock.moves import Demand, demands, metadata_of, pin_of
from gb10.image.lock.relock import main_index, own_index, sha256_of
from gb10.image.lock.resolver import Platform, best_wheel, platform_of
from gb10.image.patches.release_files import open_stored, version_of
from gb10.image.patches.source_tree import Tree
from gb10.image.recipe.image_recipe import COMMIT_WHEELS, Recipe
from gb10.sources.index.client import Index, fetch_all, project_of, size_of
from gb10.sources.index.metadata import wheel_metadata
from gb10.sources.index.page import Link

MOST_NOTES: Final = 5
NEWEST: Final = 5
"""Releases that an error names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """A release, and why newer ones are not proposed; ``version`` is the recipe's own when none is newer."""

    version: Version
    notes: tuple[str, ...] = ()


def next_release(project: str, links: Iterable[Link], current: Version, platforms: Iterable[Platform]) -> Chosen:
    """The newest release after ``current`` that is final, not yanked, and has a wheel for every platform."""
    offered, kinds, notes = _by_version(links), tuple(platforms), list[str]()
    for version in sorted((version for version in offered if version > current), reverse=True):
        why = next(_flaws(offered[version], version, kinds), None)
        if why is None:
            return Chosen(version=version, notes=tuple(notes[:MOST_NOTES]))
        notes.append(f"{project} {version} is not proposed: {why}")
    return Chosen(version=current, notes=tuple(notes[:MOST_NOTES]))


def check_requested_release(
    project: str, links: Iterable[Link], current: Version, platforms: Iterable[Platform], asked: Version
) -> None:
    """Raise UsageError for a release that is older than the recipe's, yanked, or without a wheel for a platform."""
    if asked < current:
        raise UsageError(
            f"{project} {asked} is older than the recipe's {current}",
            hint=f"build it once: --ref {project}={asked}; to go back for good, change the recipe, then lock it",
        )
    lost = next(_lost(_by_version(links)[asked], tuple(platforms)), None)
    if lost:
        raise UsageError(f"{project} {asked} {lost}", hint="choose another release: --to VERSION")


def newest(links: Iterable[Link], accepted: SpecifierSet) -> Version | None:
    """The newest final release, not yanked, that a specifier accepts; None when there is none."""
    good = (
        version
        for version, own in _by_version(links).items()
        if not version.is_prerelease and any(not link.yanked for link in own)
    )
    return max((version for version in good if accepted.contains(version)), default=None)


def _by_version(links: Iterable[Link]) -> Mapping[Version, list[Link]]:
    found: dict[Version, list[Link]] = {}
    for link in links:
        version = version_of(link)
        if version is not None:
            found.setdefault(version, []).append(link)
    return found


def _flaws(links: list[Link], version: Version, platforms: tuple[Platform, ...]) -> Iterator[str]:
    """Why a release is not proposed."""
    if version.is_prerelease:
        yield "it is a pre-release"
    if all(link.yanked for link in links):
        yield "its publishers yanked it"
    yield from (f"it {lost}" for lost in _lost(links, platforms))


def _lost(links: list[Link], platforms: tuple[Platform, ...]) -> Iterator[str]:
    """What a release lacks: a wheel for a platform of the image."""
    wheels = [link.filename for link in links if link.filename.endswith(".whl") and not link.yanked]
    for platform in platforms:
        if best_wheel(wheels, platform) is None:
            yield f"has no wheel for {MACHINES[platform.architecture]} and Python {platform.python}"


def require_release(links: Iterable[Link], source: str, text: str, how: str = "") -> None:
    """Raise UsageError, with the newest releases, when the index has no files of this release, or only yanked files.

    ``how``: the option that names a release; by default ``--ref``.
    """
    found = [(version, link) for link in links if (version := version_of(link))]
    asked = [link for version, link in found if SpecifierSet(f"=={text}").contains(version, prereleases=True)]
    if any(not link.yanked for link in asked):
        return
    good = sorted({version for version, link in found if not link.yanked and not version.is_prerelease}, reverse=True)
    problem = f"{source} {text} was yanked by its publishers" if asked else f"the package index has no {source} {text}"
    raise UsageError(
        problem,
        where=f"newest: {', '.join(map(str, good[:NEWEST])) or 'none'}",
        hint=f"choose one of its releases: {how or f'--ref {source}=VERSION'}",
    )


LARGEST: Final = 2 << 30
"""Bytes of a release's file."""
ANOTHER: Final = "choose another release: --to VERSION"


@dataclass(frozen=True, kw_only=True, slots=True)
class Offered:
    """The files of a recipe's engine on its index, and the release that the recipe has."""

    recipe: Recipe
    index: Index
    links: tuple[Link, ...]
    current: Version
    main: Index
    """The index of all projects that the recipe names no other index for."""
    store: Store

    def final_releases(self) -> tuple[Version, ...]:
        """The final releases, not yanked, that have a wheel for each platform of the image; the newest first."""
        suite, python = self.recipe.base.suite, self.recipe.python
        platforms = tuple(platform_of(suite, python, name) for name in reversed(ARCHITECTURES))
        good = (version for version, own in _by_version(self.links).items() if not any(_flaws(own, version, platforms)))
        return tuple(sorted(good, reverse=True))


def offered(ctx: Context, recipe: Recipe, path: Path) -> Offered:
    """Ask the index. Raises UsageError for a recipe without a pin of its engine, or an index without it; FetchError."""
    current = next((pin_of(text) for text in recipe.requirements if requirement_name(text) == recipe.engine), None)
    if COMMIT_WHEELS in recipe.indexes:
        raise UsageError(
            f"{path} is built on the wheel of a commit, which has no next release",
            hint=f"./build.py plan --ref {recipe.engine}=git:URL@COMMIT --save FILE.yaml takes another commit",
        )
    if current is None:
        raise UsageError(
            f"{path} requires no {recipe.engine}==RELEASE, so there is nothing to move",
            hint="pin the engine in requirements, then ./build.py lock",
        )
    main = main_index(ctx.env)
    index = own_index(recipe, recipe.engine, main, ctx.store)
    links = _own(index, recipe.engine)
    if not links:
        raise UsageError(
            f"the package index has no {recipe.engine}",
            where=redact(index.url),
            hint="set PIP_INDEX_URL to an index that has it",
        )
    return Offered(recipe=recipe, index=index, links=links, current=Version(current), main=main, store=ctx.store)


def choose(found: Offered, asked: str | None) -> Chosen:
    """The newest release that fits, or the one that was asked for. Raises UsageError."""
    recipe = found.recipe
    platforms = [platform_of(recipe.base.suite, recipe.python, name) for name in reversed(ARCHITECTURES)]
    if asked is None:
        return next_release(recipe.engine, found.links, found.current, platforms)
    try:
        version = Version(asked)
    except ValueError as error:  # packaging's own, or a number of too many digits
        raise UsageError(f"--to {asked[:100]} is not a release", hint=f"--to VERSION, as {found.current}") from error
    require_release(found.links, recipe.engine, str(version), how="--to VERSION")
    check_requested_release(recipe.engine, found.links, found.current, platforms, version)
    return Chosen(version=version)


def newest_of(found: Offered, project: str, accepted: SpecifierSet) -> Version | None:
    """The newest release of any project of the recipe that a specifier accepts. Raises FetchError."""
    return newest(_own(own_index(found.recipe, project, found.main, found.store), project), accepted)


def _own(index: Index, project: str) -> tuple[Link, ...]:
    """The files of a project's page that are its own: wheels and source archives with a version."""
    links = (link for link in index.links(project) if version_of(link) is not None)
    return tuple(link for link in links if project_of(link.filename) == canonicalize_name(project))


def open_release(ctx: Host, found: Offered, version: Version) -> Tree:
    """The files of a release: its source archive if the recipe names one, else its wheel for the arm64 image.

    Raises FetchError.
    """
    recipe, engine = found.recipe, found.recipe.engine
    own = {link.filename: link for link in found.links if version_of(link) == version}
    archives = [name for name in own if name.endswith(".tar.gz")]
    wheels = [name for name in own if name.endswith(".whl")]
    compiled = any(source.sdist and requirement_name(source.sdist) == engine for source in recipe.sources.values())
    best = best_wheel(wheels, platform_of(recipe.base.suite, recipe.python, "arm64"))
    name = archives[0] if compiled and archives else best
    if name is None:
        raise FetchError(f"the package index has no file of {engine} {version} for this image", hint=ANOTHER)
    artifact = Artifact(name, sha256_of(own[name]), size_of(found.index.session, own[name]))
    if artifact.size > LARGEST:
        raise FetchError(f"{name} has {artifact.size >> 30} GiB by the index", hint=ANOTHER)
    with ctx.reporter.task(f"fetch {name}", artifact.size) as task:
        path = fetch_all([artifact], ctx.store, ctx.env, lambda count: ctx.reporter.advance(task, count))
    return open_stored(ctx.store, path[artifact.sha256], artifact)


def require_wheel(found: Offered, version: Version) -> None:
    """Raise UsageError for a release without a wheel for the Python of the recipe on a platform of the image."""
    recipe, own = found.recipe, [link for link in found.links if version_of(link) == version]
    platforms = (platform_of(recipe.base.suite, recipe.python, name) for name in reversed(ARCHITECTURES))
    lost = next(_lost(own, tuple(platforms)), None)
    if lost:
        wheels = sorted(link.filename for link in own if link.filename.endswith(".whl"))
        raise UsageError(
            f"{recipe.engine} {version} {lost}, which the {recipe.engine} recipe has",
            where="\n".join(wheels[:MOST_NOTES]) or "it has no wheels at all",
            hint="choose another release, or change python and base.suite in a recipe of your own, then lock it",
        )


def demanded(host: Host, found: Offered, version: Version) -> tuple[Demand, ...]:
    """What a release requires on aarch64, by the metadata of its wheel. Raises FetchError."""
    recipe = found.recipe
    wheels = {link.filename: link for link in found.links if version_of(link) == version}
    names = [name for name in wheels if name.endswith(".whl")]
    name = best_wheel(names, platform_of(recipe.base.suite, recipe.python, "arm64"))
    metadata = None
    if name is not None:
        link, session = wheels[name], found.index.session
        metadata = wheel_metadata(session, link, size_of(session, link))
    if metadata is None:
        metadata = metadata_of(open_release(host, found, version), f"{recipe.engine} {version}")
    return demands(metadata, recipe.python, MACHINES["arm64"])


def is_short(text: str) -> bool:
    """Whether a text is a version of one or two numbers, as 0.30."""
    return re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text, re.ASCII) is not None


def full_release(links: Iterable[Link], source: str, text: str) -> str:
    """The release that a short version means: 0.30 is 0.30.0, when no other final release begins with it.

    Raises UsageError when several do. A version of three numbers or more, and one that no release begins with, stays.
    """
    if not is_short(text):
        return text
    short = Version(text).release
    good = (version for version, own in _by_version(links).items() if any(not link.yanked for link in own))
    fits = sorted(one for one in good if not one.is_prerelease and one.release[: len(short)] == short)
    if len(fits) > 1 and all(one.release != short for one in fits):
        raise UsageError(
            f"--ref {source}={text}: {len(fits)} releases begin with {text}",
            where=", ".join(map(str, fits)),
            hint=f"name one: --ref {source}={fits[-1]}",
        )
    return str(fits[0]) if len(fits) == 1 else text


def links_of(host: Host, recipe: Recipe, version: Version) -> Offered:
    """The files of the recipe's engine on its index; ``version`` is the release that the recipe has. FetchError.

    The index of a commit has no releases: those of the main index are there, too.
    """
    main = main_index(host.env)
    index = own_index(recipe, recipe.engine, main, host.store)
    links = _own(index, recipe.engine)
    if COMMIT_WHEELS in recipe.indexes and index is not main:
        links = (*links, *_own(main, recipe.engine))
    return Offered(recipe=recipe, index=index, links=links, current=version, main=main, store=host.store)
