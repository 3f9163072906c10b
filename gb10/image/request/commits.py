"""``--ref NAME=git:URL@COMMIT``: a commit of a git repository, fetched once; the store keeps its files by sha256."""

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.core.fetch import stored
from gb10.core.files import COMMIT, Checkout
from gb10.core.host import Host
from gb10.core.proc import without_logins
from gb10.errors import FetchError, UsageError
from gb10.image.request.checkout_files import Worktree
from gb10.image.request.noted import kept, noted, write_note
from gb10.patches.source_tree import Tree, open_tree
from gb10.sources.git.address import split_git_url
from gb10.sources.git.archive import resolve
from gb10.sources.web import SHOWN, public

ROOM: Final = "commits"
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
    note = host.store.entry(ROOM, named.commit) / f"{source}-0+g{named.commit[:12]}.tar"
    with host.store.locked(f"commit-{named.commit}", host.reporter.waiting_for(note.name)):
        known = noted(note)
        path = kept(host, note.name, known) if known else None
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
