"""The verb ``lock``: resolves a recipe into files; locked versions that still fit stay."""

import datetime
import difflib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.utils import canonicalize_name

from gb10.core.fetch import redact
from gb10.core.fields import ARCHITECTURES, Architecture, requirement_name
from gb10.core.files import Checkout
from gb10.core.store import Store
from gb10.errors import LockStaleError, UsageError
from gb10.image.lock.locked_wheels import lock_wheels, locked_wheels, sha256_of
from gb10.image.lock.lockfile import base_digest, input_digest, load_lock, load_recipe, lock_path, source_digest
from gb10.image.lock.resolver import Resolver
from gb10.image.recipe.builds import Source
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock, LockedCheckout, LockedDebs, LockedSdist
from gb10.sources.debian.mirror import LockedDeb
from gb10.sources.debian.resolve import resolve_set
from gb10.sources.git.archive import resolve
from gb10.sources.index.client import Index, open_index_session, size_of
from gb10.sources.index.pip_settings import read_settings

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
    sdists: dict[str, LockedSdist | LockedCheckout] = {
        **lock_sdists(recipe, index),
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


def lock_sdists(recipe: Recipe, index: Index) -> dict[str, LockedSdist]:
    """The source archives that the recipe names, by project. Raises UsageError, FetchError."""
    pinned = [source.sdist for source in recipe.sources.values() if source.sdist]
    found = [_sdist(sdist, own_index(recipe, requirement_name(sdist), index)) for sdist in pinned]
    return {sdist.name: sdist for sdist in found}


def own_index(recipe: Recipe, project: str, index: Index) -> Index:
    """The recipe's own index for a project, else ``index``."""
    return Index(index.session, recipe.index_of[project]) if project in recipe.index_of else index


def lock_checkouts(recipe: Recipe, old: Lock | None, store: Store, env: Mapping[str, str]) -> dict[str, LockedCheckout]:
    """The recipe's current git sources, by name; locked commits are not fetched again.

    Raises FetchError.
    """
    found = {}
    for name, source in recipe.sources.items():
        if source.git:
            kept = _kept(source, old.sdists.get(name) if old else None)
            found[name] = kept or _lock_checkout(name, source, source.git, store, env)
    return found


def _kept(source: Source, file: LockedSdist | LockedCheckout | None) -> LockedCheckout | None:
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


def _sdist(pinned: str, index: Index) -> LockedSdist:
    name, _, version = pinned.partition("==")
    for link in index.links(name):
        if link.filename.endswith(f"-{version}.tar.gz"):
            return LockedSdist(
                name=str(canonicalize_name(name)),
                version=version,
                filename=link.filename,
                sha256=sha256_of(link),
                size=size_of(index.session, link),
            )
    raise UsageError(
        f"the index has no source archive {pinned}",
        where=redact(index.url),
        hint="what is compiled or patched needs one: correct it under sources in the recipe, or take the "
        "release from git\n({git: URL, tag: vX.Y.Z})",
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
