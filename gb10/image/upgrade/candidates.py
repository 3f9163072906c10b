"""Which release of an engine comes next, by the files that an index offers. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gb10.core.machine import MACHINES
from gb10.errors import UsageError
from gb10.image.lock.platforms import Platform, best_wheel
from gb10.patches.release_files import version_of
from gb10.sources.index.page import Link

MOST_NOTES: Final = 5


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


def check_asked(
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
    good = (version for version, own in _by_version(links).items() if _is_good(version, own))
    return max((version for version in good if accepted.contains(version)), default=None)


def _by_version(links: Iterable[Link]) -> Mapping[Version, list[Link]]:
    found: dict[Version, list[Link]] = {}
    for link in links:
        version = version_of(link)
        if version is not None:
            found.setdefault(version, []).append(link)
    return found


def _is_good(version: Version, links: Iterable[Link]) -> bool:
    return not version.is_prerelease and any(not link.yanked for link in links)


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
