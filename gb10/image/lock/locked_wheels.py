"""The four sets of locked wheels: image and tools, for each architecture, with the fewest different versions."""

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import requests
from packaging.version import Version

from gb10.core.fields import ARCHITECTURES, Architecture
from gb10.errors import FetchError
from gb10.image.lock.platforms import platform_of
from gb10.image.lock.resolver import Resolved, Resolver, check_origin, offered
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock, LockedWheel, LockedWheels
from gb10.sources.index.client import size_of
from gb10.sources.index.page import Link

TORCH: Final = "torch"
NONE: Final = "none"
LABEL: Final = re.compile(r"cu(\d+)(\d)(?!\d)")
OTHERS: Final = ("cpu", "rocm", "xpu")
RUN_TIME: Final = re.compile(r"nvidia-cuda-runtime(-cu\d+)?")


def built_with(torch: Resolved, closure: Callable[[str], Iterable[Resolved]]) -> str | None:
    """``13.0``, ``none`` for a build without CUDA, None if unknown. ``closure``: the dependencies of torch alone."""
    label = Version(torch.version).local or ""
    labelled = LABEL.match(label)
    if labelled:
        return f"{labelled[1]}.{labelled[2]}"
    if label.startswith(OTHERS):
        return NONE
    for entry in closure(f"{TORCH}=={torch.version}"):
        if RUN_TIME.fullmatch(entry.name):
            return ".".join(entry.version.split(".")[:2])
    return None if label else NONE


STREAMS = 8
SHA256: Final = re.compile(r"[0-9a-f]{64}")
# The arm64 image is resolved first: later sets prefer its versions.
ORDER: Final[tuple[Architecture, ...]] = ("arm64", "amd64")


@dataclass(frozen=True, slots=True)
class Choice:
    """One run over the sets; ``old`` pins what ``upgrade`` does not name."""

    resolver: Resolver
    old: Lock | None
    upgrade: tuple[str, ...]

    def sets(self) -> dict[str, dict[Architecture, tuple[Resolved, ...]]]:
        """Purpose -> architecture -> projects. Raises UsageError, FetchError."""
        recipe, settled = self.resolver.recipe, dict[str, str]()
        chosen: dict[str, dict[Architecture, tuple[Resolved, ...]]] = {"image": {}, "tools": {}}
        for purpose, requirements, options in _purposes(recipe):
            for architecture in ORDER:
                platform = platform_of(recipe.base.suite, recipe.python, architecture)
                pins = self._locked(purpose, architecture) | settled
                found = self.resolver.resolve(requirements, platform, pins, *options)
                chosen[purpose][architecture] = found
                settled = {entry.name: entry.version for entry in found} | settled
        return chosen

    def _locked(self, purpose: str, architecture: Architecture) -> dict[str, str]:
        if self.old is None:
            return {}
        sets = self.old.wheels.image if purpose == "image" else self.old.wheels.tools
        return {wheel.name: wheel.version for wheel in sets[architecture] if wheel.name not in self.upgrade}


def _purposes(recipe: Recipe) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """The recipe lists all tools: their other dependencies are not installed."""
    return ("image", recipe.requirements, ()), ("tools", recipe.all_tools, ("--no-deps",))


def lock_wheels(
    resolver: Resolver, session: requests.Session, old: Lock | None, upgrade: tuple[str, ...]
) -> LockedWheels:
    """Every wheel with its hash and size; sizes are fetched only for files that are not in ``old``.

    The recipe's named indexes are read before resolution; the files of their projects are then checked against them.
    Raises UsageError, FetchError.
    """
    named = offered(session, resolver.recipe)
    sets = Choice(resolver, old, upgrade).sets()
    entries = [entry for by_architecture in sets.values() for found in by_architecture.values() for entry in found]
    for entry in entries:
        check_origin(named, entry.name, entry.link)
    sizes = _sizes(session, (entry.link for entry in entries), _known_sizes(old))
    image = {
        name: _wheels(sets["image"][name], sizes, _cuda(resolver, name, sets["image"][name], old))
        for name in ARCHITECTURES
    }
    return LockedWheels(image=image, tools={name: _wheels(sets["tools"][name], sizes) for name in ARCHITECTURES})


def _cuda(resolver: Resolver, architecture: Architecture, found: tuple[Resolved, ...], old: Lock | None) -> str | None:
    """The CUDA that an image's torch is built with; looked up only if ``old`` does not have it."""
    torch = next((entry for entry in found if entry.name == TORCH), None)
    if torch is None:
        return None
    for wheel in locked_wheels(old) if old else ():
        if wheel.cuda and wheel.sha256 == torch.link.sha256:
            return wheel.cuda
    recipe, pins = resolver.recipe, {entry.name: entry.version for entry in found}
    platform = platform_of(recipe.base.suite, recipe.python, architecture)
    return built_with(torch, lambda requirement: resolver.resolve((requirement,), platform, pins))


def _known_sizes(old: Lock | None) -> dict[str, int]:
    return {wheel.sha256: wheel.size for wheel in locked_wheels(old)} if old else {}


def locked_wheels(lock: Lock) -> tuple[LockedWheel, ...]:
    """The wheels of all sets."""
    sets = [*lock.wheels.image.values(), *lock.wheels.tools.values()]
    return tuple(wheel for wheels in sets for wheel in wheels)


def _sizes(session: requests.Session, links: Iterable[Link], known: Mapping[str, int]) -> dict[str, int]:
    absent = {sha256_of(link): link for link in links if link.sha256 not in known}
    with ThreadPoolExecutor(STREAMS) as pool:
        sizes = pool.map(lambda link: size_of(session, link), absent.values())
        return {**known, **dict(zip(absent, sizes, strict=True))}


def _wheels(found: Iterable[Resolved], sizes: Mapping[str, int], cuda: str | None = None) -> tuple[LockedWheel, ...]:
    return tuple(
        LockedWheel(
            name=entry.name,
            version=entry.version,
            filename=entry.link.filename,
            sha256=sha256_of(entry.link),
            size=sizes[sha256_of(entry.link)],
            cuda=cuda if entry.name == TORCH else None,
        )
        for entry in found
    )


def sha256_of(link: Link) -> str:
    """The hash from the index; raises FetchError when the index has none."""
    if link.sha256 is None or not SHA256.fullmatch(link.sha256):
        raise FetchError(
            f"the index has no sha256 for {link.filename}", hint="set PIP_INDEX_URL to an index that has it"
        )
    return link.sha256
