"""The verb ``lock``: resolves a recipe into files; locked versions that still fit stay."""

import datetime
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import requests
from packaging.utils import canonicalize_name
from packaging.version import Version

from gb10.core.fetch import redact
from gb10.core.fields import ARCHITECTURES, Architecture, requirement_name
from gb10.core.files import Checkout
from gb10.core.store import Store
from gb10.errors import FetchError, LockStaleError, UsageError
from gb10.image.lock.kept_files import OwnIndex
from gb10.image.lock.lockfile import base_digest, input_digest, load_lock, load_recipe, lock_path, source_digest
from gb10.image.lock.resolver import Resolved, Resolver, check_origin, files_in_store, offered, platform_of
from gb10.image.recipe.image_recipe import COMMIT_WHEELS, Recipe, Source
from gb10.image.recipe.locked import (
    Lock,
    LockedCheckout,
    LockedDebs,
    LockedPart,
    LockedSdist,
    LockedSources,
    LockedWheel,
    LockedWheels,
)
from gb10.sources.debian.mirror import LockedDeb
from gb10.sources.debian.resolve import resolve_set
from gb10.sources.git.archive import resolve
from gb10.sources.index.client import Index, open_index_session, size_of
from gb10.sources.index.page import Link
from gb10.sources.index.pip_settings import read_settings

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


WHEEL_STREAMS = 8
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
        # the recipe lists all tools: their other dependencies are not installed
        for purpose, requirements, options in (
            ("image", recipe.requirements, ()),
            ("tools", recipe.all_tools, ("--no-deps",)),
        ):
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


def lock_wheels(
    resolver: Resolver, session: requests.Session, old: Lock | None, upgrade: tuple[str, ...]
) -> LockedWheels:
    """Every wheel with its hash and size; sizes are fetched only for files that are not in ``old``.

    The recipe's named indexes are read before resolution; the files of their projects are then checked against them.
    Raises UsageError, FetchError.
    """
    named = offered(session, resolver.recipe, resolver.store)
    resolver = replace(resolver, kept=files_in_store(resolver.recipe, named))
    sets = Choice(resolver, old, upgrade).sets()
    entries = [entry for by_architecture in sets.values() for found in by_architecture.values() for entry in found]
    for entry in entries:
        check_origin(named, entry.name, entry.link)
    known = {wheel.sha256: wheel.size for wheel in locked_wheels(old)} if old else {}
    known |= {link.sha256: link.size for links in resolver.kept.values() for link in links if link.sha256 and link.size}
    sizes = _sizes(session, (entry.link for entry in entries), known)
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


def locked_wheels(lock: Lock) -> tuple[LockedWheel, ...]:
    """The wheels of all sets."""
    sets = [*lock.wheels.image.values(), *lock.wheels.tools.values()]
    return tuple(wheel for wheels in sets for wheel in wheels)


def _sizes(session: requests.Session, links: Iterable[Link], known: Mapping[str, int]) -> dict[str, int]:
    absent = {sha256_of(link): link for link in links if link.sha256 not in known}
    with ThreadPoolExecutor(WHEEL_STREAMS) as pool:
        sizes = pool.map(lambda link: size_of(session, link), absent.values())
        return {**known, **dict(zip(absent, sizes, strict=True))}


def added_wheels(session: requests.Session, found: Iterable[Resolved]) -> tuple[LockedWheel, ...]:
    """The wheels of a resolution, with hashes and sizes. Raises FetchError."""
    entries = tuple(found)
    return _wheels(entries, _sizes(session, (entry.link for entry in entries), {}))


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


BASE = "base"
BLANK_DAY = datetime.date.min
STREAMS = 4


def lock_recipe(recipe_path: Path, *, store: Store, env: Mapping[str, str], upgrade: tuple[str, ...] = ()) -> Lock:
    """The recipe's lock as of now; ``upgrade`` names projects (or ``base``) to unlock.

    Writes nothing but the store. ``created`` changes only with the content. Raises UsageError, FetchError.
    """
    return resolve_lock(load_recipe(recipe_path), _old(lock_path(recipe_path)), store=store, env=env, upgrade=upgrade)


def resolve_lock(
    recipe: Recipe, old: Lock | None, *, store: Store, env: Mapping[str, str], upgrade: tuple[str, ...] = ()
) -> Lock:
    """The same for a recipe without a file; versions in ``old`` stay if they still fit."""
    upgrade = tuple(str(canonicalize_name(name)) for name in upgrade)
    _check_names(upgrade, old)
    index = main_index(env)
    keep_base = old and old.base_digest == base_digest(recipe) and BASE not in upgrade
    sdists: dict[str, LockedSdist | LockedSources | LockedCheckout | LockedPart] = {
        **lock_sdists(recipe, index, store),
        **lock_checkouts(recipe, old, store, env),
    }
    wheels = lock_wheels(Resolver(store, env, index.url, recipe), index.session, old, upgrade)
    lock = Lock(
        input_digest=input_digest(recipe),
        base_digest=base_digest(recipe),
        created=datetime.datetime.now(datetime.UTC).date(),
        debs=old.debs if old and keep_base else lock_debs(recipe, store, env),
        wheels=wheels,
        sdists=sdists,
    )
    return lock.model_copy(update={"created": old.created}) if old and _from_index(old) == _from_index(lock) else lock


def _from_index(lock: Lock) -> Lock:
    """A lock without its date and its git sources: the inputs of every image of the recipe."""
    others = {name: file for name, file in lock.sdists.items() if not isinstance(file, LockedCheckout)}
    return lock.model_copy(update={"created": BLANK_DAY, "sdists": others})


def _old(path: Path) -> Lock | None:
    try:
        return load_lock(path) if path.exists() else None
    except LockStaleError as error:
        hint = "restore it from version control; without it, lock resolves every version again"
        raise UsageError(error.message, where=error.where, hint=hint) from error


def _check_names(upgrade: Iterable[str], old: Lock | None) -> None:
    known = {wheel.name for wheel in locked_wheels(old)} | {BASE} if old else set(upgrade)
    for name in upgrade:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
            hint = f"did you mean {close[0]!r}?" if close else f"the lock lists its packages; {BASE!r} is Debian's"
            raise UsageError(f"the lock has no {name!r}", hint=hint)


def main_index(env: Mapping[str, str]) -> Index:
    """The index that pip's settings name. Raises UsageError."""
    url = read_settings(env).url
    if url is None:
        raise UsageError("pip's configuration sets no-index, but `lock` needs an index", hint="unset PIP_NO_INDEX")
    return Index(open_index_session(env), url)


def lock_sdists(recipe: Recipe, index: Index, store: Store) -> dict[str, LockedSdist | LockedSources]:
    """The source archives and wheels with sources that the recipe names, by project. Raises UsageError, FetchError."""
    found: list[LockedSdist | LockedSources] = []
    for source in recipe.sources.values():
        if source.pinned:
            own = own_index(recipe, requirement_name(source.pinned), index, store)
            found.append(_locked_release(source, own))
    return {file.name: file for file in found}


def own_index(recipe: Recipe, project: str, index: Index, store: Store) -> Index:
    """The recipe's own index for a project, with what was kept of it, else ``index``."""
    name = next((name for name, one in recipe.indexes.items() if project in one.packages), None)
    if name is None:
        return index
    return OwnIndex(index.session, recipe.indexes[name].url, store, forgets=name == COMMIT_WHEELS)


def lock_checkouts(recipe: Recipe, old: Lock | None, store: Store, env: Mapping[str, str]) -> dict[str, LockedCheckout]:
    """The recipe's current git sources, by name; locked commits are not fetched again.

    Raises FetchError.
    """
    found = {}
    for name, source in recipe.sources.items():
        if source.git:
            kept = _unchanged(source, old.sdists.get(name) if old else None)
            found[name] = kept or _lock_checkout(name, source, source.git, store, env)
    return found


def _unchanged(
    source: Source, file: LockedSdist | LockedSources | LockedCheckout | LockedPart | None
) -> LockedCheckout | None:
    """The locked commit, if the recipe still names it: its content cannot change, a tag's can."""
    same = isinstance(file, LockedCheckout) and file.input_digest == source_digest(source)
    return file if same and source.commit and isinstance(file, LockedCheckout) else None


def _lock_checkout(name: str, source: Source, url: str, store: Store, env: Mapping[str, str]) -> LockedCheckout:
    wanted = Checkout(url, source.pin, source.paths, submodules=source.submodules)
    made = resolve(store, env, f"{name}-{source.version}.tar", wanted)
    return LockedCheckout(
        name=name,
        version=source.version,
        filename=made.filename,
        sha256=made.sha256,
        size=made.size,
        commit=made.checkout.commit if made.checkout else "",
        input_digest=source_digest(source),
    )


def _locked_release(source: Source, index: Index) -> LockedSdist | LockedSources:
    """The source archive of a release, or the wheel that every machine installs. Raises UsageError, FetchError."""
    pinned = source.pinned or ""
    kind, ending = (LockedSdist, ".tar.gz") if source.sdist else (LockedSources, "-py3-none-any.whl")
    name, _, version = pinned.partition("==")
    for link in index.links(name):
        if link.filename.endswith(f"-{version}{ending}"):
            return kind(
                name=str(canonicalize_name(name)),
                version=version,
                filename=link.filename,
                sha256=sha256_of(link),
                size=size_of(index.session, link),
            )
    if source.sdist:
        raise UsageError(
            f"the index has no source archive {pinned}",
            where=redact(index.url),
            hint="what is compiled or patched needs one: correct it under sources in the recipe, or take the "
            "release from git\n({git: URL, tag: vX.Y.Z})",
        )
    raise UsageError(
        f"the index has no wheel of {pinned} for every machine (py3-none-any)",
        where=redact(index.url),
        hint=f"take its source archive (sdist: {pinned}), or its commit from git ({{git: URL, commit: …}})",
    )


def lock_debs(recipe: Recipe, store: Store, env: Mapping[str, str]) -> LockedDebs:
    """The closures of the recipe's Debian packages. Raises UsageError, FetchError."""
    packages, suite = recipe.base.packages, recipe.base.suite

    def resolve(wanted: tuple[Architecture, tuple[str, ...]]) -> tuple[LockedDeb, ...]:
        architecture, names = wanted
        foreign = tuple(sorted({name.partition(":")[2] for name in names if ":" in name} - {architecture}))
        return resolve_set(store, env, suite=suite, architecture=architecture, foreign=foreign, packages=names)

    image = [(name, packages.image) for name in ARCHITECTURES]
    build = [(name, (*packages.build, *packages.cross.get(name, ()))) for name in ARCHITECTURES]
    with ThreadPoolExecutor(STREAMS) as pool:
        found = tuple(pool.map(resolve, [*image, *build]))
    count = len(ARCHITECTURES)
    return LockedDebs(
        image=dict(zip(ARCHITECTURES, found[:count], strict=True)),
        build=dict(zip(ARCHITECTURES, found[count:], strict=True)),
    )
