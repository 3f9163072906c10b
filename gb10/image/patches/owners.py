"""A diff given by hand, file by file: the source that each belongs to, and its path there. Pure.

People make diffs in a repository, in a checkout below another folder, over an installed package, or over the sources
that a wheel or an archive bundles. All of these name the same file.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from gb10.errors import PatchError, UsageError
from gb10.image.patches.diff import HUNK, NOTHING, FileDiff, parse_diff, split
from gb10.image.patches.places import harmless, installed
from gb10.image.patches.releases import Releases
from gb10.image.patches.write import COMPILED


@dataclass(frozen=True, slots=True)
class Section:
    """One file of a diff, with its hunks as they are written there."""

    diff: FileDiff
    hunks: bytes

    def at(self, path: str) -> bytes:
        """The same change of the file at another path, as git writes it."""
        name = path.encode("utf-8", "surrogateescape")
        kind = {"add": b"new file mode 100644\n", "delete": b"deleted file mode 100644\n", "change": b""}
        old, new = (
            NOTHING.encode() if self.diff.kind == gone else side + name
            for gone, side in (("add", b"a/"), ("delete", b"b/"))
        )
        head = b"diff --git a/%s b/%s\n%s" % (name, name, kind[self.diff.kind])
        return head + (b"--- %s\n+++ %s\n%s" % (old, new, self.hunks) if self.hunks else b"")


def sections(text: bytes, name: str) -> Mapping[str, Section]:
    """The files of a diff by path. Raises PatchError as ``parse_diff``."""
    diffs = parse_diff(text, name)
    groups = iter(_hunks(split(text)))
    return {diff.path: Section(diff, next(groups) if diff.hunks else b"") for diff in diffs}


def _hunks(lines: Sequence[bytes]) -> Iterator[bytes]:
    """The hunks of each file that has some, of a diff that is known to be one."""
    found: list[bytes] = []
    at = 0
    while at < len(lines):
        head = HUNK.match(lines[at])
        if head is None:
            if found:
                yield b"".join(found)
            found, at = [], at + 1
            continue
        end = _end(lines, at + 1, int(head[2] or 1), int(head[4] or 1))
        found += lines[at:end]
        at = end
    if found:
        yield b"".join(found)


def _end(lines: Sequence[bytes], at: int, old: int, new: int) -> int:
    """Where a hunk ends that has so many lines of the old and of the new file."""
    while old or new or (lines[at : at + 1] and lines[at].startswith(b"\\ ")):
        sign = lines[at][:1]
        old -= sign not in (b"+", b"\\")
        new -= sign not in (b"-", b"\\")
        at += 1
    return at


SITE: Final = re.compile(r"\A(?:.*/)?(?:dist|site)-packages/")
"""The folder of installed packages, and all above it."""
COPY: Final = re.compile(r"(\.orig|\.old|\.bak|~)$")
"""What people append to the name of the file before their change."""
NAMES: Final = re.compile(
    rb"(?m)^--- ([^\t\r\n]+)((?:[\t\r][^\n]*)?)\n\+\+\+ ([^\t\r\n]+)((?:[\t\r][^\n]*)?)\n"
    rb"(?=@@ (-0,0 )?(?:-\S+ )?(\+0,0 )?)"
)
EPOCH: Final = re.compile(
    rb"\t(?:1970-01-01|1969-12-31) \d\d:\d\d:00(?:\.0+)? [-+]\d\d:?\d\d|\t\((?:nonexistent|revision 0)\)"
)
"""What diff and svn write behind the name of a file that is not there."""
CONTEXT: Final = re.compile(rb"(?m)^\*{15}.*\r?\n\*\*\* \d")
"""A hunk of a context diff."""
GIT: Final = re.compile(rb"(?m)^diff --git (\S+) (\S+)$")
CODE: Final = frozenset((".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".inl", ".rs", ".cmake"))
"""What only a compiler reads."""
UNREAD: Final = ("requirements/", "docker/", "scripts/", "tools/", "assets/", "ci/", "evaluation/", "licenses/")
"""Folders of a repository, beside those of tests and docs, that nothing in an image reads."""
LISTED: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What a diff changes of one source. ``diffs`` have the source's own paths, ``text`` is a diff of them."""

    source: str
    diffs: tuple[FileDiff, ...]
    text: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Divided:
    """A diff by source. ``moved``: paths as the diff has them, and as their source has them, where they differ;
    ``unread``: files that nothing in an image reads; ``whole``: the one part is the diff as it was given; ``located``:
    of ``moved``, what shows no folder of its source and was looked for."""

    parts: tuple[Part, ...]
    moved: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    whole: bool = False
    located: Mapping[str, str] = field(default_factory=dict)


Find = Callable[[Sequence[FileDiff]], Mapping[str, tuple[str, str]]]
"""Looks for files whose paths show no source: by path, the source and the path there; raises UsageError."""


def divide(text: bytes, name: str, releases: Releases, named: str | None = None, find: Find | None = None) -> Divided:
    """A diff by source; ``named`` is the source that the user names. Raises PatchError, UsageError, what ``find``
    raises."""
    if CONTEXT.search(text):
        raise PatchError(f"{name} is a context diff", hint="make a unified one: diff -ru OLD NEW, or git diff")
    given, text = text, with_plain_names(text, releases)
    diffs = parse_diff(text, name)
    known = {diff.path: owner_of(releases, diff.path) for diff in diffs}
    located = find([diff for diff in diffs if known[diff.path][0] is None]) if find else {}
    known |= located
    main = _main(releases, name, {path: place[0] for path, place in known.items()}, named)
    found: dict[str, list[FileDiff]] = {}
    moved: dict[str, str] = {}
    unread: list[str] = []
    for diff in diffs:
        source, path = known[diff.path][0] or main, known[diff.path][1]
        if _unread(releases, source, path):
            unread.append(diff.path)
            continue
        if known[diff.path][0] is None:
            _check_place(releases, source, path, name)
        if path != diff.path:
            moved[diff.path] = path
        found.setdefault(source, []).append(diff)
    if not found:
        raise UsageError(
            f"{name} changes nothing that an image of gb10 has",
            where="\n".join(unread[:LISTED]),
            hint="requirements and releases are changed by --ref, files of the image by --overlay DIR",
        )
    files = sections(text, name)
    return Divided(
        parts=tuple(_part(source, changed, moved, files) for source, changed in found.items()),
        moved=moved,
        unread=tuple(unread),
        whole=text == given and len(found) == 1 and not moved and not unread,
        located={path: place for path, (_, place) in located.items()},
    )


def _part(source: str, changed: Sequence[FileDiff], moved: Mapping[str, str], files: Mapping[str, Section]) -> Part:
    places = [moved.get(diff.path, diff.path) for diff in changed]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice:
        raise PatchError(f"two files of the diff are {twice} of {source}", hint="join their hunks under one header")
    return Part(
        source=source,
        diffs=tuple(FileDiff(place, diff.kind, diff.hunks) for place, diff in zip(places, changed, strict=True)),
        text=b"".join(files[diff.path].at(place) for place, diff in zip(places, changed, strict=True)),
    )


def below(part: Part, folder: str, source: str) -> Part:
    """The same changes for the source that bundles this one in a folder."""
    files = sections(part.text, source)
    return Part(
        source=source,
        diffs=tuple(FileDiff(f"{folder}/{diff.path}", diff.kind, diff.hunks) for diff in part.diffs),
        text=b"".join(files[diff.path].at(f"{folder}/{diff.path}") for diff in part.diffs),
    )


def only(part: Part, paths: Collection[str]) -> Part:
    """The part without other files than these."""
    files = sections(part.text, part.source)
    diffs = tuple(diff for diff in part.diffs if diff.path in paths)
    return Part(source=part.source, diffs=diffs, text=b"".join(files[diff.path].at(diff.path) for diff in diffs))


def owner_of(releases: Releases, path: str) -> tuple[str | None, str]:
    """The source that owns a path, and the path as this source has it; None where no source can be told from it."""
    path = SITE.sub("", path)
    if found := _owned(releases, path):
        return found
    if harmless(path) or path.startswith(COMPILED):
        return None, path
    parts = PurePosixPath(path).parts
    inner = ("/".join(parts[at:]) for at in range(len(parts) - 1, 0, -1))
    return next((found for rest in inner if (found := _owned(releases, rest))), (None, path))


def _owned(releases: Releases, path: str) -> tuple[str, str] | None:
    """The owner of a path that starts at a repository's, an archive's or a package's root."""
    for name, source in releases.sources.items():
        for folder in _bundles(releases, name):
            if path.startswith(f"{folder}/"):
                return name, path.removeprefix(f"{folder}/")
        for folder in source.owns:
            if path.startswith(f"{folder}/"):
                return name, path
    for name, layout in releases.layouts.items():
        for folder, place in layout.in_wheel.items():
            if path.startswith(f"{place}/"):
                return name, f"{folder}/{path.removeprefix(f'{place}/')}"
        if installed(path, layout):
            return name, path
    return None


def _bundles(releases: Releases, name: str) -> Iterator[str]:
    """Folders of other sources' archives and wheels that hold a source."""
    folders = {release.folder for release in releases.source(name).releases.values() if release.folder}
    for folder in sorted(folders):
        yield folder
        yield from (layout.in_wheel[folder] for layout in releases.layouts.values() if folder in layout.in_wheel)


def _main(releases: Releases, name: str, owners: Mapping[str, str | None], named: str | None) -> str:
    """The source of the files whose path shows none. Raises UsageError, PatchError."""
    found = dict.fromkeys(owner for owner in owners.values() if owner)
    if named is not None:
        layout = releases.source(named).layout
        bundled = [owner for owner in found if not layout.in_wheel.keys().isdisjoint(_bundles(releases, owner))]
        if found and named not in found and not bundled:
            other = [path for path, owner in owners.items() if owner]
            raise UsageError(
                f"--patch {named}={name}: it changes {' and '.join(found)}, not {named}",
                where="\n".join(other[:LISTED]),
                hint=f"leave the name out: --patch {name}",
            )
        return named
    own = [owner for owner in found if not releases.source(owner).told] or list(found)
    if len(own) == 1 or (own and all(owners.values())):
        return own[0]
    strange = [path for path, owner in owners.items() if owner is None]
    what = f"files of {' and '.join(own)}, and others" if own else "no package that we know"
    raise PatchError(
        f"{name} changes {what}",
        where="\n".join(strange[:LISTED]),
        hint=f"name its source: --patch SOURCE=FILE (SOURCE: {', '.join(releases.sources)})",
    )


def _unread(releases: Releases, source: str, path: str) -> bool:
    """Whether nothing of an image, and no compile, reads a file. The build of a recipe's own source may read any."""
    if not releases.source(source).releases:
        return False
    if releases.source(source).owns and releases.source(source).told:
        return not path.startswith(tuple(f"{folder}/" for folder in ("include", "tools/util/include")))
    layout = releases.source(source).layout
    if installed(path, layout) or path.startswith(COMPILED) or PurePosixPath(path).suffix in CODE:
        return False
    return not harmless(path) and ("/" not in path or path.startswith((*UNREAD, ".")))


def _check_place(releases: Releases, source: str, path: str, name: str) -> None:
    """Raise UsageError for a file that a package would hold, at a path that none has."""
    layout = releases.source(source).layout
    compiled = path.startswith(COMPILED) or PurePosixPath(path).suffix in CODE
    if harmless(path) or compiled or not layout.packages or not releases.source(source).releases:
        return
    there = ", ".join(f"{folder}/…" for folder in (*layout.in_repository, *layout.packages))
    raise UsageError(
        f"{name} changes {path}, which is no path of {source}",
        where=f"files of {source} that an image has are {there}",
        hint="make the diff at the repository's root: its paths start with a/ and b/, then such a folder",
    )


def with_plain_names(text: bytes, releases: Releases) -> bytes:
    """The diff with paths as git writes them: those below installed packages, of copies, and without a/ and b/."""
    packages = {folder for layout in releases.layouts.values() for folder in layout.packages}

    def names(match: re.Match[bytes]) -> bytes:
        old, new = (match[at].decode("utf-8", "surrogateescape") for at in (1, 3))
        plain = _plain(old, new, packages)
        made = match[5] is not None and EPOCH.match(match[2]) is not None
        gone = match[6] is not None and EPOCH.match(match[4]) is not None
        first, second = match[1], match[3]
        if plain is not None:
            path = plain.encode("utf-8", "surrogateescape")
            first, second = (b"a/" + path, b"b/" + path)
        first = NOTHING.encode() if made or old == NOTHING else first
        second = NOTHING.encode() if gone or new == NOTHING else second
        return b"--- %s%s\n+++ %s%s\n" % (first, match[2], second, match[4])

    def header(match: re.Match[bytes]) -> bytes:
        plain = _plain(
            match[1].decode("utf-8", "surrogateescape"), match[2].decode("utf-8", "surrogateescape"), packages
        )
        if plain is None:
            return match[0]
        path = plain.encode("utf-8", "surrogateescape")
        return b"diff --git a/%s b/%s" % (path, path)

    return NAMES.sub(names, GIT.sub(header, text))


def _plain(old: str, new: str, packages: set[str]) -> str | None:
    """The one path of a pair of names; None where git's own reading is right."""
    there = [side for side in (old, new) if side != NOTHING]
    site = next((side for side in reversed(there) if SITE.match(side)), None)
    if site is not None:
        return SITE.sub("", COPY.sub("", site))
    return _in_folders(there[0], there[-1], packages) if there else None


def _in_folders(old: str, new: str, packages: set[str]) -> str | None:
    """As ``_plain``, of two names that are not below installed packages."""
    name = COPY.sub("", old)
    parts, others = PurePosixPath(name).parts, PurePosixPath(new).parts
    if len(parts) == 1 and parts == others and name not in packages:  # made beside the file itself
        return name
    if parts[1:] != others[1:]:
        return _shared(parts, others, packages)
    for one, other in ((others, parts), (parts, others)):  # git diff --no-prefix, diff -ru vllm.orig vllm
        if len(one) > 1 and one[0] in packages and one[1] not in packages and other[0].startswith(one[0]):
            return "/".join(one)
    return "/".join(others[1:]) if name != old and len(others) > 1 else None


def _shared(one: Sequence[str], other: Sequence[str], packages: Collection[str]) -> str | None:
    """The path of a package's file at the end of two paths whose folders above it differ; None without one."""
    same = 0
    while same < min(len(one), len(other)) and one[-1 - same] == other[-1 - same]:
        same += 1
    tail = one[len(one) - same :]
    start = next((at for at, part in enumerate(tail[:-1]) if part in packages), None)
    return None if start is None else "/".join(tail[start:])
