"""``--source NAME=DIR``, ``NAME=git:URL@COMMIT``: changes to the locked release, as diffs in the plan."""

import hashlib
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.core.fetch import store_paths, stored
from gb10.core.fields import Architecture, requirement_name
from gb10.core.files import COMMIT, Checkout
from gb10.core.host import Host
from gb10.core.proc import without_logins
from gb10.core.store import Store, note_use
from gb10.errors import FetchError, UsageError
from gb10.image.context import Context
from gb10.image.locked_files import fetch_locked
from gb10.image.patches.diff import check_size
from gb10.image.patches.release_files import open_stored
from gb10.image.patches.releases import load_releases
from gb10.image.patches.selection import find_place, locked_releases
from gb10.image.patches.source_tree import Below, Tree, open_tree
from gb10.image.patches.write import Both, compare, diff_text
from gb10.image.plan.options import PatchUse, Taken
from gb10.image.plan.values import artifacts, source_archive
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.checkout_files import (
    Files,
    Released,
    Worktree,
    change_notes,
    check_checkout_release,
    check_difference,
    ignored,
    open_worktree,
    require_folder,
)
from gb10.image.request.pinned_download import downloaded_file, pinned_sha256, write_note
from gb10.sources.git.address import split_git_url
from gb10.sources.git.archive import resolve
from gb10.sources.web import SHOWN, public

COMMITS: Final = "commits"
START: Final = "git:"


@dataclass(frozen=True, kw_only=True, slots=True)
class GitCommit:
    """A commit as the user names it."""

    url: str
    commit: str

    def __str__(self) -> str:
        return f"{public(self.url)}@{self.commit[:12]}"


def split_refs(refs: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The releases among ``--ref``, and the commits as ``--source`` takes them."""
    releases = {name: text for name, text in refs.items() if not text.startswith(START)}
    return releases, tuple(f"{name}={text}" for name, text in refs.items() if name not in releases)


def parse_commit(source: str, text: str) -> GitCommit:
    """``git:URL@COMMIT``; raises UsageError for anything else, and for a place that is not read."""
    url, _, commit = text.removeprefix(START).rpartition("@")
    shown = f"{source}={START}{ascii(without_logins(url))[1:-1][:SHOWN]}"
    try:
        parts = split_git_url(url)
    except ValueError as error:
        raise UsageError(
            f"{shown}: the URL cannot be read: {error}", hint="write git:https://HOST/PATH@COMMIT"
        ) from error
    if parts is None:
        raise UsageError(
            f"{shown} names no git repository that is read",
            hint="write git:https://HOST/PATH@COMMIT (or ssh://, file://)",
        )
    if not COMMIT.fullmatch(commit):
        raise UsageError(
            f"{shown}@{ascii(commit)[1:-1][:SHOWN]}: a commit has 40 digits; a branch or a tag can move",
            hint=f"git ls-remote {public(url)} NAME prints the commit of a branch or a tag",
        )
    return GitCommit(url=url, commit=commit)


def open_commit(host: Host, source: str, named: GitCommit) -> tuple[Worktree, Tree, frozenset[str]]:
    """The files of a commit, and the names of its links, which are not compared. Raises FetchError, PatchError."""
    path = _file(host, source, named)
    links, modules = _odd(path)
    tree = open_tree(path)
    worktree = Worktree(
        root=path, files=tree.paths(), git=True, commit=named.commit, modules=modules, url=public(named.url)
    )
    return worktree, tree, links


def _file(host: Host, source: str, named: GitCommit) -> Path:
    """The tar of a commit in the store, fetched when it is not there."""
    note = host.store.entry(COMMITS, named.commit) / f"{source}-0+g{named.commit[:12]}.tar"
    with host.store.locked(f"commit-{named.commit}", host.reporter.waiting_for(note.name)):
        known = pinned_sha256(note)
        path = downloaded_file(host, note.name, known) if known else None
        if path:
            return path
        with host.reporter.task(f"fetch {source} {named}"):
            made = resolve(host.store, host.env, note.name, Checkout(named.url, named.commit))
        found = made.checkout.commit if made.checkout else ""
        if found != named.commit:
            raise FetchError(f"{named} is another commit: {found}", hint="name a commit, not a tag object")
        write_note(host, note, made.sha256)
        return stored(host.store, made)


def _odd(path: Path) -> tuple[frozenset[str], tuple[str, ...]]:
    """The links of a tree, and its empty folders: in git's archives these are submodules."""
    links, folders, filled = set[str](), set[str](), set[str]()
    with tarfile.open(path, mode="r:") as archive:
        for member in archive:
            name = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            filled.update(map(str, name.parents))
            if member.isdir():
                folders.add(str(name))
            elif not member.isfile():
                links.add(str(name))
    return frozenset(links), tuple(sorted(folders - filled - {"."}))


SECTION: Final = "checkouts"
INSTALLED, COMPILED = "checkout.patch", "checkout-compiled.patch"
"""Two diffs: a change to installed files alone does not cause a recompile."""
Place = Path | GitCommit
"""Where a user's source is: a directory, or a commit of a repository."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnSource:
    """A source with the user's changes: the diffs in the store, and their origin."""

    source: str
    diffs: tuple[Path, ...]
    taken: Taken

    @property
    def by_hand(self) -> tuple[str, ...]:
        """In the format of ``--patch``."""
        return tuple(f"{self.source}={path}" for path in self.diffs)


def own_sources(
    ctx: Context, recipe: Recipe, lock: Lock, target: Architecture, named: Sequence[str]
) -> tuple[OwnSource, ...]:
    """Find and report the changes of each ``NAME=PLACE`` to its locked release. Writes only the diffs, to the store.

    Raises UsageError for a wrong checkout, PatchError for a change that a diff cannot hold, FetchError.
    """
    given = _places_by_source(named)
    released = {source: released_source(ctx, recipe, lock, target, source) for source in given}
    return tuple(_own(ctx, recipe, released[source], given) for source in given)


def with_checkout_names(
    uses: Iterable[PatchUse], own: Iterable[OwnSource], origins: Mapping[str, str]
) -> tuple[PatchUse, ...]:
    """The patches; those from a checkout carry its name. ``origins``: the diff that each part was made from."""
    taken = {str(path): one.taken for one in own for path in one.diffs}
    return tuple(replace(use, taken=taken.get(origins.get(use.path or "", use.path or ""))) for use in uses)


def _places_by_source(named: Sequence[str]) -> dict[str, Place]:
    given: dict[str, Place] = {}
    for text in named:
        source, _, path = text.partition("=")
        if not source or not path:
            raise UsageError(
                f"--source {text}: expected NAME=DIR",
                hint="--source vllm=../vllm\n--source vllm=git:https://HOST/PATH@COMMIT",
            )
        if source in given:
            raise UsageError(f"--source {source} is given twice", where=f"{given[source]}\n{path}")
        given[source] = parse_commit(source, path) if path.startswith(START) else Path(path)
    for place in given.values():
        if isinstance(place, Path):
            require_folder(place)  # before the releases for the comparison are fetched
    return given


def _own(host: Host, recipe: Recipe, released: Released, given: Mapping[str, Place]) -> OwnSource:
    place = given[released.source]
    if isinstance(place, Path):
        checkout, links = open_worktree(place, host.env), frozenset[str]()
        tree: Tree = Files(checkout.root)
    else:
        checkout, tree, links = open_commit(host, released.source, place)
    check_checkout_release(released, checkout, tree)
    bundled = (*released.bundled, *checkout.modules)
    found = compare(released.layout, released.tree, tree, checkout.files, bundled=bundled)
    unseen = links if checkout.url else ignored(checkout, host.env, found.gone)
    found = replace(found, gone=tuple(sorted({*found.gone} - unseen)))
    check_difference(recipe, released, checkout, found, given)
    for line in change_notes(released, checkout, found):
        host.reporter.say(line)
    parts = ((INSTALLED, found.installed), (COMPILED, found.compiled))
    return OwnSource(
        source=released.source,
        diffs=tuple(store_diff(host.store, name, changed) for name, changed in parts if changed),
        taken=Taken(path=str(checkout), commit=checkout.commit, dirty=checkout.dirty),
    )


def released_source(ctx: Context, recipe: Recipe, lock: Lock, target: Architecture, source: str) -> Released:
    """The locked release: its source archive, else the image's wheel. Raises UsageError, FetchError."""
    releases = load_releases(ctx.catalog.patches)
    place = find_place(releases, source, lock, locked_releases(lock, target))
    if place is None:
        raise UsageError(
            f"--source {source}: the {recipe.engine} image does not contain {source}",
            hint="choose an engine that uses this source: --engine",
        )
    named = next((name for name in recipe.sources if recipe.project(name) == place.project), None)
    wheels = artifacts(recipe, (wheel for wheel in lock.wheels.image[target] if wheel.name == place.project))
    file = source_archive(named, recipe, lock) if named else wheels[0]
    fetch_locked(ctx, [file])
    tree = open_stored(ctx.store, store_paths(ctx.store, [file])[0], file)
    others = ((name, known.bundled(file.sha256)) for name, known in releases.sources.items() if name != source)
    bundled = {found[1]: name for name, found in others if found and not place.folder}
    tree = Below(tree, place.folder) if place.folder else tree
    required = not place.folder and place.project in {requirement_name(text) for text in recipe.requirements}
    known = releases.source(source)
    return Released(
        source=source,
        place=place,
        tree=tree,
        bundled=bundled,
        layout=known.layout,
        told=known.told,
        required=required,
    )


def store_diff(store: Store, name: str, changed: Mapping[str, Both]) -> Path:
    """The diff in the store, by its content; raises PatchError for a diff that is too large."""
    text = diff_text(changed)
    check_size(len(text), name)
    entry = store.entry(SECTION, hashlib.sha256(text).hexdigest())

    def write(work: Path) -> None:
        (work / name).write_bytes(text)

    with store.locked(f"checkout-{entry.name}"):
        if not entry.exists():
            store.replace(entry, write)
        note_use(entry / name)
    return entry / name
